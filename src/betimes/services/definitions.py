"""What schedules and sensors have in common as definitions: versions, patches, ids, and refusals in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from betimes.core.checking import checked
from betimes.core.deciders import Command
from betimes.core.errors import Invalid, NotFound, Refused, VersionMismatch
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.domains.runs.model import run_stream
from betimes.engine.store import LedgerQuery
from betimes.services.automation_views import RunBrief, run_brief
from betimes.services.caller import Service

Request = TypeVar("Request")
Row = TypeVar("Row")
PATCH_TRIES = 5
PAGES_MAX = 20
"""Pages of the ledger that one list looks through; what is left is behind its cursor."""


class Definitions(Service):
    """A domain whose streams are made, changed and removed by people."""

    async def change(
        self, stream: StreamId, command: Command, *, key: str | None = None, request: str = ""
    ) -> Recorded:
        """Submit, with refusals that every definition knows as the errors they are."""
        try:
            return await self.submit(
                stream, command, key=key, collection=f"{stream.kind}s" if key else "", request=request
            )
        except Refused as refused:
            known = {"NOT_FOUND": NotFound, "VERSION_MISMATCH": VersionMismatch, "INVALID": Invalid}
            if refused.reason not in known:
                raise
            raise known[refused.reason](str(refused)) from None

    async def found(self, stream: StreamId) -> Any:
        """The state, or `NotFound`."""
        state = await self.state(stream)
        if state is None:
            raise NotFound(f"there is no {stream.kind} {stream.id!r}")
        return state

    async def segment(self, stream: StreamId, version: int) -> Segment | None:
        """One segment of a stream, if it was not pruned."""
        _, segments = await self.engine.store.history(stream, version - 1, 1)
        return segments[0] if segments and segments[0].version == version else None

    async def rows_back(
        self,
        stream: StreamId,
        place: tuple[int, int] | None,
        limit: int,
        rows_of: Callable[[Segment], Iterable[tuple[int, Row]]],
        is_wanted: Callable[[Row], bool],
    ) -> tuple[list[Row], tuple[int, int] | None]:
        """Up to `limit` rows that a stream's segments hold, newest first, and where the next page starts.

        A place is a segment and one of its rows, counted from 1: the next page starts before it.
        """
        resumed, row_before = place or (0, 0)
        before = resumed + 1 if place else 0
        found: list[Row] = []
        last = (0, 0)
        for _ in range(PAGES_MAX):
            segments = await self._segments_back(stream, before, limit + 1)
            for segment in segments:
                for number, row in reversed(list(rows_of(segment))):
                    if (segment.seq == resumed and number >= row_before) or not is_wanted(row):
                        continue
                    if len(found) == limit:
                        return found, last
                    found.append(row)
                    last = (segment.seq, number)
            if len(segments) <= limit:
                return found, None
            before = segments[-1].seq
        return found, (before, 0)

    async def _segments_back(self, stream: StreamId, before: int, limit: int) -> list[Segment]:
        query = LedgerQuery(
            after=before, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id, limit=limit
        )
        return await self.engine.store.ledger(query)

    async def runs(self, run_ids: list[str]) -> dict[str, RunBrief]:
        """What became of runs, as far as they exist."""
        streams = [run_stream(self.caller.tenant, run_id) for run_id in dict.fromkeys(run_ids)]
        rows = await self.engine.store.load(streams) if streams else {}
        kinds = self.engine.kinds
        states = {name.id: kinds.of(name).state(name, row.schema, row.state) for name, row in rows.items()}
        return {run_id: brief for run_id, state in states.items() if (brief := run_brief(state))}


def request_of(body: Mapping[str, Any], kind: type[Request], read_only: frozenset[str]) -> Request:
    """The request a body makes: read-only fields that are sent back are ignored, all others are checked."""
    return checked({name: value for name, value in body.items() if name not in read_only}, kind)


def patched(view: msgspec.Struct, patch: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a definition with a JSON Merge Patch laid over them; `null` restores a default."""
    shown = msgspec.to_builtins(view)
    now = {name: shown[name] for name in fields}
    merged: dict[str, Any] = _merged(now, patch)
    return {name: value for name, value in merged.items() if value is not None}


def _merged(base: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(base) if isinstance(base, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def generated_id(prefix: str, key: str | None) -> str:
    """An id nobody chose; the same for the same idempotency key."""
    return f"{prefix}_{sha256(key.encode()).hexdigest()[:20] if key else uuid4().hex[:20]}"


def named(problems: tuple[tuple[str, str], ...]) -> None:
    """Raise `Invalid` with every problem, if there is one."""
    if problems:
        listed = "; ".join(f"{path or 'the body'}: {message}" for path, message in problems)
        count = f"{len(problems)} fields are" if len(problems) > 1 else "1 field is"
        raise Invalid(f"{count} wrong: {listed}", problems)
