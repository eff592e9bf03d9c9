"""Interventions: somebody cancels one waiting notification, or sends it now.

What is released passes over everything that only postpones (fatigue, quiet hours, cooldowns, caps, digests, the score),
and goes out unless it has expired or the person is banned or opted out. What does not wait is refused.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Decision, Refusal
from betimes.core.verdicts import Verdict
from betimes.notifications.decision_builder import Draft
from betimes.notifications.deferral import release
from betimes.notifications.evaluation import Fate, Judgement
from betimes.notifications.model import Answer, InboxState, Incident, Item
from betimes.notifications.objections import find_objection
from betimes.notifications.rule_context import Case


class CancelNotification(msgspec.Struct, frozen=True, tag=True):
    """End a waiting notification undelivered."""

    event_id: str


class ReleaseNotification(msgspec.Struct, frozen=True, tag=True):
    """Send a waiting notification now."""

    event_id: str


def intervene(
    draft: Draft, inbox: InboxState, shared: Incident | None, command: CancelNotification | ReleaseNotification
) -> Decision | Refusal:
    """Cancel or release the item that waits under this event id; refuse if there is none."""
    item = next((one for one in inbox.waiting if one.event_id == command.event_id), None)
    if item is None:
        return Refusal("NOT_WAITING", f"the notification {command.event_id!r} is not waiting; see what became of it")
    if isinstance(command, CancelNotification):
        return _end_item(draft, item, "CANCELLED")
    case = Case(draft.stream, inbox, shared, item, draft.policy, draft.now)
    objection = find_objection(case)
    return _end_item(draft, item, objection) if objection else _release_item(draft, case)


def _end_item(draft: Draft, item: Item, reason: str) -> Decision:
    draft.suppress(item, reason)
    return draft.decision(Verdict("NEVER", (*item.reasons, reason)), _answer(item))


def _release_item(draft: Draft, case: Case) -> Decision:
    verdict, answer = Verdict("NOW", (*case.item.reasons, "RELEASED")), _answer(case.item)
    channels = release(draft, Judgement(case, Fate("NOW", "RELEASED"), verdict, answer), is_new=False)
    return draft.decision(verdict, replace(answer, channel=channels[0]))


def _answer(item: Item) -> Answer:
    return Answer(event_id=item.event_id, item=item.version, defer_count=item.defer_count)
