"""Alternatives: what would have had to be different for a better answer, found by deciding again.

The segment is decided again with everything as it was then. If that gives what is recorded, one thing at a time is
varied: the instant, a rule, a setting, the request, the person or the definition. Everything that is told was decided
so by the one turn at exactly the value that is told. The search is bounded in decisions and in time, and lets others
have their turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import moment
from betimes.core.deciders import Wake
from betimes.core.instants import Instant, render
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.derivation import derive
from betimes.domain.variations import Variations
from betimes.engine.codecs import checkpoint_of
from betimes.engine.engine import Engine
from betimes.engine.redecision import NotReproducible, Redecided, decide_again, follow_on, is_reproduced, load_past
from betimes.ledger.alternative_search import (
    AlternativeChange,
    AlternativeSearch,
    AlternativesView,
    OutOfBudget,
    PromisedAnswer,
    bound_rule,
)
from betimes.ledger.outcomes import spell_outcome
from betimes.ledger.setting_search import search_settings

RULES_OFF_MAX = 8
INSTANTS_MAX = 6
PRUNED = "it replaces history that was pruned, which cannot be decided again"
OTHER_ANSWER = (
    "deciding it again gives another answer: it was decided by another version of the rules, by time-zone data that "
    "has changed since, or seeing a value that is not on record"
)


async def find_alternatives(engine: Engine, segment: Segment) -> AlternativesView:
    """Return whether a verdict is reproduced, and the least changes that would have led to a better one."""
    recorded = engine.kinds.of(segment.stream).recorded(segment).verdict
    told = None if recorded is None else _tell_recorded(engine, segment, recorded)
    refused = partial(AlternativesView, segment_id=segment.handle, reproduced=False, answer=told, changes=[])
    if recorded is None:
        return refused(why_not=PRUNED if checkpoint_of(segment) else "it made no decision")
    try:
        past = await load_past(engine, segment)
    except NotReproducible as gone:
        return refused(why_not=str(gone))
    if not is_reproduced(engine, past, decide_again(engine, past)):
        return refused(why_not=OTHER_ANSWER)
    search = AlternativeSearch(engine, past, recorded)
    changes: list[AlternativeChange] = []
    truncated = False
    try:
        if recorded.answer != "NOW":
            await _search(search, changes)
    except OutOfBudget:
        truncated = True
    return AlternativesView(
        segment_id=segment.handle,
        reproduced=True,
        answer=told,
        changes=changes,
        decisions=search.decisions,
        truncated=truncated,
    )


def _tell_recorded(engine: Engine, segment: Segment, verdict: Verdict) -> PromisedAnswer:
    outcome = spell_outcome(segment.stream.kind, verdict, engine.kinds.of(segment.stream).events(segment))
    return PromisedAnswer(outcome, verdict.reasons, moment(verdict.until))


async def _search(search: AlternativeSearch, changes: list[AlternativeChange]) -> None:
    past = search.past
    domain = DOMAIN_OF.get(past.segment.stream.kind)
    known = domain.variations.get(past.segment.stream.kind) if domain else None
    varied = known or Variations()
    names = varied.names(past.command, past.state, past.segment.at)
    await _search_time(search, changes)
    await _search_variations(search, varied, changes)
    await _search_rules(search, varied, names, changes)
    await search_settings(search, names, changes)


async def _search_variations(search: AlternativeSearch, varied: Variations, changes: list[AlternativeChange]) -> None:
    """Try what the domain says might have been otherwise; of each kind what leads to the best answer is enough."""
    best: dict[str, int] = {}
    for variation in varied.vary(search.past.command, search.past.state):
        again = await search.decide(command=variation.command, state=variation.state)
        if again is None or not search.is_better(again) or search.rank_of(again) <= best.get(variation.kind, 0):
            continue
        best[variation.kind] = search.rank_of(again)
        changes.append(derive(AlternativeChange, variation, then=search.tell(again)))


async def _search_time(search: AlternativeSearch, changes: list[AlternativeChange]) -> None:
    """Find the instant at which it would have passed by itself, as things stood."""
    later = _follow(search) if search.recorded.answer == "LATER" else None
    found = later or await _ask_later(search)
    if found:
        at, again = found
        before, after = render(search.past.segment.at), render(at)
        change = search.change("time", f"it had been judged at {after}", "at", before, after, again)
        changes.append(replace(change, at=moment(at)))


def _follow(search: AlternativeSearch) -> tuple[Instant, Redecided] | None:
    """Follow what was postponed, with all that waits ahead of it, until it passes."""
    followed = follow_on(search.engine, search.past)
    first = next(followed, None)
    subjects = _subjects_of(search, first)
    # Where the domain does not say what is judged, nothing tells which later answer is about it.
    for one in followed if subjects else ():
        search.count()
        if search.is_better(one) and subjects[-1] in _subjects_of(search, one):
            return one.at, one
    return None


async def _ask_later(search: AlternativeSearch) -> tuple[Instant, Redecided] | None:
    """Ask at the instants at which it might pass, each named by the answer before, until one is better."""
    verdict: Verdict | None = search.recorded
    subjects = _subjects_of(search, await search.decide())
    tried: set[Instant] = {search.past.segment.at}
    for _ in range(INSTANTS_MAX):
        named = (verdict.would_pass_at, verdict.until) if verdict else ()
        at = next((at for at in named if at is not None and at not in tried), None)
        again = None if at is None else await search.decide(at=at)
        if at is None or again is None:
            return None
        tried.add(at)
        verdict = again.verdict
        # A wake judges what is first in line by then, which may be something else.
        if isinstance(search.past.command, Wake) and subjects[-1:] != _subjects_of(search, again)[-1:]:
            return None
        if search.is_better(again):
            return at, again
    return None


def _subjects_of(search: AlternativeSearch, again: Redecided | None) -> list[str | int]:
    """Return what was judged, the one that the verdict is about last; nothing where the domain does not say."""
    kind = search.past.segment.stream.kind
    domain = DOMAIN_OF.get(kind)
    judged = domain.judged.get(kind) if domain else None
    return [thing.id for thing in judged(search.past.command, again.events, again.reply)] if judged and again else []


async def _search_rules(
    search: AlternativeSearch,
    varied: Variations,
    names: Mapping[str, tuple[str, ...]],
    changes: list[AlternativeChange],
) -> None:
    """Switch off the rule that bound, then the one that would bind next, until the best answer."""
    off: dict[str, Any] = {}
    rules: list[str] = []
    verdict: Verdict | None = search.recorded
    for _ in range(RULES_OFF_MAX):
        rule = bound_rule(verdict) if verdict else None
        settings = varied.switch_off(rule, names) if rule and rule not in rules else {}
        if not rule or not settings:
            return
        rules.append(rule)
        for path, value in settings.items():
            # Rules that can be put in shadow share one list, to which each is added.
            off[path] = (*off.get(path, ()), *value) if isinstance(value, tuple) else value
        again = await search.decide_under(off)
        verdict = again.verdict if again else None
        if again and search.is_better(again):
            changes.append(_change_of_rules(search, rules, again))
        if verdict is None or verdict.answer == "NOW":
            return  # or it did what was asked for, without a verdict


def _change_of_rules(search: AlternativeSearch, rules: list[str], again: Redecided) -> AlternativeChange:
    said = f"the rule {rules[0]}" if len(rules) == 1 else f"the rules {' and '.join(rules)}"
    return search.change("rule", f"{said} had been switched off", "+".join(rules), "enforce", "off", again)
