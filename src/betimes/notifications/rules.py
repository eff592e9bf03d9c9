"""The pipeline P0 to P8: small rules in order, the first that matches wins.

Each rule looks at a `Case` and returns what it saw and, if it matches, the answer with its reason. `STAGES` says which
step of the pipeline a rule belongs to; the table in the documentation is printed from here.
"""

from __future__ import annotations

from betimes.core.instants import SECOND, Instant, render
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.notifications import windows
from betimes.notifications.local_time import next_day, next_hour, shown
from betimes.notifications.rule_context import HIGH, Case

NOTHING = Finding((None,))
"""There was nothing to look at."""


def _expiry(case: Case) -> Finding:
    expires_at = case.item.expires_at
    if expires_at is None:
        return NOTHING
    return Finding((render(expires_at),), Hit("NEVER", "EXPIRED") if expires_at < case.now else None)


def _ban(case: Case) -> Finding:
    ban = case.inbox.ban
    return Finding((ban.reason or "no reason given",), Hit("NEVER", "ACCOUNT_BANNED")) if ban else NOTHING


def _critical(case: Case) -> Finding:
    event_type, priority = case.item.event_type, case.item.priority
    if not case.is_critical:
        return Finding((event_type, priority))
    because = "CRITICAL" if priority == "CRITICAL" else event_type
    return Finding((because, priority), Hit("NOW", "CRITICAL_OVERRIDE"))


def _dedup(case: Case) -> Finding:
    known = len(case.inbox.seen)
    if not case.duplicates:
        return Finding((None, None, known))
    item, distance, _ = case.duplicates[0]
    if distance is None:
        return Finding((item, "exactly", known), Hit("NEVER", "DEDUP_EXACT"))
    return Finding((item, f"at a distance of {distance}", known), Hit("NEVER", "DEDUP_NEAR"))


def _opt_out(case: Case) -> Finding:
    out = case.inbox.preferences.opt_out
    event_type, open_channels = case.item.event_type, ", ".join(case.open_channels)
    if out.all:
        return Finding(("everything", event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    if event_type in out.event_types:
        return Finding((event_type, event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    if not case.open_channels:
        return Finding((", ".join(case.item.channels), event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    return Finding((None, event_type, open_channels))


def _incident(case: Case) -> Finding:
    if case.incident is None:
        return NOTHING
    stopped = case.item.event_type == "PROMO" or case.item.priority == "LOW"
    return Finding((render(case.incident.ends_at),), Hit("NEVER", "INCIDENT_SUPPRESSION") if stopped else None)


def _forced(case: Case) -> Finding:
    count, most = case.item.defer_count, case.policy.max_deferrals
    return Finding((count, most), Hit("NOW", "FORCED_DELIVERY") if count >= most and case.rank >= HIGH else None)


def _fatigue_24h(case: Case) -> Finding:
    cap = case.policy.fatigue.day
    count = windows.count(case.inbox.delivered, case.now, cap.span_s)
    if count < cap.cap:
        return Finding((count, cap.cap))
    if case.item.priority == "LOW" or (case.item.event_type == "PROMO" and case.rank < HIGH):
        return Finding((count, cap.cap), Hit("NEVER", "FATIGUE_CAP_24H"))
    boundary = next_day(case.zone, case.now, case.policy.fatigue.day_resumes_minute)
    return Finding((count, cap.cap), Hit("LATER", "FATIGUE_CAP_24H", case.spread_from(boundary)))


def _fatigue_1h(case: Case) -> Finding:
    cap = case.policy.fatigue.hour
    count = windows.count(case.inbox.delivered, case.now, cap.span_s)
    if count < cap.cap:
        return Finding((count, cap.cap))
    until = case.spread_from(next_hour(case.zone, case.now))
    return Finding((count, cap.cap), Hit("LATER", "FATIGUE_CAP_1H", until))


def _fatigue_5m(case: Case) -> Finding:
    cap = case.policy.fatigue.burst
    count = windows.count(case.inbox.delivered, case.now, cap.span_s)
    if count < cap.cap:
        return Finding((count, cap.cap))
    until = case.outside_quiet(case.now + case.policy.fatigue.burst_pause_s * SECOND)
    return Finding((count, cap.cap), Hit("LATER", "FATIGUE_CAP_5M", until))


def _quiet_hours(case: Case) -> Finding:
    end = case.quiet_until
    if end is None:
        return Finding((None, case.zone))
    return Finding((shown(case.zone, end), case.zone), Hit("LATER", "QUIET_HOURS", case.outside_quiet(case.now)))


def cooldown_ends_at(case: Case) -> Instant | None:
    kind = case.policy.event_types.get(case.item.event_type)
    last_at = case.inbox.last_by_type.get(case.item.event_type)
    return last_at + kind.cooldown_s * SECOND if kind and kind.cooldown_s and last_at is not None else None


def _cooldown(case: Case) -> Finding:
    ends_at = cooldown_ends_at(case)
    if ends_at is None:
        return Finding((case.item.event_type, None))
    hit = Hit("LATER", "COOLDOWN_ACTIVE", case.outside_quiet(ends_at)) if ends_at > case.now else None
    return Finding((case.item.event_type, render(ends_at)), hit)


def _channel_cap(case: Case) -> Finding:
    room_at = case.first_room_at
    if room_at is None or room_at <= case.now:
        return Finding((", ".join(case.usable_channels),))
    return Finding((", ".join(case.usable_channels),), Hit("LATER", "CHANNEL_CAP", case.outside_quiet(room_at)))


def _digest(case: Case) -> Finding:
    if not case.digest_eligible:
        return Finding((case.item.event_type,))
    until = case.next_digest(case.now)
    return Finding((case.item.event_type,), Hit("LATER", "DIGEST_ELIGIBLE", until) if until is not None else None)


def _unscored(because: str) -> Finding:
    return Finding((None, None, None, because))


def _score(case: Case) -> Finding:
    if case.item.requested:
        return _unscored("the person asked for it")
    if case.digest_type and not case.digest_crons:
        # without a window, what a digest would gather is delivered singly, HIGH no less than LOW
        return _unscored("there is no digest to gather it")
    score, limits = case.scored, case.policy.thresholds_for(case.item.event_type)
    seen = (score.shown(), *limits.shown)
    if not score.reaches(limits.never):
        return Finding(seen, Hit("NEVER", "SCORE_BELOW_THRESHOLD"))
    if not score.reaches(limits.now):
        until = case.outside_quiet(case.now + case.policy.score_defer_s * SECOND)
        return Finding(seen, Hit("LATER", "SCORE_DEFER", until))
    return Finding(seen)


RULES: RuleTable[Case] = RuleTable(
    "notifications",
    (
        Rule(
            "expiry",
            _expiry,
            ("expires_at",),
            "it expired at {expires_at}",
            "it expires at {expires_at}",
            "it does not expire",
        ),
        Rule("ban", _ban, ("reason",), "the account is banned: {reason}", "the account is not banned"),
        Rule(
            "critical",
            _critical,
            ("because", "priority"),
            "it is {because}",
            "it is {because}, priority {priority}: neither is critical",
        ),
        Rule(
            "dedup",
            _dedup,
            ("original", "match", "known"),
            "segment {original} said the same, {match}",
            "none of the {known} remembered texts is like it",
        ),
        Rule(
            "opt_out",
            _opt_out,
            ("out_of", "event_type", "open_channels"),
            "the person opted out of {out_of}",
            "the person wants {event_type}; open: {open_channels}",
        ),
        Rule(
            "incident",
            _incident,
            ("ends_at",),
            "an incident lasts until {ends_at}",
            "an incident lasts until {ends_at}; it stops PROMO and LOW only",
            "no incident is open",
        ),
        Rule(
            "forced",
            _forced,
            ("deferrals", "max_deferrals"),
            "it was put off {deferrals} times, which is enough",
            "it was put off {deferrals} of at most {max_deferrals} times",
        ),
        Rule(
            "fatigue_24h",
            _fatigue_24h,
            ("count", "cap"),
            "{count} of {cap} were delivered in 24 hours",
            "{count} of {cap} were delivered in 24 hours",
        ),
        Rule(
            "fatigue_1h",
            _fatigue_1h,
            ("count", "cap"),
            "{count} of {cap} were delivered in an hour",
            "{count} of {cap} were delivered in an hour",
        ),
        Rule(
            "fatigue_5m",
            _fatigue_5m,
            ("count", "cap"),
            "{count} of {cap} were delivered in 5 minutes",
            "{count} of {cap} were delivered in 5 minutes",
        ),
        Rule("quiet_hours", _quiet_hours, ("end", "zone"), "quiet until {end} in {zone}", "it is not quiet in {zone}"),
        Rule(
            "cooldown",
            _cooldown,
            ("event_type", "ends_at"),
            "{event_type} rests until {ends_at}",
            "{event_type} does not rest now (last until {ends_at})",
        ),
        Rule(
            "channel_cap",
            _channel_cap,
            ("channels",),
            "the caps of {channels} are reached",
            "there is room on {channels}",
        ),
        Rule(
            "digest",
            _digest,
            ("event_type",),
            "{event_type} is gathered in a digest",
            "{event_type} is not gathered in a digest",
        ),
        Rule(
            "score",
            _score,
            ("score", "never_below", "now_from", "because"),
            "it scores {score}; below {never_below} is never, from {now_from} on is now",
            "it scores {score}; from {now_from} on is now",
            "it is not scored: {because}",
        ),
    ),
    otherwise=Hit("NOW", "DEFAULT_PASS"),
    places=(
        "expiry",
        "ban",
        "critical",
        "dedup",
        "opt_out",
        "incident",
        "forced",
        "fatigue_24h",
        "fatigue_1h",
        "fatigue_5m",
        "quiet_hours",
        "cooldown",
        "channel_cap",
        "digest",
        "score",
    ),
)

STAGES = {
    "expiry": ("P0", "NEVER EXPIRED"),
    "ban": ("–", "NEVER ACCOUNT_BANNED"),
    "critical": ("P1", "NOW CRITICAL_OVERRIDE"),
    "dedup": ("P2", "NEVER DEDUP_EXACT, DEDUP_NEAR"),
    "opt_out": ("P3", "NEVER USER_OPT_OUT"),
    "incident": ("–", "NEVER INCIDENT_SUPPRESSION, for PROMO and LOW"),
    "forced": ("–", "NOW FORCED_DELIVERY, for HIGH"),
    "fatigue_24h": ("P4", "NEVER or LATER FATIGUE_CAP_24H, at 08:00 the next day local"),
    "fatigue_1h": ("P4", "LATER FATIGUE_CAP_1H, at the next full hour local"),
    "fatigue_5m": ("P4", "LATER FATIGUE_CAP_5M, in 15 minutes"),
    "quiet_hours": ("P5", "LATER QUIET_HOURS, at their end"),
    "cooldown": ("P5", "LATER COOLDOWN_ACTIVE, at its end"),
    "channel_cap": ("P6", "LATER CHANNEL_CAP, when the first channel has room"),
    "digest": ("P6", "LATER DIGEST_ELIGIBLE, in the next digest"),
    "score": ("P7", "NEVER SCORE_BELOW_THRESHOLD, LATER SCORE_DEFER in 30 minutes"),
}
"""The step of the pipeline each rule belongs to, and what it answers when it matches."""
