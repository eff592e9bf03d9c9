"""The reason codes of notifications: a closed registry, by the rule that gives each.

A code is stored with every verdict, so it never gets another meaning. The rules' names are here too because the policy
lists those that can be put in shadow and cannot import the rules, which read the policy.
"""

from __future__ import annotations

RULE_REASONS = {
    "expiry": {"EXPIRED": "it expired before it could be sent"},
    "ban": {"ACCOUNT_BANNED": "the account is banned"},
    "critical": {"CRITICAL_OVERRIDE": "it is critical, which overrides every limit"},
    "dedup": {"DEDUP_EXACT": "the same was said recently", "DEDUP_NEAR": "nearly the same was said recently"},
    "opt_out": {"USER_OPT_OUT": "the person opted out of it"},
    "incident": {"INCIDENT_SUPPRESSION": "an incident is open, and this may not be sent during one"},
    "forced": {"FORCED_DELIVERY": "it is important and was put off often enough"},
    "fatigue_24h": {"FATIGUE_CAP_24H": "the person was told enough within a day"},
    "fatigue_1h": {"FATIGUE_CAP_1H": "the person was told enough within an hour"},
    "fatigue_5m": {"FATIGUE_CAP_5M": "the person was told enough within a few minutes"},
    "quiet_hours": {"QUIET_HOURS": "the person has quiet hours"},
    "cooldown": {"COOLDOWN_ACTIVE": "something of this type was sent too recently"},
    "channel_cap": {"CHANNEL_CAP": "every channel has reached its cap"},
    "digest": {"DIGEST_ELIGIBLE": "it is gathered in a digest"},
    "score": {
        "SCORE_BELOW_THRESHOLD": "it scores too low to be sent at all",
        "SCORE_DEFER": "it scores too low to be sent now",
    },
}
"""The codes of each rule, in the order of the pipeline."""
PASSING_RULES = ("critical", "forced")
"""Rules that let an item through; they cannot be in shadow."""
SHADOWABLE_RULES = tuple(name for name in RULE_REASONS if name not in PASSING_RULES)

REASONS = {
    "DEFAULT_PASS": "no rule prevents it",
    **{code: meaning for codes in RULE_REASONS.values() for code, meaning in codes.items()},
    "DEFER_EXHAUSTED": "it was put off as often as it may be",
    "INBOX_FULL": "too much is waiting for the person already",
    "DIGEST_RELEASED": "its digest went out",
    "RELEASED": "somebody released it while it waited",
    "CANCELLED": "somebody cancelled it while it waited",
}
"""Every reason a verdict on a notification may carry, and its meaning."""
