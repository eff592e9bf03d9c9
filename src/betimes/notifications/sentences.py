"""Sentences for people: why a verdict was given."""

from __future__ import annotations

from betimes.core.verdicts import Verdict
from betimes.notifications.reasons import REASONS
from betimes.notifications.rules import RULES

_PLAIN = {
    "DEFAULT_PASS": "Nothing stands against it.",
    "DEFER_EXHAUSTED": "It was put off as often as it may be.",
    "INBOX_FULL": "As many are waiting as may wait.",
    "DIGEST_RELEASED": "It went out in a digest.",
    "CANCELLED": "Somebody cancelled it.",
    "RELEASED": "Somebody released it.",
    "INVALID": "The policy in force does not know its type or one of its channels.",
}


def sentence(verdict: Verdict) -> str:
    """Return why the verdict was given, in a sentence."""
    reason = verdict.reasons[-1]
    plain = _PLAIN.get(reason)
    if plain:
        return plain
    said = RULES.sentence_for(verdict, reason) if verdict.table == RULES.name else ""
    said = said or REASONS.get(reason, reason)
    return f"{said[0].upper()}{said[1:]}."
