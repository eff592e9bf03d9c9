"""The pipeline P0 to P8: small rules in order, the first that matches wins.

Each rule looks at a `RuleContext` and returns the values it saw and, if it matches, the answer with its reason. Beside
it stand its stage, the answers it can give and its sentences; the table in the documentation is printed from here. A
rule's name is stored in traces: one that is no longer wanted moves to the table's `retired` and keeps its sentences.
"""

from __future__ import annotations

from collections.abc import Callable

from betimes.core.instants import SECOND, Instant, render
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable
from betimes.notifications.local_time import next_day, next_hour, wall_clock_text
from betimes.notifications.policy import HOUR_S
from betimes.notifications.rule_context import HIGH, RuleContext, count_within

NOTHING = Finding((None,))
"""There was nothing to look at."""


class PipelineRule(Rule[RuleContext], frozen=True):
    """A rule and its place in the documentation's table."""

    stage: str = ""
    """The step of the pipeline it belongs to; `–`: none of its own."""
    answers: str = ""
    """The answers it gives when it matches."""


def _rule(
    name: str,
    stage: str,
    answers: str,
    *,
    sees: tuple[str, ...],
    says: str,
    passes: str = "",
    absent: str = "",
    reads: tuple[str, ...] = (),
) -> Callable[[Callable[[RuleContext], Finding]], PipelineRule]:
    """Make a function a rule; `sees` names the values of its findings, `reads` the settings of this section."""
    paths = tuple(f"notifications.{path}" for path in reads)

    def declare(check: Callable[[RuleContext], Finding]) -> PipelineRule:
        return PipelineRule(name, check, sees, says, passes, absent, paths, stage, answers)

    return declare


@_rule(
    "expiry",
    "P0",
    "NEVER EXPIRED",
    sees=("expires_at",),
    says="it expired at {expires_at}",
    passes="it expires at {expires_at}",
    absent="it does not expire",
)
def expiry(context: RuleContext) -> Finding:
    expires_at = context.item.expires_at
    if expires_at is None:
        return NOTHING
    return Finding((render(expires_at),), Hit("NEVER", "EXPIRED") if expires_at < context.now else None)


@_rule(
    "ban",
    "–",
    "NEVER ACCOUNT_BANNED",
    sees=("reason",),
    says="the account is banned: {reason}",
    passes="the account is not banned",
)
def ban(context: RuleContext) -> Finding:
    found = context.inbox.ban
    return Finding((found.reason or "no reason given",), Hit("NEVER", "ACCOUNT_BANNED")) if found else NOTHING


@_rule(
    "critical",
    "P1",
    "NOW CRITICAL_OVERRIDE",
    sees=("because", "priority"),
    says="it is {because}, which overrides every limit",
    passes="it is {because}, priority {priority}: neither is critical",
)
def critical(context: RuleContext) -> Finding:
    event_type, priority = context.item.event_type, context.item.priority
    if not context.is_critical:
        return Finding((event_type, priority))
    because = "CRITICAL" if priority == "CRITICAL" else event_type
    return Finding((because, priority), Hit("NOW", "CRITICAL_OVERRIDE"))


@_rule(
    "dedup",
    "P2",
    "NEVER DEDUP_EXACT, DEDUP_NEAR",
    sees=("original", "match", "known"),
    says="it repeats an earlier one, {match} (entry {original} of the person's history)",
    passes="it repeats no earlier one ({known} remembered)",
    reads=("dedup.window_s", "dedup.near", "dedup.distance_max", "mode", "shadow"),
)
def dedup(context: RuleContext) -> Finding:
    known = len(context.inbox.seen)
    if not context.matches or not context.duplicates:
        return Finding((None, None, known))
    item, distance, _ = context.duplicates[0]
    if distance is None:
        return Finding((item, "exactly", known), Hit("NEVER", "DEDUP_EXACT"))
    return Finding((item, f"at a distance of {distance}", known), Hit("NEVER", "DEDUP_NEAR"))


@_rule(
    "opt_out",
    "P3",
    "NEVER USER_OPT_OUT",
    sees=("out_of", "event_type", "open_channels"),
    says="the person opted out of {out_of}",
    passes="the person accepts {event_type} on {open_channels}",
)
def opt_out(context: RuleContext) -> Finding:
    out = context.inbox.preferences.opt_out
    event_type, open_channels = context.item.event_type, ", ".join(context.open_channels)
    if out.all:
        return Finding(("everything", event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    if event_type in out.event_types:
        return Finding((event_type, event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    # Having closed every channel it asks for is an opt-out as well.
    if not context.open_channels:
        return Finding((", ".join(context.item.channels), event_type, open_channels), Hit("NEVER", "USER_OPT_OUT"))
    return Finding((None, event_type, open_channels))


@_rule(
    "incident",
    "–",
    "NEVER INCIDENT_SUPPRESSION, for PROMO and LOW",
    sees=("ends_at",),
    says="an incident is open until {ends_at}",
    passes="an incident is open until {ends_at}; it stops only PROMO and LOW",
    absent="no incident is open",
)
def incident(context: RuleContext) -> Finding:
    if (context.inbox.incident is None and context.shared is None) or context.incident is None:
        return NOTHING
    stopped = context.item.event_type == "PROMO" or context.item.priority == "LOW"
    return Finding((render(context.incident.ends_at),), Hit("NEVER", "INCIDENT_SUPPRESSION") if stopped else None)


@_rule(
    "forced",
    "–",
    "NOW FORCED_DELIVERY, for HIGH",
    sees=("deferrals", "max_deferrals"),
    says="it was put off {deferrals:time|times}, which is enough",
    passes="it was put off {deferrals:time|times}; the limit is {max_deferrals}",
    reads=("max_deferrals",),
)
def forced_delivery(context: RuleContext) -> Finding:
    count, most = context.item.defer_count, context.policy.max_deferrals
    return Finding((count, most), Hit("NOW", "FORCED_DELIVERY") if count >= most and context.rank >= HIGH else None)


@_rule(
    "fatigue_24h",
    "P4",
    "NEVER or LATER FATIGUE_CAP_24H, at 08:00 the next day local",
    sees=("count", "cap"),
    says="the person was told {count:time|times} within 24 hours; the cap is {cap}",
    reads=("fatigue.day.cap", "fatigue.day.span_s", "fatigue.day_resumes", "jitter_s"),
)
def fatigue_24h(context: RuleContext) -> Finding:
    cap = context.policy.fatigue.day
    seen = count_within(context.inbox.delivered, context.now, cap.span_s), cap.cap
    if seen[0] < seen[1]:
        return Finding(seen)
    # Little that matters is told a day late: what is LOW, or a PROMO nobody called urgent, ends here.
    if context.item.priority == "LOW" or (context.item.event_type == "PROMO" and context.rank < HIGH):
        return Finding(seen, Hit("NEVER", "FATIGUE_CAP_24H"))
    boundary = next_day(context.zone, context.now, context.policy.fatigue.day_resumes_minute)
    return Finding(seen, Hit("LATER", "FATIGUE_CAP_24H", context.spread_from(boundary)))


@_rule(
    "fatigue_1h",
    "P4",
    "LATER FATIGUE_CAP_1H, at the next full hour local",
    sees=("count", "cap"),
    says="the person was told {count:time|times} within the hour; the cap is {cap}",
    reads=("fatigue.hour.cap", "fatigue.hour.span_s", "jitter_s"),
)
def fatigue_1h(context: RuleContext) -> Finding:
    cap = context.policy.fatigue.hour
    seen = count_within(context.inbox.delivered, context.now, cap.span_s), cap.cap
    if seen[0] < seen[1]:
        return Finding(seen)
    until = context.spread_from(next_hour(context.zone, context.now))
    return Finding(seen, Hit("LATER", "FATIGUE_CAP_1H", until))


@_rule(
    "fatigue_5m",
    "P4",
    "LATER FATIGUE_CAP_5M, in 15 minutes",
    sees=("count", "cap"),
    says="the person was told {count:time|times} within 5 minutes; the cap is {cap}",
    reads=("fatigue.burst.cap", "fatigue.burst.span_s", "fatigue.burst_pause_s", "jitter_s"),
)
def fatigue_5m(context: RuleContext) -> Finding:
    cap = context.policy.fatigue.burst
    seen = count_within(context.inbox.delivered, context.now, cap.span_s), cap.cap
    if seen[0] < seen[1]:
        return Finding(seen)
    until = context.outside_quiet(context.now + context.policy.fatigue.burst_pause_s * SECOND)
    return Finding(seen, Hit("LATER", "FATIGUE_CAP_5M", until))


@_rule(
    "quiet_hours",
    "P5",
    "LATER QUIET_HOURS, at their end",
    sees=("end", "zone"),
    says="quiet hours last until {end} in {zone}",
    passes="it is not within quiet hours in {zone}",
    reads=("jitter_s",),
)
def quiet_hours(context: RuleContext) -> Finding:
    end = context.quiet_until if context.inbox.preferences.quiet_hours else None
    if end is None:
        return Finding((None, context.zone))
    return Finding(
        (wall_clock_text(context.zone, end), context.zone),
        Hit("LATER", "QUIET_HOURS", context.outside_quiet(context.now)),
    )


def cooldown_ends_at(context: RuleContext) -> Instant | None:
    """Return when the cooldown of the item's type ends or ended; `None` without one."""
    kind = context.kind
    last_at = context.inbox.last_by_type.get(context.item.event_type)
    return last_at + kind.cooldown_s * SECOND if kind and kind.cooldown_s and last_at is not None else None


@_rule(
    "cooldown",
    "P5",
    "LATER COOLDOWN_ACTIVE, at its end",
    sees=("event_type", "ends_at"),
    says="the last {event_type} was too recent; the next may come at {ends_at}",
    passes="no {event_type} was too recent",
    reads=("event_types.{event_type}.cooldown_s", "jitter_s"),
)
def cooldown(context: RuleContext) -> Finding:
    ends_at = cooldown_ends_at(context)
    if ends_at is None:
        return Finding((context.item.event_type, None))
    hit = Hit("LATER", "COOLDOWN_ACTIVE", context.outside_quiet(ends_at)) if ends_at > context.now else None
    return Finding((context.item.event_type, render(ends_at)), hit)


@_rule(
    "channel_cap",
    "P6",
    "LATER CHANNEL_CAP, when the first channel has room",
    sees=("channels",),
    says="the cap for 24 hours is reached on {channels}",
    passes="there is room on {channels}",
    reads=("channels.{channel}.cap_24h", "channels.{channel}.needs_address", "jitter_s"),
)
def channel_cap(context: RuleContext) -> Finding:
    names = ", ".join(context.usable_channels)
    if context.roomy_channels:
        return Finding((names,))
    # One channel with room is enough to be told, so the first that has some ends the wait.
    room_at = min(map(context.channel_free_at, context.usable_channels))
    return Finding((names,), Hit("LATER", "CHANNEL_CAP", context.outside_quiet(room_at)))


@_rule(
    "digest",
    "P6",
    "LATER DIGEST_ELIGIBLE, in the next digest",
    sees=("event_type",),
    says="{event_type} waits for the next digest",
    passes="{event_type} does not wait for a digest",
    reads=("event_types.{event_type}.digest", "digest_windows", "jitter_s"),
)
def digest(context: RuleContext) -> Finding:
    # What is HIGH does not wait for a digest, and a type that the policy does not know has none.
    if context.kind is None or not context.kind.digest or context.rank >= HIGH:
        return Finding((context.item.event_type,))
    until = context.next_digest(context.now)
    return Finding((context.item.event_type,), Hit("LATER", "DIGEST_ELIGIBLE", until) if until is not None else None)


_SCORE_SETTINGS = (
    *(f"weights.{name}" for name in ("hint", "ai", "type", "recency")),
    *(f"hints.{name}" for name in ("critical", "high", "medium", "low", "absent")),
    *(f"event_types.{{event_type}}.{name}" for name in ("weight", "ai_fallback", "digest")),
    *(f"event_types.{{event_type}}.thresholds.{name}" for name in ("now_from", "never_below")),
    *("thresholds.now_from", "thresholds.never_below"),
    *("ai_fallback", "recency_count", "score_defer_s", "digest_windows", "jitter_s"),
)


def _skip_score(because: str) -> Finding:
    return Finding((None, None, None, because))


@_rule(
    "score",
    "P7",
    "NEVER SCORE_BELOW_THRESHOLD, LATER SCORE_DEFER in 30 minutes",
    sees=("score", "never_below", "now_from", "because"),
    says="its importance is {score}; below {never_below} it is not sent, from {now_from} on at once",
    passes="its importance is {score}; from {now_from} on it is sent at once",
    absent="its importance does not matter: {because}",
    reads=_SCORE_SETTINGS,
)
def score(context: RuleContext) -> Finding:
    if context.item.requested:
        return _skip_score("the person asked for it")
    if context.kind is not None and context.kind.digest and not context.digest_crons:
        # Without a window, items of a digest are delivered singly, HIGH no less than LOW.
        return _skip_score("there is no digest to gather it")
    recent, limits = count_within(context.inbox.delivered, context.now, HOUR_S), context.thresholds
    found = context.score_with(recent)
    seen = (found.as_text(), *limits.as_texts)
    if found.reaches(limits.now):
        return Finding(seen)
    if not found.reaches(limits.never):
        return Finding(seen, Hit("NEVER", "SCORE_BELOW_THRESHOLD"))
    until = context.outside_quiet(context.now + context.policy.score_defer_s * SECOND)
    return Finding(seen, Hit("LATER", "SCORE_DEFER", until))


PIPELINE = (
    expiry,
    ban,
    critical,
    dedup,
    opt_out,
    incident,
    forced_delivery,
    fatigue_24h,
    fatigue_1h,
    fatigue_5m,
    quiet_hours,
    cooldown,
    channel_cap,
    digest,
    score,
)
RULES: RuleTable[RuleContext] = RuleTable(
    "notifications",
    PIPELINE,
    otherwise=Hit("NOW", "DEFAULT_PASS"),
    # The order of the rules while traces stored places instead of names: never changed, so no new rule goes in here.
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
STAGES = {rule.name: (rule.stage, rule.answers) for rule in PIPELINE}
"""The step of the pipeline each rule belongs to, and the answers it gives when it matches."""
