"""`betimes why`: why something was decided, whatever it is called by.

It takes a segment, an event id, an idempotency key, a person, an account, or the id of a schedule, a sensor, an intent
or a run, and finds the decisions itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from betimes.cli.bootstrap import Application
from betimes.cli.options import Tenant, on
from betimes.cli.output import say, show_json
from betimes.core.errors import NotFound
from betimes.domain.json_view import JsonView
from betimes.domain.service import Caller
from betimes.ledger.alternative_search import AlternativeChange, AlternativesView
from betimes.ledger.effect_commands import EVERY_DOMAIN
from betimes.ledger.search import SearchHit
from betimes.ledger.service import ExplanationView, Ledger, SegmentView
from betimes.ledger.timeline import TimelineView
from betimes.ledger.verdict_feed import VerdictEvent

LOOKED_BACK = timedelta(days=30)
SEGMENTS_MAX = 50
"""Of a stream, the newest that are looked at."""
RECENT_MAX = 8
"""Decisions about a person or an account that are shown."""
GOOD = frozenset({"NOW", "ALLOW", "success", "fired", "triggered", "no_change"})
"""Outcomes that nobody asks the why of, while there are others."""


class WhyView(JsonView, frozen=True, kw_only=True):
    """The decisions that were found, and the one that is asked about most likely, explained."""

    asked: str
    found_as: str
    """segment, key, correlation, person, account, or the kind of stream: schedule, sensor, intent, …"""
    recent: list[VerdictEvent]
    """Of a person, an account or a stream: the last decisions, newest first."""
    explanation: ExplanationView
    alternatives: AlternativesView | None
    """What would have had to be different; `null` where nothing was judged."""


def why(name: str, /, *, at: Tenant = Tenant()) -> None:  # noqa: B008 — frozen
    """Say why something was decided: of a segment, event id, key, person, account, schedule, sensor or intent.

    Parameters
    ----------
    name
        What is asked about, as answers and lists call it.
    """

    async def work(application: Application) -> WhyView:
        return await find_why(Ledger(application.engine, Caller(at.tenant, "cli"), EVERY_DOMAIN), name)

    view = on(at.target, work, exists=True)
    if at.json:
        show_json(view)
        return
    for line in _lines(view):
        say(line)


async def find_why(ledger: Ledger, name: str) -> WhyView:
    """Find what is called so and explain it; raise `NotFound` with what can be asked for."""
    hits = [hit for hit in (await ledger.search(name)).items if hit.id == name]
    for hit in hits:
        if hit.type in ("segment", "key", "correlation"):
            return await _explain_hit(ledger, name, hit)
    for found_as in ("person", "account"):
        asked = {"user_id" if found_as == "person" else "account_id": name}
        now = (await ledger.backlog()).now
        view = await ledger.timeline(**asked, since=now - LOOKED_BACK, until=now + timedelta(hours=1))
        if view.items:
            return await _explain_subject(ledger, name, found_as, view)
    for hit in hits:
        if hit.type == "stream" and (found := await _explain_stream(ledger, hit)):
            return found
    raise NotFound(
        f"nothing is called {name[:80]!r}: name a segment (kind:id:version), an event id, an idempotency key, a person "
        f"or an account of the last {LOOKED_BACK.days} days, a schedule, a sensor or an intent; betimes ledger lists "
        "what happened"
    )


async def _explain_hit(ledger: Ledger, name: str, hit: SearchHit) -> WhyView:
    return await _explain(ledger, name, hit.type, [], hit.href.removeprefix("/v1/explain/"))


async def _explain_stream(ledger: Ledger, hit: SearchHit) -> WhyView | None:
    """Explain the last decision of a stream that was not simply yes, else its newest segment."""
    page = await ledger.segments({"kind": hit.kind, "id": hit.id}, order="desc", limit=SEGMENTS_MAX)
    recent = [_event_of(segment) for segment in page.items if segment.verdict][:RECENT_MAX]
    asked = next((event for event in recent if event.outcome not in GOOD), recent[0] if recent else None)
    if asked is None and not page.items:
        return None
    return await _explain(ledger, hit.id, hit.kind, recent, asked.segment_id if asked else page.items[0].segment_id)


def _event_of(segment: SegmentView) -> VerdictEvent:
    verdict = segment.verdict
    assert verdict
    place = (segment.segment_id, segment.domain, segment.kind, segment.id, segment.at)
    return VerdictEvent(*place, verdict.outcome, verdict.reasons, verdict.explanation, verdict.defer_until)


async def _explain_subject(ledger: Ledger, name: str, found_as: str, view: TimelineView) -> WhyView:
    """Explain the last decision about a person or an account that was not simply yes."""
    recent = view.items[-RECENT_MAX:][::-1]
    asked = next((event for event in recent if event.outcome not in GOOD), recent[0])
    return await _explain(ledger, name, found_as, recent, asked.segment_id)


async def _explain(
    ledger: Ledger, name: str, found_as: str, recent: Sequence[VerdictEvent], segment_id: str
) -> WhyView:
    explanation = await ledger.explain(segment_id)
    alternatives = await ledger.alternatives(segment_id) if explanation.verdict else None
    return WhyView(asked=name, found_as=found_as, recent=[*recent], explanation=explanation, alternatives=alternatives)


def _lines(view: WhyView) -> list[str]:
    lines = []
    if view.recent:
        lines += [f"The last decisions about {view.asked}, newest first:", *map(_spell_event, view.recent), ""]
    asked = f"{view.explanation.key or view.explanation.segment_id} of {view.explanation.id}"
    lines += [f"{asked}: {_spell_verdict(view.explanation)}", *_spell_rules(view.explanation)]
    if view.alternatives:
        lines += _spell_alternatives(view.alternatives)
    return lines


def _spell_verdict(view: ExplanationView) -> str:
    """Return the answer in a sentence, with when it is looked at again."""
    verdict = view.verdict
    if verdict is None:
        return view.summary
    again = f" It is looked at again at {verdict.defer_until:%Y-%m-%d %H:%M} UTC." if verdict.defer_until else ""
    passes = verdict.would_pass_at
    if passes and passes != verdict.defer_until:
        again += f" As things stand it passes at {passes:%Y-%m-%d %H:%M} UTC at the earliest."
    return f"{verdict.outcome}. {verdict.explanation}{again}"


def _spell_event(event: VerdictEvent) -> str:
    return f"  {event.at:%Y-%m-%d %H:%M}  {event.domain}: {event.outcome}. {event.explanation}  ({event.segment_id})"


def _spell_rules(view: ExplanationView) -> list[str]:
    """Return every rule of the table on a line, the one that bound with an arrow."""
    lines = []
    marks = {"bound": "→", "shadow": "~", "passed": " ", "not_reached": "·"}
    for rule in view.rules:
        said = rule.sentence if rule.outcome != "not_reached" else "not looked at"
        lines.append(f"  {marks[rule.outcome]} {rule.rule}: {said}")
    lines += [f"  later: {segment_id}" for segment_id in view.later]
    return lines


def _spell_alternatives(view: AlternativesView) -> list[str]:
    """Return the least change of each kind that would have given a better answer, or why none can be told."""
    if not view.reproduced:
        return [f"What would have changed it cannot be told: {view.why_not}."]
    if not view.changes:
        return []
    return ["It would have been otherwise if", *(f"  {_spell_change(change)}" for change in view.changes)]


def _spell_change(change: AlternativeChange) -> str:
    return f"{change.says}: {change.then.outcome} ({', '.join(change.then.reasons)})"
