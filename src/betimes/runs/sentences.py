"""Sentences: a verdict on a trigger, in a line for people."""

from __future__ import annotations

from betimes.core.instants import DAY, SECOND, Instant, render, spell_duration
from betimes.core.verdicts import Step, Verdict
from betimes.runs.reasons import REASONS

_SKIPPED = {
    "UNKNOWN_TRIGGER_TYPE": "Nobody has registered this type of trigger.",
    "DUPLICATE_IDEMPOTENCY_KEY": "The same was asked for before; nothing was done again.",
    "CANCELLED": "It was cancelled while it waited.",
    "BUDGET_EXHAUSTED": "The run budget is used up.",
    "MARGINAL_VALUE_LOW": "So many actions were taken already that another run is worth little.",
}


def sentence(account_id: str, verdict: Verdict, at: Instant) -> str:
    """Return why a trigger was answered so, in a line."""
    reason, until = verdict.reasons[0], verdict.until
    if verdict.answer == "NOW":
        return "It is within all limits."
    if reason in _SKIPPED:
        return _SKIPPED[reason]
    if reason == "RETRY_EXHAUSTED":
        why = _meaning(verdict.reasons[-1])
        return f"It would have to wait again ({why}), and has no retry left."
    if verdict.answer == "LATER" and until is not None:
        return f"{_because(account_id, verdict, reason, at)} It is judged again at {_clock(until, at)}."
    if reason == "DEBOUNCED":
        return f"{_because(account_id, verdict, reason, at)} This one is dropped."
    return f"{_because(account_id, verdict, reason, at)} No slot is free within a day."


def _because(account_id: str, verdict: Verdict, reason: str, at: Instant) -> str:
    values = _values_of(verdict, reason)
    match reason, values:
        case "COOLDOWN", (int() | float() as elapsed_s, int() as limit_s):
            ran_at = at - round(elapsed_s * SECOND)
            ends = _clock(ran_at + limit_s * SECOND, at)
            return (
                f"{account_id} ran at {_clock(ran_at, at)}; its cooldown of {spell_duration(limit_s)} ends at {ends}."
            )
        case "DEBOUNCED", (_, int() as limit_s) if verdict.answer == "LATER":
            return f"It waits {spell_duration(limit_s)} in case more triggers of this type follow."
        case "DEBOUNCED", (int() | float() as elapsed_s, int() as limit_s):
            ago, least = spell_duration(elapsed_s), spell_duration(limit_s)
            return f"{account_id} ran for this type of trigger {ago} ago; there must be at least {least} between two."
        case "ACCOUNT_HOURLY_CAP", (used, cap):
            return f"{account_id} had {used} {_runs(used)} of this type within the hour; the cap is {cap}."
        case "TENANT_HOURLY_CAP", (used, promised, cap):
            had = f"All accounts together had {used} {_runs(used)} of this type within the hour"
            return f"{had} and {promised} promised; the cap is {cap}."
        case _ if verdict.answer == "LATER":
            return f"{account_id} has a waiting trigger of this type ({_meaning(reason)}); this one shares its run."
        case _:
            return f"{_meaning(reason).capitalize()}."


def _runs(count: object) -> str:
    return "run" if count == 1 else "runs"


def _meaning(reason: str) -> str:
    return REASONS.get(reason, reason)


def _values_of(verdict: Verdict, reason: str) -> tuple[object, ...]:
    """Return the values that the rule which gave the reason looked at."""
    step: Step | None = next((step for step in verdict.trace if step.reason == reason), None)
    return tuple(step.values) if step else ()


def _clock(at: Instant, now: Instant) -> str:
    """Return the time of day, with its date when that is not today's."""
    text = render(at)
    return text.partition("T")[2] if at // DAY == now // DAY else text
