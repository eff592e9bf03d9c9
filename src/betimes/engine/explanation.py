"""Why: one segment of the ledger, with its verdict's trace written out for people."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.errors import NotFound
from betimes.core.instants import render
from betimes.core.segments import Segment
from betimes.core.streams import StreamId, segment_handle
from betimes.core.verdicts import ExplainedStep, Verdict
from betimes.engine.codecs import Kinds
from betimes.engine.store import EffectQuery, EffectRow, LedgerQuery, Store

TURN_MAX = 100
"""How many segments before one are looked at for the first of its turn, which is written next to it."""
FOLLOWING_MAX = 200
"""How many of its tenant after one are looked at for those it led to; its correlation finds as many again."""


class Explanation(msgspec.Struct, frozen=True):
    """A segment, what it decided, every rule that was looked at, and what it caused."""

    segment: Segment
    verdict: Verdict | None
    steps: list[ExplainedStep]
    summary: str
    policy: dict[str, Any] | None
    same_turn: list[Segment]
    """The other segments of the turn."""
    first_of_turn: Segment
    """The one that carries the command."""
    caused: list[Segment]
    """Those it led to: the others of its turn, what it sent to other streams, and what workers did because of it. Of a
    worker's report also what the worker did for it, which stands before it."""
    effects: list[EffectRow]


async def explain(store: Store, kinds: Kinds, stream: StreamId, version: int) -> Explanation:
    """Explain one segment, or `NotFound`."""
    _, page = await store.history(stream, version - 1, 1)
    if not page or page[0].version != version:
        raise NotFound(f"there is no segment {segment_handle(stream, version)}; it was never written, or it was pruned")
    segment = page[0]
    verdict = kinds.of(stream).recorded(segment).verdict
    table = kinds.tables.get(verdict.table) if verdict else None
    steps = table.explain(verdict) if verdict and table else []
    body = await store.policy(segment.policy)
    # One page finds both: the others of its turn stand next to it, and what it caused soon after.
    near = await store.ledger(
        LedgerQuery(after=max(segment.seq - TURN_MAX, 0), tenant=stream.tenant, limit=TURN_MAX + FOLLOWING_MAX)
    )
    same_turn = [other for other in near if other.turn == segment.turn and other.handle != segment.handle]
    effects = await store.effects(EffectQuery(source=stream, version=version))
    # What one command wrote to several streams is told of the segment that carries the command.
    return Explanation(
        segment,
        verdict,
        steps,
        summarise_segment(segment, verdict, steps),
        msgspec.json.decode(body) if body else None,
        same_turn,
        next((other for other in same_turn if segment.command is None and other.command is not None), segment),
        await _find_caused(store, segment, near),
        effects,
    )


async def _find_caused(store: Store, segment: Segment, near: list[Segment]) -> list[Segment]:
    """Return the segments that one led to, as far as they follow it closely or share its correlation."""
    after = 0 if _is_report(segment) else segment.seq
    query = LedgerQuery(after=after, tenant=segment.stream.tenant, correlation=segment.correlation, limit=FOLLOWING_MAX)
    related = await store.ledger(query) if segment.correlation else []
    found = {
        other.seq: other for other in (*near, *related) if _is_caused_by(other, segment) or _is_done_for(other, segment)
    }
    return [found[seq] for seq in sorted(found)]


def _is_report(segment: Segment) -> bool:
    """Return whether a worker reports here what came of an earlier segment of the stream."""
    return segment.cause.endswith(":") and segment.cause.startswith(f"{segment.stream.kind}:{segment.stream.id}:")


def _is_done_for(other: Segment, report: Segment) -> bool:
    """Return whether a worker did something, in another stream, for what it then reported."""
    is_same_work = other.cause == report.cause and other.correlation == report.correlation
    return is_same_work and other.stream != report.stream and _is_report(report)


def _is_caused_by(other: Segment, segment: Segment) -> bool:
    if other.turn == segment.turn:
        return other.command is None and segment.command is not None
    names_it, place = other.cause.startswith(f"{segment.handle}:"), other.cause[len(segment.handle) + 1 :]
    return names_it and ":" not in place  # else it is an effect of a stream whose id begins like this


def summarise_segment(
    segment: Segment, verdict: Verdict | None, steps: list[ExplainedStep], *, answer: str | None = None
) -> str:
    """A few sentences: what was decided, in the domain's own word for it if there is one, and what bound it."""
    if verdict is None and answer:
        return f"{answer} without checking a rule, at {render(segment.at)}."
    if verdict is None:
        return f"{segment.handle} was written at {render(segment.at)} and made no decision."
    until = f", until {render(verdict.until)}" if verdict.until else ""
    # The last reason is of this judgement, those before are why it was put off until then.
    *earlier, last = verdict.reasons or ("",)
    after = f", after {', '.join(earlier)}" if earlier else ""
    judged = f"{answer or verdict.answer} because of {last}{after}{until}, at {render(segment.at)}."
    binding = [step.sentence for step in steps if step.matched and step.mode == "enforce" and step.sentence]
    return " ".join([judged, *(sentence[0].upper() + sentence[1:] + "." for sentence in binding)])
