"""From a case to what becomes of it: the rules' answer, deferrals that are used up, and when it would pass.

`would_pass_at` is found by judging again at the instants at which something changes, as things stand: a postponed
item where it is judged next, a suppressed one where the rule that stopped it lets go.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from betimes.core.instants import SECOND, Instant
from betimes.core.verdicts import Answer as Outcome
from betimes.core.verdicts import Hit, Verdict
from betimes.notifications import windows
from betimes.notifications.composite_score import unscaled
from betimes.notifications.model import Answer, Unenforced
from betimes.notifications.policy import AfterDeferrals
from betimes.notifications.rule_context import Case
from betimes.notifications.rules import RULES

_CHANCES_MAX = 16
FIRST_THAT_POSTPONES = "fatigue_24h"
INCIDENT_RULE = "incident"


class Fate(msgspec.Struct, frozen=True, gc=False):
    """What becomes of an item."""

    answer: Outcome
    reason: str
    until_at: Instant | None = None
    digest: bool = False


class Judgement(msgspec.Struct, frozen=True, gc=False):
    case: Case
    fate: Fate
    verdict: Verdict
    answer: Answer


def judged(case: Case) -> Judgement:
    """The verdict on a case, its reasons after those of earlier deferrals."""
    item, policy = case.item, case.policy
    raw = RULES.judge(case, policy.shadowed)
    fate = fate_of(case, _hit(raw))
    verdict = replace(
        raw,
        answer=fate.answer,
        reasons=(*item.reasons, fate.reason),
        until=fate.until_at if fate.answer == "LATER" else None,
        would_pass_at=None if fate.answer == "NOW" else would_pass_at(case, fate),
    )
    return Judgement(case, fate, verdict, _answer(case, raw))


def fate_of(case: Case, hit: Hit) -> Fate:
    """What follows from the rules' answer, counting how often the item was put off."""
    if hit.answer != "LATER":
        return Fate(hit.answer, hit.reason)
    if hit.reason == "DIGEST_ELIGIBLE":
        return Fate("LATER", hit.reason, hit.until, digest=True)
    if case.item.defer_count >= case.policy.max_deferrals:
        return _exhausted(case)
    return Fate("LATER", hit.reason, hit.until)


def _hit(verdict: Verdict) -> Hit:
    return Hit(verdict.answer, verdict.reasons[0], verdict.until)


def _exhausted(case: Case) -> Fate:
    """Past its deferrals an item goes into the next digest, is dropped, or is delivered, as the policy has it."""
    until = case.next_digest(case.now) if _after_deferrals(case) == "digest" else None
    if until is not None:
        return Fate("LATER", "DEFER_EXHAUSTED", until, digest=True)
    return Fate("NEVER" if _after_deferrals(case) == "drop" else "NOW", "DEFER_EXHAUSTED")


def _after_deferrals(case: Case) -> AfterDeferrals:
    kind = case.policy.event_types.get(case.item.event_type)
    return (kind and kind.after_deferrals) or case.policy.after_deferrals


def _answer(case: Case, raw: Verdict) -> Answer:
    item = case.item
    scored = case.was_scored
    return Answer(
        event_id=item.event_id,
        item=item.version,
        score=case.scored.shown() if scored else None,
        ai=unscaled(case.policy.ai_for(item.event_type) if item.ai is None else item.ai) if scored else None,
        ai_source=item.ai_source if scored and item.ai is not None else "",
        flags=("AI_FALLBACK",) if scored and item.ai is None else (),
        defer_count=item.defer_count,
        shadow=_shadow(case, raw),
    )


def _shadow(case: Case, raw: Verdict) -> Unenforced | None:
    """What the rules in shadow would have led to, if it is something else."""
    if not any(step.shadow for step in raw.trace):
        return None
    bound = fate_of(case, RULES.first_hit(case))
    return Unenforced(bound.answer, (*case.item.reasons, bound.reason), bound.until_at)


def may_be_scored(case: Case) -> bool:
    """Whether the score may come to weigh it, now or when it has waited: no rule before P4 ends it or lets it out.

    An incident does not count: a recovery that comes before it in the same batch may end it before it is judged.
    """
    early = takewhile(lambda rule: rule.name != FIRST_THAT_POSTPONES, RULES.rules)
    passed_over = {*case.policy.shadowed, INCIDENT_RULE}
    return not any(rule.check(case).hit for rule in early if rule.name not in passed_over)


# -- when it would pass


def would_pass_at(case: Case, fate: Fate) -> Instant | None:
    """The instant at which, as things stand, it would go out; `None` when no passing of time will do it."""
    for _ in range(_CHANCES_MAX):
        waits = fate.answer == "LATER"
        at = fate.until_at if waits else _lets_go_at(case, fate.reason)
        expires_at = case.item.expires_at
        if at is None or at <= case.now or (expires_at is not None and at > expires_at):
            return None
        if fate.digest:
            return at
        case = case.again(at, case.item.defer_count + 1 if waits else 0)
        fate = fate_of(case, RULES.first_hit(case, case.policy.shadowed))
        if fate.answer == "NOW":
            return at
    return None


def _lets_go_at(case: Case, reason: str) -> Instant | None:
    find = _LETS_GO.get(reason)
    return find(case) if find else None


def _forgotten_at(case: Case) -> Instant:
    return max(at for _, _, at in case.duplicates) + case.policy.dedup.window_s * SECOND


def _incident_ends_at(case: Case) -> Instant | None:
    return case.incident.ends_at if case.incident else None


def _day_frees_at(case: Case) -> Instant:
    cap = case.policy.fatigue.day
    return windows.free_at(case.inbox.delivered, case.now, cap.span_s, cap.cap)


def _score_reached_at(case: Case) -> Instant | None:
    """Only recency changes by itself: the score grows as deliveries leave the last hour."""
    never = case.policy.thresholds_for(case.item.event_type).never
    recent = case.inbox.delivered[len(case.inbox.delivered) - case.recent :]
    for left, at in enumerate(recent, start=1):
        if case.score_with(len(recent) - left).reaches(never):
            return at + 3_600 * SECOND
    return None


_LETS_GO: dict[str, Callable[[Case], Instant | None]] = {
    "DEDUP_EXACT": _forgotten_at,
    "DEDUP_NEAR": _forgotten_at,
    "INCIDENT_SUPPRESSION": _incident_ends_at,
    "FATIGUE_CAP_24H": _day_frees_at,
    "SCORE_BELOW_THRESHOLD": _score_reached_at,
}


# -- by which channels


class Route(msgspec.Struct, frozen=True, gc=False):
    """The channels to try at once, and where to go on to when all of them have failed."""

    first: tuple[str, ...]
    rest: tuple[str, ...] = ()


def route_of(case: Case) -> Route:
    """What goes out prefers channels with room; whether their being full stops it was for the rules to say."""
    if case.is_critical:
        return _critical_route(case)
    channels = tuple(filter(case.has_room, case.usable_channels)) or case.usable_channels
    return Route(channels if _delivers_all(case) else channels[:1])


def _critical_route(case: Case) -> Route:
    """The channels listed, one with room first, then the rest; opt-outs bind only where the law wants it."""
    out, channels = case.inbox.preferences.opt_out.channels, case.policy.channels
    bound = {name for name in out if name in channels and channels[name].legal_opt_out}
    listed = [name for name in case.item.channels if name not in bound]
    others = [name for name in case.policy.critical_channels if name not in bound and name not in listed]
    if _delivers_all(case) and listed:
        first = tuple(listed)
    else:
        first = tuple(([*filter(case.has_room, listed)] or listed or others or ["in_app"])[:1])
    rest = [name for name in (*listed, *others) if name not in first]
    if "in_app" not in (*first, *rest):
        rest.append("in_app")
    return Route(first, () if "in_app" in first else tuple(rest))


def _delivers_all(case: Case) -> bool:
    kind = case.policy.event_types.get(case.item.event_type)
    return kind is not None and kind.deliver == "all"
