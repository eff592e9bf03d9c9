"""Sentences about checks: whether the intent fired, with the condition, the values and the gate that the report names.

A report may come from a worker outside, with anything in it. What does not look like the built-in worker's is left
out, and every text is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from betimes.core.instants import render
from betimes.intents.expressions import PRICE
from betimes.intents.model import CLAIM_EXPIRED, FireIntent, IntentFired

FIRED = "Its action was carried out"
FIRE_PHRASES = {
    "failed": "Its check failed",
    "gate_blocked": "Its gate was closed",
    "condition_not_met": "Its condition was not met",
}
CONDITION_CHARS_MAX = 200
NAME_CHARS_MAX = 60
VALUE_CHARS_MAX = 40
VALUES_MAX = 4
"""Of what a check saw, so many values are told."""
REASONS_MAX = 3


def describe_fire(fired: IntentFired, report: FireIntent | None) -> str:
    """Return what a check came to and when the next one is."""
    next_at = fired.next_check_at
    after = f"the next check is at {render(next_at)}" if next_at else "no further check is planned"
    match fired.status:
        case "condition_not_met":
            told = FIRE_PHRASES[fired.status] + _spell_condition(report)
        case "gate_blocked":
            told = _spell_gate((report and report.gate_result) or {})
        case "failed" if fired.error == CLAIM_EXPIRED:
            told = f"{FIRE_PHRASES[fired.status]}: whoever had claimed it did not report in time"
        case "failed":
            told = FIRE_PHRASES[fired.status] + (f": {fired.error}" if fired.error else "")
        case _:
            told = f"{FIRED}{_spell_condition(report)}{_spell_notification(report)}"
    return f"{told}; {after}."


def _spell_condition(report: FireIntent | None) -> str:
    """Return the condition and the values that were seen, in brackets; nothing if neither is known."""
    if report is None:
        return ""
    condition = [_cut(report.condition, CONDITION_CHARS_MAX)] if report.condition else []
    seen = [*_spell_values(report.trigger_data or {})]
    more = [f"{len(seen) - VALUES_MAX} more"] if len(seen) > VALUES_MAX else []
    values = ", ".join((*seen[:VALUES_MAX], *more))
    told = "; ".join((*condition, values) if values else condition)
    return f" ({told})" if told else ""


def _spell_notification(report: FireIntent | None) -> str:
    """Return what its notification was answered, as a clause; nothing if the report names none."""
    answer = ((report and report.trigger_data) or {}).get("notification")
    outcome = answer.get("outcome") if isinstance(answer, Mapping) else None
    return f", and its notification was answered {_cut(outcome, NAME_CHARS_MAX)}" if isinstance(outcome, str) else ""


def _spell_values(seen: Mapping[str, Any]) -> Iterator[str]:
    for name, value in seen.items():
        if isinstance(value, str | int | float):
            spelled = str(value).lower() if isinstance(value, bool) else str(value)
            yield f"{_cut(name.removeprefix(PRICE), NAME_CHARS_MAX)} was {_cut(spelled, VALUE_CHARS_MAX)}"


def _spell_gate(answer: Mapping[str, Any]) -> str:
    """Return that the gate was closed: which, why, and until when, as far as the report says so."""
    name, reasons, until = answer.get("trigger_type"), answer.get("reasons"), answer.get("defer_until")
    gate = f"gate {_cut(name, NAME_CHARS_MAX)}" if isinstance(name, str) else "gate"
    listed = reasons if isinstance(reasons, list) else []
    codes = [_cut(code, NAME_CHARS_MAX) for code in listed if isinstance(code, str)]
    because = f": {', '.join(codes[:REASONS_MAX])}" if codes else ""
    ending = f" until {_cut(until, VALUE_CHARS_MAX)}" if isinstance(until, str) else ""
    return f"Its {gate} was closed{because}{ending}"


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
