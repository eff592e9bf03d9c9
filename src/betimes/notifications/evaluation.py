"""Evaluation: from a rule context to the verdict, with used-up deferrals and the instant at which it would pass.

`would_pass_at` is found by evaluating again at the instants at which something changes, as things stand: a postponed
item when it is evaluated next, a suppressed one when the rule that stopped it lets go. Only the rules that can match by
then are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

import msgspec

from betimes.core.instants import SECOND, Instant
from betimes.core.verdicts import Hit, Verdict
from betimes.notifications.composite_score import decimal_text
from betimes.notifications.model import NotificationReply, Unenforced
from betimes.notifications.policy import HOUR_S, IN_APP, AfterDeferrals
from betimes.notifications.reasons import REASONS
from betimes.notifications.rule_context import RuleContext, count_within, free_at
from betimes.notifications.rules import PIPELINE, RULES

_CHANCES_MAX = 16
_FIRST_STAGE_THAT_POSTPONES = "P4"
_INCIDENT_RULE = "incident"
_SCORE_RULE = "score"
"""The last of the pipeline, so where a rule before it hits it is not in the trace."""
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
"""The reason and sentence of a notification that was postponed too often, by its answer."""
_RAISE_SCORE = " A higher priority_hint raises it."
_ADVICE = {"SCORE_DEFER": _RAISE_SCORE, "SCORE_BELOW_THRESHOLD": _RAISE_SCORE}
"""A hint for senders who do not know about the score."""


class DigestHit(Hit, frozen=True, gc=False):
    """A LATER until the next digest: the item is not evaluated by itself again."""


class ItemEvaluation(msgspec.Struct, frozen=True, gc=False):
    """The verdict on one item, the reply that goes with it, and if LATER, whether for a digest."""

    context: RuleContext
    verdict: Verdict
    reply: NotificationReply
    digest: bool


def evaluate(context: RuleContext) -> ItemEvaluation:
    """Return the verdict on an item, its reasons after those of earlier deferrals."""
    raw = RULES.judge(context, context.policy.shadow_rules)
    hit = apply_deferral_limit(context, Hit(raw.answer, raw.reasons[0], raw.until))
    passes_at = None if hit.answer == "NOW" else would_pass_at(context, hit, len(raw.trace) - 1)
    verdict = Verdict(hit.answer, (*context.item.reasons, hit.reason), raw.table, hit.until, passes_at, raw.trace)
    return ItemEvaluation(context, verdict, _reply(context, raw), isinstance(hit, DigestHit))


def first_hit(context: RuleContext) -> Hit:
    """Return the hit that `evaluate` would go by, without its trace."""
    return apply_deferral_limit(context, RULES.first_hit(context, context.policy.shadow_rules))


def apply_deferral_limit(context: RuleContext, hit: Hit) -> Hit:
    """Return the rules' hit, or for an item that was put off as often as it may be, what the policy says of that."""
    if hit.answer != "LATER":
        return hit
    # Waiting for a digest is what the person wants, not a postponement that anybody counts.
    if hit.reason == "DIGEST_ELIGIBLE":
        return DigestHit("LATER", hit.reason, hit.until)
    return _exhausted_hit(context) if context.item.defer_count >= context.policy.max_deferrals else hit


def _exhausted_hit(context: RuleContext) -> Hit:
    """Send the item to the next digest, drop it, or deliver it, as the policy says; without digests, deliver it."""
    wanted = _after_deferrals(context)
    until = context.next_digest(context.now) if wanted == "digest" else None
    if until is not None:
        return DigestHit("LATER", "DEFER_EXHAUSTED", until)
    return Hit("NEVER" if wanted == "drop" else "NOW", "DEFER_EXHAUSTED")


def _after_deferrals(context: RuleContext) -> AfterDeferrals:
    return (context.kind and context.kind.after_deferrals) or context.policy.after_deferrals


def _reply(context: RuleContext, raw: Verdict) -> NotificationReply:
    item, score, ai, source = context.item, None, None, ""
    flags: tuple[str, ...] = ()
    last = raw.trace[-1]
    if last.rule == _SCORE_RULE and last.values[0] is not None:  # an item that was not weighed has no score to show
        score, ai = last.values[0], decimal_text(context.ai)
        source, flags = ("", ("AI_FALLBACK",)) if item.ai is None else (item.ai_source, ())
    shadow = _shadow(context, raw) if context.policy.shadow_rules else None
    return NotificationReply(item.event_id, item.version, score, ai, source, flags, item.defer_count, shadow=shadow)


def _shadow(context: RuleContext, raw: Verdict) -> Unenforced | None:
    """Return the verdict that rules in shadow would have led to, if one of them matched."""
    if not any(step.shadow for step in raw.trace):
        return None
    hit = apply_deferral_limit(context, RULES.first_hit(context))
    return Unenforced(hit.answer, (*context.item.reasons, hit.reason), hit.until)


def may_be_scored(context: RuleContext) -> bool:
    """Return whether the score may be needed, now or after a deferral: no rule before P4 ends it or lets it out.

    An incident does not count: a recovery that comes before it in the same batch may end it before it is evaluated.
    """
    early = takewhile(lambda rule: rule.stage != _FIRST_STAGE_THAT_POSTPONES, PIPELINE)
    skipped = {*context.policy.shadow_rules, _INCIDENT_RULE}
    return not any(rule.check(context).hit for rule in early if rule.name not in skipped)


# -- when it would pass


def would_pass_at(context: RuleContext, hit: Hit, place: int) -> Instant | None:
    """Return when, as things stand, it would go out; `None` if it never does by the mere passing of time.

    `place` is that of the rule that hit it.
    """
    for _ in range(_CHANCES_MAX):
        waits = hit.answer == "LATER"
        at = hit.until if waits else _lets_go_at(context, hit.reason)
        expires_at = context.item.expires_at
        if at is None or at <= context.now or (expires_at is not None and at > expires_at):
            return None
        # A digest judges its items by rules of its own, so its instant is as good an answer as there is.
        if isinstance(hit, DigestHit):
            return at
        context = context.at_later(at, context.item.defer_count + 1 if waits else 0)
        hit, place = _later_hit(context, place)
        if hit.answer == "NOW":
            return at
    return None


def _later_hit(context: RuleContext, place: int) -> tuple[Hit, int]:
    """Return what hits an item after the rule in this place has let go of it, and where: what `first_hit` would.

    The rules ahead of it have let the item pass already, and but for those that come again, time only eases them.
    """
    for number, rule in _RULES_FROM[place]:
        hit = rule.check(context).hit
        if hit is not None and rule.name not in context.policy.shadow_rules:
            return apply_deferral_limit(context, hit), number
    return RULES.otherwise, place


_COME_AGAIN = ("forced", "quiet_hours")
"""Rules that may hit what they let pass before: one counts deferrals, the other looks at the time of day."""
_RULES_FROM = tuple(
    tuple((number, rule) for number, rule in enumerate(PIPELINE) if number >= place or rule.name in _COME_AGAIN)
    for place in range(len(PIPELINE))
)
"""The rules that can hit an item after the one in each place has, with their places."""


def _lets_go_at(context: RuleContext, reason: str) -> Instant | None:
    """Return when the rule that gave this reason stops to match; `None` if time alone does not do it."""
    find = _LETS_GO.get(reason)
    return find(context) if find else None


def _forgotten_at(context: RuleContext) -> Instant:
    return max(at for _, _, at in context.duplicates) + context.policy.dedup.window_s * SECOND


def _incident_ends_at(context: RuleContext) -> Instant | None:
    return context.incident.ends_at if context.incident else None


def _day_frees_at(context: RuleContext) -> Instant:
    cap = context.policy.fatigue.day
    return free_at(context.inbox.delivered, context.now, cap.span_s, cap.cap)


def _score_reached_at(context: RuleContext) -> Instant | None:
    """Return when the score reaches the lower threshold: it grows as deliveries leave the last hour."""
    never, delivered = context.thresholds.never, context.inbox.delivered
    recent = count_within(delivered, context.now, HOUR_S)
    for left in reversed(range(recent)):
        if context.score_with(left).reaches(never):
            # So few are left once the one before them is an hour old.
            return delivered[-1 - left] + HOUR_S * SECOND
    return None


_LETS_GO: dict[str, Callable[[RuleContext], Instant | None]] = {
    "DEDUP_EXACT": _forgotten_at,
    "DEDUP_NEAR": _forgotten_at,
    "INCIDENT_SUPPRESSION": _incident_ends_at,
    "FATIGUE_CAP_24H": _day_frees_at,
    "SCORE_BELOW_THRESHOLD": _score_reached_at,
}


# -- by which channels


class ChannelRoute(msgspec.Struct, frozen=True, gc=False):
    """The channels to try at once, and where to go on to when all of them have failed."""

    first: tuple[str, ...]
    rest: tuple[str, ...] = ()


def route_of(context: RuleContext) -> ChannelRoute:
    """Prefer channels with room. If all are full, take them all the same: the rules have let the item pass."""
    if context.is_critical:
        return _critical_route(context)
    channels = context.roomy_channels or context.usable_channels
    return ChannelRoute(channels if _delivers_all(context) else channels[:1])


def _critical_route(context: RuleContext) -> ChannelRoute:
    """Take the channels listed, one with room first, then the rest; only legal opt-outs bind."""
    out, channels = context.inbox.preferences.opt_out.channels, context.policy.channels
    bound = {name for name in out if name in channels and channels[name].legal_opt_out}
    listed = [name for name in context.item.channels if name not in bound]
    others = [name for name in context.policy.critical_channels if name not in bound and name not in listed]
    if _delivers_all(context) and listed:
        first = tuple(listed)
    else:
        first = tuple(([*filter(context.has_room, listed)] or listed or others or [IN_APP])[:1])
    rest = [name for name in (*listed, *others) if name not in first]
    # It needs no address and cannot fail: what is critical ends there if all else does not take it.
    if IN_APP not in (*first, *rest):
        rest.append(IN_APP)
    return ChannelRoute(first, () if IN_APP in first else tuple(rest))


def _delivers_all(context: RuleContext) -> bool:
    return context.kind is not None and context.kind.deliver == "all"


# -- why, in a sentence


def sentence(verdict: Verdict) -> str:
    """Return why the verdict was given, in a sentence."""
    reason = verdict.reasons[-1]
    plain = _EXHAUSTED.get(verdict.answer) if reason == "DEFER_EXHAUSTED" else _PLAIN.get(reason)
    if plain:
        return plain
    said = RULES.sentence_for(verdict, reason) if verdict.table == RULES.name else ""
    said = said or REASONS.get(reason, reason)
    return f"{said[0].upper()}{said[1:]}.{_ADVICE.get(reason, '')}"
