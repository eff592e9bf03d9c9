"""Sentences for people: why a verdict was given."""

from __future__ import annotations

from betimes.core.verdicts import Verdict
from betimes.notifications.reasons import REASONS
from betimes.notifications.rules import RULES

_PLAIN = {
    "DEFAULT_PASS": "No rule prevents it.",
    "INBOX_FULL": "Too many are waiting already.",
    "DIGEST_RELEASED": "It went out in a digest.",
    "CANCELLED": "Somebody cancelled it.",
    "RELEASED": "Somebody released it.",
    "INVALID": "The policy in force does not know its type or one of its channels.",
}
_EXHAUSTED = {
    "NOW": "It was put off as often as it may be, so it is delivered.",
    "LATER": "It was put off as often as it may be, so it goes into the next digest.",
    "NEVER": "It was put off as often as it may be, so it is dropped.",
}
"""What becomes of a notification that was put off too often, by the answer to it."""
_RAISE_SCORE = " A higher priority_hint raises it."
_ADVICE = {"SCORE_DEFER": _RAISE_SCORE, "SCORE_BELOW_THRESHOLD": _RAISE_SCORE}
"""What the sender can do about it, for those who did not know that there is a score."""


def sentence(verdict: Verdict) -> str:
    """Return why the verdict was given, in a sentence."""
    reason = verdict.reasons[-1]
    plain = _EXHAUSTED.get(verdict.answer) if reason == "DEFER_EXHAUSTED" else _PLAIN.get(reason)
    if plain:
        return plain
    said = RULES.sentence_for(verdict, reason) if verdict.table == RULES.name else ""
    said = said or REASONS.get(reason, reason)
    return f"{said[0].upper()}{said[1:]}.{_ADVICE.get(reason, '')}"
