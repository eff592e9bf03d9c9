"""Segments: the entries of a stream's history, chained by digests.

A segment is one command's outcome for one stream. A turn that touches several streams writes one for each,
under one turn id; the first carries the command, and in its text as `note` why it was asked for, if somebody said so.
Each row holds the digest of the one before it (`prev`) and its own, which covers every column, so a changed byte
anywhere is named by the row it is in.

The head of a store is a sum over the digests that its streams end in: a new segment adds its digest and takes away the
one before it, whatever the order of commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from betimes.core.bounds import text_problem
from betimes.core.canonical import CANONICAL, encode
from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.streams import KeyId, StreamId, segment_handle
from betimes.core.verdicts import Verdict

GENESIS = ""
HEAD_CHARS = 8
"""Of a digest in hexadecimal: what is added up, 32 bits, so that the sum of two thousand million streams fits."""
CHECKPOINT_TURN = "checkpoint"
NOTE_CHARS_MAX = 500
_NO_KEY = (None, None, None)


# Texts, numbers and tuples of them can be in no cycle, so the collector need not visit what batches make by the
# hundred.
class Segment(msgspec.Struct, frozen=True, gc=False):
    """One row of the ledger. `command`, `events`, `verdict` and `reply` are canonical JSON text."""

    stream: StreamId
    version: int
    turn: str
    at: Instant
    schema: int
    command: str | None
    events: str
    policy: str
    prev: str
    digest: str
    key: KeyId | None = None
    verdict: str | None = None
    reply: str | None = None
    actor: str = ""
    correlation: str = ""
    cause: str = ""
    seq: int = 0

    @property
    def handle(self) -> str:
        return segment_handle(self.stream, self.version)

    @property
    def note(self) -> str:
        """The caller's note: why it was asked for; may be empty."""
        # Few commands have one, and it is sought only where somebody reads.
        if self.command is None or '"note":' not in self.command:
            return ""
        with suppress(msgspec.MsgspecError):
            return _noted.decode(self.command).note or ""
        return ""

    @property
    def effect_cause(self) -> str:
        """The effect that sent the command; empty if a caller submitted it, or a worker that acts on a segment."""
        return "" if self.cause.endswith(":") else self.cause


class _Noted(msgspec.Struct):
    """A command, as far as its note goes."""

    note: str | None = None


_noted = msgspec.json.Decoder(_Noted)


def check_note(command: msgspec.Struct, note: str) -> None:
    """Refuse a note that is too long or no text, and one of a command that could not be read again with it."""
    problem, config = text_problem(note), command.__struct_config__
    if len(note) > NOTE_CHARS_MAX:
        problem = f"a note has at most {NOTE_CHARS_MAX} characters, not {len(note):,}"
    elif config.forbid_unknown_fields or config.array_like:
        problem = f"{type(command).__name__} takes no note, because its stored form has no room for one"
    if problem:
        raise Invalid(problem, (("note", problem),))


def write_note(command: Any, text: str, note: str) -> str:
    """Return the text of a command with a note in it; one that has a note of its own keeps that.

    Whoever decodes the command does not see it: nothing is ever decided by a note.
    """
    if "note" in command.__struct_encode_fields__:
        return text
    return f'{text[:-1]},"note":{encode(note)}}}'


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a submitted command, now or when its key was first seen."""

    stream: StreamId
    version: int
    at: Instant
    policy: str
    verdict: Verdict | None = None
    reply: Any = None
    replayed: bool = False

    @property
    def segment_id(self) -> str:
        return segment_handle(self.stream, self.version)


def segment_digest(segment: Segment) -> str:
    """Return the digest a segment's row must carry: every column, the one before included."""
    return chained_digest(
        segment.prev,
        segment.stream,
        segment.version,
        segment.turn,
        segment.at,
        segment.schema,
        segment.command,
        segment.events,
        segment.policy,
        segment.key,
        segment.verdict,
        segment.reply,
        segment.actor,
        segment.correlation,
        segment.cause,
    )


# Given column by column, since a segment cannot be made before its digest is known.
def chained_digest(
    prev: str,
    stream: StreamId,
    version: int,
    turn: str,
    at: Instant,
    schema: int,
    command: str | None,
    events: str,
    policy: str,
    key: KeyId | None,
    verdict: str | None,
    reply: str | None,
    actor: str,
    correlation: str,
    cause: str,
) -> str:
    """Return the SHA-256 over a segment's columns; `key` by its collection and text, its tenant being the stream's."""
    tenant, kind, id = stream
    _, collection, name = key or _NO_KEY
    written = (prev, tenant, kind, id, version, turn, at, schema, command, events, policy)
    said = (collection, name, verdict, reply, actor, correlation, cause)
    return sha256(CANONICAL.encode((*written, *said))).hexdigest()


def segment_of(columns: Iterable[Any]) -> Segment:
    """Return the segment in these columns, in the order in which every statement of every store selects them."""
    seq, tenant, kind, id, *rest = columns
    written, (collection, key), said = rest[:9], rest[9:11], rest[11:]
    key_id = None if key is None else KeyId(tenant, collection, key)
    values: tuple[Any, ...] = (StreamId(tenant, kind, id), *written, key_id, *said, seq)
    return Segment(*values)


# -- the head of all streams


class Head(NamedTuple):
    """The head of a store: its segments counted, the sum of its last digests, its effects counted."""

    segments: int = 0
    digest: int = 0
    effects: int = 0

    def __str__(self) -> str:
        return f"{self.segments}-{self.digest:x}"


def head_part(digest: str) -> int:
    """Return what a digest adds to the head; one that is none adds nothing, so that the sums differ."""
    try:
        return int(digest[:HEAD_CHARS], 16) if digest else 0
    except ValueError:
        return 0


def head_change(segments: Iterable[Segment]) -> Head:
    """Return what new segments add to the head; a checkpoint stands for segments that were counted already."""
    count = digest = 0
    for segment in segments:
        if segment.turn != CHECKPOINT_TURN:
            count += 1
            # Each takes the place of the one before it, so that the sum is over what the streams end in.
            digest += int(segment.digest[:HEAD_CHARS], 16) - head_part(segment.prev)
    return Head(count, digest)
