"""Every reason a verdict on a notification may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "DEFAULT_PASS": "nothing stands against it",
    "EXPIRED": "it expired before it could be told",
    "ACCOUNT_BANNED": "the account is banned",
    "CRITICAL_OVERRIDE": "it is critical, which goes before every limit",
    "DEDUP_EXACT": "the same was said recently",
    "DEDUP_NEAR": "nearly the same was said recently",
    "USER_OPT_OUT": "the person opted out of it",
    "INCIDENT_SUPPRESSION": "an incident is open, during which this may not be said",
    "FORCED_DELIVERY": "it is important and was put off often enough",
    "FATIGUE_CAP_24H": "the person was told enough within a day",
    "FATIGUE_CAP_1H": "the person was told enough within an hour",
    "FATIGUE_CAP_5M": "the person was told enough within a few minutes",
    "QUIET_HOURS": "it is quiet where the person is",
    "COOLDOWN_ACTIVE": "something of this type was told too recently",
    "CHANNEL_CAP": "no channel has room",
    "DIGEST_ELIGIBLE": "it is gathered in a digest",
    "SCORE_BELOW_THRESHOLD": "it scores too low to be told at all",
    "SCORE_DEFER": "it scores too low to be told now",
    "DEFER_EXHAUSTED": "it was put off as often as it may be",
    "INBOX_FULL": "too much waits for the person already",
    "DIGEST_RELEASED": "its digest went out",
    "RELEASED": "somebody released it while it waited",
    "CANCELLED": "somebody cancelled it while it waited",
}
