"""The prose of `betimes why`: when in their own zone, who, what, why, and when it would pass; codes in brackets.

The sentences of rules and verdicts are the domains' own. Instants in them are told in the person's hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import moment
from betimes.core.errors import Invalid
from betimes.core.instants import parse, spell_duration
from betimes.core.zones import to_local
from betimes.ledger.alternative_search import AlternativeChange, AlternativesView
from betimes.ledger.call_results import ResultView
from betimes.ledger.judgements import JudgedView
from betimes.ledger.known_names import words_in
from betimes.ledger.service import ExplanationView
from betimes.ledger.verdict_feed import VerdictEvent
from betimes.ledger.why_results import spell_results

NAMED_MAX = 3
"""Of the things that one decision was about."""
AGO_S_MAX = 2 * 86_400
"""The age up to which a decision is also described as so long ago."""
GIVEN_UP = frozenset({"NEVER", "SKIP"})
"""Outcomes after which nothing waits."""
_WOULD = {
    "it is ": "it would have been ",
    "it was ": "it would have been ",
    "it asks ": "it would have asked ",
    "it scores ": "it would have scored ",
    "no rule prevents ": "no rule would have prevented ",
}
"""How the meanings of reasons begin, and how they do of a decision that was not taken."""
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT)?(\d\d:\d\d:\d\d(?:\.\d+)?Z)")


class TimeTeller(msgspec.Struct, frozen=True):
    """Tells instants in the hours of a person, seen from the day of a decision."""

    timezone: str
    at: datetime
    """Of the decision: instants of the same day are told without their date."""

    def clock(self, at: datetime) -> str:
        """Return the time of day, with the day if it is another one than the decision's."""
        local, day = self._local(at), self._local(self.at).date()
        time = f"{local:%H:%M:%S}".removesuffix(":00")
        return time if local.date() == day else f"{time} on {self.day(at)}"

    def day(self, at: datetime) -> str:
        """Return the day, with its year."""
        local = self._local(at)
        return f"{local:%A} {local.day} {local:%B %Y}"

    def full(self) -> str:
        """Return when it was decided, with the zone of all times."""
        place = "UTC" if self.timezone == "UTC" else f"({self.timezone} time)"
        return f"on {self.day(self.at)} at {self.clock(self.at)} {place}"

    def localize(self, sentence: str) -> str:
        """Return a sentence with its instants as the person would say them."""
        return _INSTANT.sub(self._spell, sentence)

    def _spell(self, found: re.Match[str]) -> str:
        try:
            at = parse((found[1] or f"{self.at:%Y-%m-%dT}") + found[2])
        except Invalid:  # a name or a note that somebody gave, and that only looks like an instant
            return found[0]
        return self.clock(moment(at))

    def _local(self, at: datetime) -> datetime:
        return to_local(self.timezone, at)


def write_answer(
    view: ExplanationView,
    alternatives: AlternativesView | None,
    timezone: str,
    now: datetime,
    repeated_by: VerdictEvent | None = None,
    results: Sequence[ResultView] = (),
) -> Iterator[str]:
    """Yield the answer in a few sentences, then what was looked at and what would have changed it."""
    teller = TimeTeller(timezone, view.at)
    verdict = view.verdict
    if verdict is None:
        yield f"Nothing was decided about {view.id} {teller.full()}; {_spell_happening(view)}. [{view.segment_id}]"
        yield from write_note(view)
        return
    age_s = round((now - view.at).total_seconds())
    ago = f", {spell_duration(age_s)} ago" if 0 < age_s < AGO_S_MAX else ""
    happened = spell_phrase(view.kind, view.id, verdict.outcome, view.judged)
    codes = ", ".join((verdict.outcome, *verdict.reasons, view.segment_id))
    is_last = not _is_judged_later(view)
    became = spell_results(view.kind, len(view.judged), results, teller.clock) if is_last else ""
    yield f"{_capitalize(teller.full())}{ago}, {happened}{became}. {teller.localize(verdict.explanation)} [{codes}]"
    yield from write_note(view)
    if repeated_by:
        codes = ", ".join((repeated_by.outcome, *repeated_by.reasons, repeated_by.segment_id))
        yield f"It was asked for again at {teller.clock(repeated_by.at)}. {repeated_by.explanation} [{codes}]"
    yield from _write_outlook(view, alternatives, teller, now, results)
    yield from _write_rules(view, teller)
    yield from _write_alternatives(view.kind, alternatives, teller)


def write_note(view: ExplanationView) -> Iterator[str]:
    """Yield the caller's note, if there is one."""
    if view.note:
        yield f"Noted{f' by {view.actor}' if view.actor else ''}: {view.note}"


def _spell_happening(view: ExplanationView) -> str:
    """Return what happened in a segment that decided nothing: its events in words, its command and who sent it."""
    if view.command and view.command["type"] == "Checkpoint":
        return "what was before was pruned then"
    events = ", ".join(dict.fromkeys(_spell_name(event["type"]) for event in view.events)) or "nothing changed"
    actor = f" from {view.actor}" if view.actor else ""
    command = f" ({view.command['type']}{actor})" if view.command else ""
    return f"what happened: {events}{command}"


def _spell_name(type_name: str) -> str:
    """Return the name of an event in words, such as `schedule defined`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type_name).lower()


def write_event(event: VerdictEvent, judged: Sequence[JudgedView], timezone: str) -> str:
    """Return one of many decisions on a line."""
    teller = TimeTeller(timezone, event.at)
    happened = spell_phrase(event.kind, event.id, event.outcome, judged)
    when = f"{to_local(timezone, event.at):%Y-%m-%d %H:%M:%S}"
    codes = ", ".join((event.outcome, *event.reasons, event.segment_id))
    return f"  {when}  {_begin(happened)}. {teller.localize(event.explanation)} [{codes}]"


def spell_phrase(kind: str, id: str, outcome: str, judged: Sequence[JudgedView]) -> str:
    """Return what an outcome came to, in the words of its domain."""
    things = [_name_thing(one) for one in judged]
    more = f" and {len(things) - NAMED_MAX} more" if len(things) > NAMED_MAX else ""
    what = ", ".join(things[:NAMED_MAX]) + more if things else "something"
    phrase = DOMAIN_OF[kind].phrases.get(outcome, f"the {kind} {{who}} came to {_meaning(kind, outcome)}")
    return phrase.format(who=id, what=what)


def _name_thing(judged: JudgedView) -> str:
    """Return what a decision was about: its type, if it has one, with its id."""
    article = "an" if judged.what and judged.what[0] in "AEIO" else "a"
    return f"{article} {judged.what} ({judged.key})" if judged.what else str(judged.key)


def _is_judged_later(view: ExplanationView) -> bool:
    return bool(view.judgements) and view.judgements[-1].segment_id != view.segment_id


def _write_outlook(
    view: ExplanationView,
    alternatives: AlternativesView | None,
    teller: TimeTeller,
    now: datetime,
    results: Sequence[ResultView],
) -> Iterator[str]:
    """Yield what became of it later, or else when it would pass."""
    if _is_judged_later(view):
        last = view.judgements[-1]
        happened = spell_phrase(last.kind, last.id, last.outcome, view.judged)
        became = spell_results(last.kind, len(view.judged), results, teller.clock)
        yield f"It was judged again: at {teller.clock(last.at)} {happened}{became}. {teller.localize(last.explanation)}"
        return
    verdict = view.verdict
    if verdict is None:
        return
    passing = next((one.at for one in alternatives.changes if one.at), None) if alternatives else None
    passes = verdict.would_pass_at or passing
    if verdict.defer_until:
        is_ahead = verdict.defer_until > now
        yield f"It {'will' if is_ahead else 'was to'} be judged again at {teller.clock(verdict.defer_until)}."
    if passes and passes != verdict.defer_until:
        given_up = "It will not be judged again. If sent again" if verdict.outcome in GIVEN_UP else "As things stood"
        yield f"{given_up}, it would pass at {teller.clock(passes)} at the earliest."


def _write_rules(view: ExplanationView, teller: TimeTeller) -> Iterator[str]:
    """Yield every rule that was looked at on a line, the one that decided with an arrow, and the others on one."""
    marks = {"bound": "→", "shadow": "~", "passed": " "}
    seen = [rule for rule in view.rules if rule.outcome != "not_reached"]
    if seen:
        yield "Rules that were checked, in order (→ decided, ~ is only being tried out):"
    for rule in seen:
        yield f"  {marks[rule.outcome]} {_capitalize(teller.localize(rule.sentence))}. [{rule.rule}]"
    if skipped := [rule.rule for rule in view.rules if rule.outcome == "not_reached"]:
        yield f"  · Not checked any more. [{', '.join(skipped)}]"


def _write_alternatives(kind: str, view: AlternativesView | None, teller: TimeTeller) -> Iterator[str]:
    """Yield the least change of each kind that would have given a better answer, or why none is known."""
    if view is None:
        return
    if not view.reproduced:
        yield f"What would have changed it cannot be determined: {view.why_not}."
    elif view.changes:
        yield "The answer would have been different if"
        yield from (f"  {_spell_change(kind, change, teller)}" for change in view.changes)


def _spell_change(kind: str, change: AlternativeChange, teller: TimeTeller) -> str:
    meaning = _hypothesis(change.then.outcome, _meaning(kind, (change.then.outcome, *change.then.reasons)[-1]))
    until = f", until {teller.clock(change.then.until)}" if change.then.until else ""
    codes = ", ".join((change.then.outcome, *change.then.reasons))
    return f"- {teller.localize(change.says)}: {meaning}{until}. [{codes}]"


def _hypothesis(outcome: str, meaning: str) -> str:
    """Return the meaning of a reason, in words about what did not happen."""
    for clause, would in _WOULD.items():
        if meaning.startswith(clause):
            return f"{would}{meaning.removeprefix(clause)}"
    return f"the answer would have been {outcome}, because {meaning}"


def _meaning(kind: str, code: str) -> str:
    """Return what a code of the domain means, in words."""
    return words_in(DOMAIN_OF[kind]).get(code, code)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _begin(phrase: str) -> str:
    """Return a clause as the beginning of a sentence; an id that it begins with stays as it is."""
    return _capitalize(phrase) if phrase.startswith("the ") else phrase
