"""Names of things: streams, segments, idempotency keys, effects.

A stream is one small state machine, named by tenant, kind and id. A segment is one entry of its history,
named by the stream and the version it led to. An effect is named by its segment and its place in it.
All are plain tuples, so they hash and sort fast, and every adapter sorts them the same way.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from betimes.core.errors import Invalid

ID_CHARS_MAX = 200
_ID = re.compile(r"[A-Za-z0-9_+*][A-Za-z0-9._~:@+|=*-]{0,199}", re.ASCII)
ID_FIRST, ID_LAST = "*", "z" + "~" * (ID_CHARS_MAX - 1)
"""In the order of ids, none is before the one or behind the other."""
_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
# At most 18 digits, so that whatever is parsed fits the 64 bits of a column.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_ID_RULE = f"1–{ID_CHARS_MAX} characters of A-Z a-z 0-9 . _ ~ : @ + | = * -, starting with one of A-Z a-z 0-9 _ + *"


class StreamId(NamedTuple):
    """A stream: `(tenant, kind, id)`."""

    tenant: str
    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.kind}/{self.id}"


class KeyId(NamedTuple):
    """An idempotency key, unique within a tenant's collection (`triggers`, `notifications`, …)."""

    tenant: str
    collection: str
    key: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.collection}/{self.key}"


class EffectId(NamedTuple):
    """An effect: the segment that caused it and its place among that segment's effects."""

    tenant: str
    kind: str
    id: str
    version: int
    place: int

    @property
    def source(self) -> StreamId:
        return StreamId(self.tenant, self.kind, self.id)

    @property
    def handle(self) -> str:
        """Return the same name as one opaque string, unique within the tenant."""
        return f"{self.kind}:{self.id}:{self.version}:{self.place}"


def checked_stream(tenant: str, kind: str, id: str) -> StreamId:
    """Return the stream id; raise `Invalid` with every part that is not well formed."""
    check_stream(tenant, kind, id)
    return StreamId(tenant, kind, id)


def check_stream(tenant: str, kind: str, id: str) -> None:
    """Raise `Invalid` with every part of a stream id that is not well formed."""
    # Nearly every name is well formed; what to say of one that is not is put together only then.
    if _ID.fullmatch(id) and _KIND.fullmatch(kind) and _ID.fullmatch(tenant):
        return
    problems = tuple(
        (part, f"{value[:40]!r} is not a valid {part}: {rule}")
        for part, value, pattern, rule in (
            ("tenant", tenant, _ID, _ID_RULE),
            ("kind", kind, _KIND, "1–32 characters of a-z 0-9 _, starting with a letter"),
            ("id", id, _ID, _ID_RULE),
        )
        if not pattern.fullmatch(value)
    )
    raise Invalid("; ".join(message for _, message in problems), problems)


def segment_handle(stream: StreamId, version: int) -> str:
    """Return the handle `/v1/explain` takes: `{kind}:{id}:{version}`; the tenant comes from the caller."""
    return f"{stream.kind}:{stream.id}:{version}"


def parse_segment_handle(tenant: str, handle: str) -> tuple[StreamId, int]:
    """Return the stream and version of a segment handle; raise `Invalid` if it is none."""
    kind, _, rest = handle.partition(":")
    # An id may hold colons itself; a kind and a version cannot.
    id, _, version = rest.rpartition(":")
    if not _NUMBER.fullmatch(version):
        raise Invalid(
            f"{handle[:80]!r} is not a segment id; it looks like kind:id:version", (("segment_id", "malformed"),)
        )
    return checked_stream(tenant, kind, id), int(version)


def segment_cause(segment_id: str) -> str:
    """Return the cause of a command that a worker submits because of a segment, where no effect of it is to name.

    It is an effect's handle without the place: a segment's own handle might be read as an effect of another stream.
    """
    return f"{segment_id}:"


def parse_cause(tenant: str, cause: str) -> tuple[str, str | None]:
    """Return the segment that a cause names and its effect, if it names one; raise `Invalid` if it is no cause."""
    if cause.endswith(":"):
        return segment_handle(*parse_segment_handle(tenant, cause[:-1])), None
    effect = parse_effect_handle(tenant, cause)
    return segment_handle(effect.source, effect.version), cause


def parse_effect_handle(tenant: str, handle: str) -> EffectId:
    """Return the effect id of a handle; raise `Invalid` if it is none."""
    segment, _, place = handle.rpartition(":")
    if not _NUMBER.fullmatch(place):
        raise Invalid(
            f"{handle[:80]!r} is not an effect id; it looks like kind:id:version:place", (("effect_id", "malformed"),)
        )
    stream, version = parse_segment_handle(tenant, segment)
    return EffectId(*stream, version, int(place))
