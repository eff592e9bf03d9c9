"""Sentences: a verdict on a trigger, in a line for people."""

from __future__ import annotations

from betimes.core.instants import DAY, SECOND, Instant, render
from betimes.core.verdicts import Step, Verdict

_SKIPPED = {
    "UNKNOWN_TRIGGER_TYPE": "this trigger type is not in the registry.",
    "DUPLICATE_IDEMPOTENCY_KEY": "this idempotency key was used before; nothing was done again.",
    "CANCELLED": "it was cancelled while it waited.",
    "BUDGET_EXHAUSTED": "the run budget is used up.",
    "MARGINAL_VALUE_LOW": "so many actions were taken already that another run is worth little.",
}


def sentence(account_id: str, verdict: Verdict, at: Instant) -> str:
    """Return why a trigger was answered so, in a line."""
    reason, until = verdict.reasons[0], verdict.until
    if verdict.answer == "NOW":
        return f"{account_id} may run; no limit binds."
    if reason in _SKIPPED:
        return f"{account_id} does not run: {_SKIPPED[reason]}"
    if reason == "RETRY_EXHAUSTED":
        return f"{account_id} does not run: it would have to wait for {verdict.reasons[-1]} and has no retry left."
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
            return f"{account_id} ran at {_clock(ran_at, at)}; the cooldown of {limit_s} s ends at {ends}."
        case "DEBOUNCED", (_, limit_s) if verdict.answer == "LATER":
            return f"More may follow: triggers of this type are waited out for {limit_s} s."
        case "DEBOUNCED", (elapsed_s, limit_s):
            return f"{account_id} ran for this trigger type {elapsed_s} s ago; its debounce is {limit_s} s."
        case "ACCOUNT_HOURLY_CAP", (used, cap):
            return f"{account_id} has had {used} of {cap} runs of this type within the hour."
        case "TENANT_HOURLY_CAP", (used, promised, cap):
            return f"The tenant has had {used} of {cap} runs of this type within the hour, and {promised} are promised."
        case _ if verdict.answer == "LATER":
            return f"{account_id} has a trigger of this type that waits for {reason}; this one shares its run."
        case _:
            return f"{account_id} does not run: {reason}."


def _values_of(verdict: Verdict, reason: str) -> tuple[object, ...]:
    """Return the values that the rule which gave the reason looked at."""
    step: Step | None = next((step for step in verdict.trace if step.reason == reason), None)
    return tuple(step.values) if step else ()


def _clock(at: Instant, now: Instant) -> str:
    """Return the time of day, with its date when that is not today's."""
    text = render(at)
    return text.partition("T")[2] if at // DAY == now // DAY else text
