"""What waits in an inbox when the policy has changed: it goes on waiting, for less long if the policy now says so.

LATER is a promise, so nothing is put off. What was put off by a pause whose length the policy gives (a digest's window,
a type's cooldown, the pauses after a low score and after a burst) ends when that pause ends now. What was put off by a
cap waits for the instant it was told, and is judged by the new caps then; so does whatever was put off more than
once, since an item does not know when that was.
"""

from __future__ import annotations

from betimes.core.deciders import Decision
from betimes.core.instants import SECOND, Instant
from betimes.notifications.decision_builder import Draft
from betimes.notifications.model import Held, InboxState, Incident
from betimes.notifications.rule_context import Case
from betimes.notifications.rules import cooldown_ends_at


def reconsidered(draft: Draft, inbox: InboxState, shared: Incident | None) -> Decision:
    """Let what may be judged sooner be judged sooner."""
    sooner: dict[Instant, list[int]] = {}
    for item in inbox.waiting:
        case = Case(draft.stream, inbox, shared, item, draft.policy, draft.now)
        until_at = _until(case)
        if until_at is not None and until_at < item.until_at:
            sooner.setdefault(until_at, []).append(item.version)
    draft.events += [Held(tuple(items), until_at) for until_at, items in sooner.items()]
    return draft.decision()


def _until(case: Case) -> Instant | None:
    """When what put it off ends, by the policy in force; `None` if that cannot be told."""
    item, policy = case.item, case.policy
    if item.digest:
        return case.next_digest(case.now)
    match item.reasons[-1:]:
        case ("COOLDOWN_ACTIVE",):
            return case.outside_quiet(max(case.now, cooldown_ends_at(case) or 0))
        case ("SCORE_DEFER",) if item.defer_count == 1:
            return _after_pause(case, policy.score_defer_s)
        case ("FATIGUE_CAP_5M",) if item.defer_count == 1:
            return _after_pause(case, policy.fatigue.burst_pause_s)
        case _:
            return None


def _after_pause(case: Case, pause_s: int) -> Instant:
    """Put off once, it was so when it arrived."""
    return case.outside_quiet(max(case.now, case.item.accepted_at + pause_s * SECOND))
