"""Policy changes: waiting items go on waiting, for less long if the new policy says so.

LATER is a promise, so nothing is postponed further. A pause whose length the policy gives (a digest's window, a type's
cooldown, the pauses after a low score and after a burst) ends when it ends by the new policy. An item that waits for a
cap keeps its instant and is evaluated by the new caps then; so does an item that was put off more than once, because
it does not record when that was.
"""

from __future__ import annotations

from betimes.core.deciders import Decision
from betimes.core.instants import SECOND, Instant
from betimes.notifications.decision_builder import DecisionBuilder
from betimes.notifications.model import Held
from betimes.notifications.rule_context import RuleContext
from betimes.notifications.rules import cooldown_ends_at


def advance_waiting(builder: DecisionBuilder) -> Decision:
    """Move waiting items to an earlier instant where the policy in force allows it."""
    sooner: dict[Instant, list[int]] = {}
    for item in builder.inbox.waiting:
        until_at = _until(builder.context(item))
        if until_at is not None and until_at < item.until_at:
            sooner.setdefault(until_at, []).append(item.version)
    builder.events += [Held(tuple(items), until_at) for until_at, items in sooner.items()]
    return builder.build()


def _until(context: RuleContext) -> Instant | None:
    """Return when the item's pause ends by the policy in force; `None` if that cannot be known."""
    item, policy = context.item, context.policy
    if item.digest:
        return context.next_digest(context.now)
    match item.reasons[-1:]:
        case ("COOLDOWN_ACTIVE",):
            return context.outside_quiet(max(context.now, cooldown_ends_at(context) or 0))
        case ("SCORE_DEFER",) if item.defer_count == 1:
            return _after_pause(context, policy.score_defer_s)
        case ("FATIGUE_CAP_5M",) if item.defer_count == 1:
            return _after_pause(context, policy.fatigue.burst_pause_s)
        case _:
            return None


def _after_pause(context: RuleContext, pause_s: int) -> Instant:
    # An item that was put off once was put off when it arrived.
    return context.outside_quiet(max(context.now, context.item.accepted_at + pause_s * SECOND))
