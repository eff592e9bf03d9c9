"""`betimes why`: explain a decision, found by any of its names.

It takes a segment, an event id, an idempotency key, a person, an account, or the id of a schedule, a sensor, an intent
or a run, and finds the decisions itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from betimes.catalogue import DOMAIN_OF
from betimes.cli.options import TENANT, Tenant, doubting_key, on
from betimes.cli.output import show_sentences
from betimes.core.errors import MalformedRow, NewerVersion, NotFound
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.service import Caller
from betimes.ledger.alternative_search import AlternativesView
from betimes.ledger.call_results import ResultView
from betimes.ledger.search import SearchHit
from betimes.ledger.service import ExplanationView, Ledger, SegmentView
from betimes.ledger.timeline import TimelineEvent
from betimes.ledger.verdict_feed import VerdictEvent
from betimes.ledger.why_intents import IntentWait, find_wait, spell_wait
from betimes.ledger.why_results import find_results, is_troubled
from betimes.ledger.why_sentences import TimeTeller, write_answer, write_event
from betimes.tenancy import Tenancy

LOOKED_BACK = timedelta(days=30)
SEGMENTS_MAX = 50
"""Segments of a stream that are searched, newest first."""
RECENT_MAX = 8
"""Decisions about a person or an account that are shown."""
GOOD = frozenset({"NOW", "ALLOW", "success", "fired", "triggered", "no_change", "decay"})
"""Outcomes that are explained only if there are no others."""
SUBJECTS = frozenset({"person", "account"})
"""What a name stands for if its decisions are about different things."""


class WhyView(JsonView, frozen=True, kw_only=True):
    """The decisions that were found, with the most relevant one explained."""

    asked: str
    now: datetime
    timezone: str
    """That of the person, or of the schedule or what else it is about; UTC where none is known."""
    found_as: str
    """segment, key, correlation, person, account, or the kind of stream: schedule, sensor, intent, …"""
    recent: list[VerdictEvent]
    """Of everything that has this name, a person, an account, a schedule: the last decisions, newest first."""
    explanation: ExplanationView
    repeated_by: VerdictEvent | None
    """The segment that was found, if it only repeated a request; the first decision is explained then."""
    alternatives: AlternativesView | None
    """What would have changed the answer; `null` if nothing was judged."""
    wait: IntentWait | None
    """Of an intent by its id: what its next check waits for, if it should have been made by now."""
    results: list[ResultView]
    """What became of it, if it passed: how deliveries, runs and calls went, of the first things that were judged."""


def why(name: str, /, *, at: Tenant = TENANT) -> None:
    """Explain a decision: by segment, event id, idempotency key, user, account, schedule, sensor or intent.

    Parameters
    ----------
    name
        Its id, as answers and lists show it.
    """
    caller = Caller(at.tenant, "cli")
    # A server knows the tenant from the key; a database has many, and the usual slip is to search the default one.
    searched = "" if at.target.url else f". The tenant {at.tenant!r} was searched; name another with --tenant"
    with doubting_key(at):
        find = partial(find_why, name=name, searched=searched)
        view = on(at.target, lambda bt: find(bt.for_caller(caller), bt.ledger_for(caller)), exists=True)
    show_sentences(view, _lines(view), json=at.json)


async def find_why(services: Tenancy, ledger: Ledger, name: str, searched: str = "") -> WhyView:
    """Find what has this name and explain it; raise `NotFound` with what can be named, and where it was searched."""
    hits = [hit for hit in (await ledger.search(name)).items if hit.id == name]
    for hit in hits:
        if hit.type in ("segment", "key", "correlation"):
            return await _explain(services, ledger, name, hit.type, [], hit.href.removeprefix("/v1/explain/"))
    written = await _read_segments(ledger, [hit for hit in hits if hit.type == "stream"])
    recent = await _find_recent(ledger, name, written)
    asked = await _choose_event(services, ledger, name, recent)
    if asked:
        return await _explain(services, ledger, name, _found_as(asked, name), recent, asked.segment_id)
    if written:
        return await _explain(services, ledger, name, written[0].kind, [], written[0].segment_id)
    raise NotFound(
        f"nothing is called {name[:80]!r}: name a segment (kind:id:version), an event id, an idempotency key, a person"
        f", an account, a schedule, a sensor or an intent; betimes ledger lists what happened{searched}"
    )


async def _choose_event(
    services: Tenancy, ledger: Ledger, name: str, recent: Sequence[VerdictEvent]
) -> VerdictEvent | None:
    """Return the most relevant decision to explain.

    Of a person or an account it is the newest that was no yes, or came to nothing: each is about another thing. Of a
    schedule, a sensor or an intent it is the newest: each answers the same question again, and replaces those before,
    but for calls that came to nothing. One that cannot be read keeps nobody from the others.
    """
    newest = None
    for event in recent:
        with suppress(MalformedRow, NewerVersion):
            results = await find_results(services, ledger, await ledger.explain(event.segment_id))
            is_current = newest is None or _found_as(event, name) in SUBJECTS
            if (is_current and event.outcome not in GOOD) or any(map(is_troubled, results)):
                return event
            newest = newest or event
    return newest or (recent[0] if recent else None)


async def _read_segments(ledger: Ledger, streams: Sequence[SearchHit]) -> list[SegmentView]:
    """Return what was written to these streams last, the newest first."""
    pages = [
        await ledger.segments({"kind": hit.kind, "id": hit.id}, order="desc", limit=SEGMENTS_MAX) for hit in streams
    ]
    return sorted((segment for page in pages for segment in page.items), key=lambda one: one.at, reverse=True)


async def _find_recent(ledger: Ledger, name: str, written: Sequence[SegmentView]) -> list[VerdictEvent]:
    """Return the last decisions about whoever and whatever has this name, the newest first.

    They are those of the days before now, or, of somebody who was not heard of for longer, before the last of them.
    """
    now = (await ledger.backlog()).now
    found = await _read_timelines(ledger, name, now)
    if not found and written:
        found = await _read_timelines(ledger, name, written[0].at)
    known = {event.segment_id for event in found}
    found += [_event_of(one) for one in written if one.verdict and one.segment_id not in known]
    return sorted(found, key=lambda event: event.at, reverse=True)[:RECENT_MAX]


async def _read_timelines(ledger: Ledger, name: str, until: datetime) -> list[VerdictEvent]:
    """Return what was decided about the person and the account of this name, the newest of an instant first."""
    since, until = until - LOOKED_BACK, until + timedelta(hours=1)
    days = (
        await ledger.timeline(user_id=name, since=since, until=until),
        await ledger.timeline(account_id=name, since=since, until=until),
    )
    return [event for day in days for event in reversed(day.items)]


def _event_of(segment: SegmentView) -> VerdictEvent:
    assert segment.verdict
    return derive(VerdictEvent, segment.verdict, segment)


def _found_as(event: VerdictEvent, name: str) -> str:
    """Return what kind of name it is: the subject of the event's stream, else the stream's kind."""
    for streams in DOMAIN_OF[event.kind].subjects:
        if streams.kind == event.kind and not (streams.by_owner and event.id == name):
            return "person" if streams.subject == "user_id" else "account"
    return event.kind


async def _explain(
    services: Tenancy, ledger: Ledger, name: str, found_as: str, recent: Sequence[VerdictEvent], segment_id: str
) -> WhyView:
    found = await ledger.explain(segment_id)
    explanation = await _explain_first(ledger, found)
    is_judged = explanation.verdict and explanation.verdict.reasons  # a tick that somebody asked for was not
    day = await ledger.timeline(user_id=name if recent else explanation.id)  # it knows the zone of a person
    is_subject = found_as in ("person", "account")
    return WhyView(
        asked=name,
        now=day.now,
        timezone=day.timezone if is_subject else explanation.timezone or day.timezone,
        found_as=found_as,
        recent=[*recent],
        explanation=explanation,
        repeated_by=None if explanation is found else _event_of(found),
        alternatives=await ledger.alternatives(explanation.segment_id) if is_judged else None,
        wait=await find_wait(services, name, day.now) if found_as == "intent" else None,
        results=await find_results(services, ledger, explanation),
    )


async def _explain_first(ledger: Ledger, found: ExplanationView) -> ExplanationView:
    """Return the first decision, if this segment only repeated its request and the ledger still has it."""
    for event in found.events:
        if first := event.get("first_segment"):
            with suppress(NotFound):  # it was pruned
                return await ledger.explain(first)
    return found


def _lines(view: WhyView) -> Iterator[str]:
    """Yield the answer first, then every other decision that was found."""
    yield from write_answer(
        view.explanation, view.alternatives, view.timezone, view.now, view.repeated_by, view.results
    )
    if view.wait:
        yield spell_wait(view.wait, TimeTeller(view.timezone, view.now).clock)
    told = {view.explanation.segment_id, view.repeated_by and view.repeated_by.segment_id}
    others = [event for event in view.recent if event.segment_id not in told]
    if others:
        yield f"Other decisions about {view.asked}, newest first:"
    for event in others:
        judged = event.judged if isinstance(event, TimelineEvent) else ()
        yield write_event(event, judged, view.timezone)
