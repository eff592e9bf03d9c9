"""What waits in an inbox when its person has chosen otherwise: judged again, and no deferral is counted.

Each item is judged at this instant by what was chosen before and by what is chosen now. Where both say the same it
waits as it was told, so that a new address postpones nothing. Where they differ, the new one holds: the item ends, or
waits for another instant, or is due at once. What is due at once goes out with the wakes that follow, one segment each.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.notifications.decision_builder import Draft
from betimes.notifications.deferral import find_stop, keep_item
from betimes.notifications.evaluation import Fate, fate_of, route_of
from betimes.notifications.fold import fold
from betimes.notifications.model import Held, InboxState, Incident, Item, Postponed, Preferences, Released
from betimes.notifications.rule_context import Case
from betimes.notifications.rules import RULES


def rejudge_waiting(draft: Draft, inbox: InboxState, shared: Incident | None, chosen: Preferences) -> None:
    """Write what a change of preferences means for everything that waits, the highest priority first."""
    before, inbox = inbox.preferences, replace(inbox, preferences=chosen)
    moved: dict[Instant, list[int]] = {}
    for item in sorted(inbox.waiting, key=lambda one: _urgency(draft, inbox, one)):
        case = _case(draft, inbox, shared, item)
        fate = _fate(case)
        if fate != _fate(_case(draft, replace(inbox, preferences=before), shared, item)):
            inbox = _apply_fate(draft, inbox, case, item, fate, moved)
    draft.events += [Held(tuple(items), until_at) for until_at, items in moved.items()]


def _urgency(draft: Draft, inbox: InboxState, item: Item) -> tuple[int, Instant, int]:
    return -Case(draft.stream, inbox, None, item, draft.policy, draft.now).rank, item.accepted_at, item.version


def _case(draft: Draft, inbox: InboxState, shared: Incident | None, item: Item) -> Case:
    """The item as it was when it was last put off: that judgement is made again, it is not another one."""
    count = item.defer_count - (item.defer_count > 0 and not item.digest)
    return Case(draft.stream, inbox, shared, replace(item, defer_count=count), draft.policy, draft.now)


def _fate(case: Case) -> Fate:
    if case.item.digest:
        stop, until = find_stop(case), case.next_digest(case.now)
        if stop:
            return Fate("NEVER", stop)
        if until is not None:
            return Fate("LATER", case.item.reasons[-1], until, digest=True)
    return fate_of(case, RULES.first_hit(case, case.policy.shadowed))


def _apply_fate(
    draft: Draft, inbox: InboxState, case: Case, item: Item, fate: Fate, moved: dict[Instant, list[int]]
) -> InboxState:
    """Write what becomes of one item; the inbox as the items behind it find it."""
    written = len(draft.events)
    if fate.answer == "NOW":
        if item.digest:  # there is no digest for it any more
            draft.events.append(Postponed(replace(item, digest=False, until_at=draft.now)))
        else:
            moved.setdefault(draft.now, []).append(item.version)
        channels = route_of(case).first
        return fold(inbox, Released(item.version, item.event_id, item.event_type, draft.now, channels, ()))
    if fate.answer == "NEVER":
        draft.suppress(item, fate.reason)
    else:
        assert fate.until_at is not None
        if (fate.reason, fate.digest) == (item.reasons[-1], item.digest):
            moved.setdefault(fate.until_at, []).append(item.version)
            return inbox
        put_off = replace(item, until_at=fate.until_at, digest=fate.digest, reasons=(*item.reasons, fate.reason))
        keep_item(draft, inbox, case, put_off)
    for event in draft.events[written:]:
        inbox = fold(inbox, event)  # type: ignore[arg-type]
    return inbox
