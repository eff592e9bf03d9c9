"""LATER is a promise: keeping items, judging them again, holding them through the night, releasing digests.

A wake does one thing: it closes an incident whose time is up, or holds what is due in quiet hours, or judges the one
due item of highest priority (then the oldest) again, or, when none is due, releases the digest. The engine rings again
at once while anything is due.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision
from betimes.core.instants import DAY, Instant
from betimes.core.verdicts import Verdict
from betimes.notifications.decision_builder import Draft, ref_of
from betimes.notifications.evaluation import Judgement, judged, route_of
from betimes.notifications.model import (
    DIGEST_MAX,
    WAITING_MAX,
    Digested,
    DigestReleased,
    Held,
    InboxState,
    Incident,
    IncidentClosed,
    Item,
    Postponed,
    Released,
)
from betimes.notifications.rule_context import RANK, Case
from betimes.notifications.rules import RULES

_CHECKED_IN_DIGEST = ("expiry", "ban", "opt_out", "incident")


def carry_out(draft: Draft, inbox: InboxState, judgement: Judgement, *, is_new: bool) -> Decision:
    """Write what becomes of an item: it goes out, waits, or ends."""
    case, fate = judgement.case, judgement.fate
    item, verdict, answer = case.item, judgement.verdict, judgement.answer
    if fate.answer == "NEVER":
        draft.suppress(item, fate.reason)
        return draft.decision(verdict, answer)
    _take_places(draft, case)
    if fate.answer == "NOW":
        channels = release(draft, judgement, is_new)
        return draft.decision(verdict, replace(answer, channel=channels[0]))
    assert fate.until_at is not None
    count = item.defer_count + (not fate.digest)
    reasons = (*item.reasons, fate.reason)
    put_off = replace(item, until_at=fate.until_at, defer_count=count, digest=fate.digest, reasons=reasons)
    kept = keep_item(draft, inbox, case, put_off)
    if kept is None:
        full = replace(verdict, answer="NEVER", reasons=(*reasons, "INBOX_FULL"), until=None, would_pass_at=None)
        return draft.decision(full, answer)
    passes_at = verdict.would_pass_at if kept.until_at == fate.until_at else kept.until_at
    verdict = replace(verdict, until=kept.until_at, would_pass_at=passes_at)
    return draft.decision(verdict, answer, promised_at=_promised_at(case, kept))


def release(draft: Draft, judgement: Judgement, is_new: bool) -> tuple[str, ...]:
    case, route = judgement.case, route_of(judgement.case)
    item, refs = case.item, (ref_of(case.item),)
    expires_at = None if "expiry" in draft.policy.shadowed else item.expires_at
    delivery = draft.launch(refs, route.first, route.rest, expires_at=expires_at)
    exact, near = (item.exact, item.near) if is_new else ("", None)
    draft.events.append(
        Released(
            item.version,
            item.event_id,
            item.event_type,
            case.now,
            route.first,
            judgement.verdict.reasons,
            exact,
            near,
            delivery,
        )
    )
    draft.arrived(refs, route.first)
    return route.first


def _take_places(draft: Draft, case: Case) -> None:
    """Waiting originals of lower priority end as duplicates of what takes their place."""
    if not case.superseded:
        return
    distances = {item: distance for item, distance, _ in reversed(case.matches)}
    for one in case.superseded:
        draft.suppress(one, "DEDUP_EXACT" if distances[one.version] is None else "DEDUP_NEAR")


def _promised_at(case: Case, item: Item) -> Instant:
    """However it goes on, it is settled by the digest that follows two more days; its text is needed until then."""
    settled_by = item.until_at + 2 * DAY
    return case.next_digest(settled_by) or settled_by


# -- bounds


def keep_item(draft: Draft, inbox: InboxState, case: Case, item: Item) -> Item | None:
    """Put an item among those that wait. If there is no room the lowest and oldest moves to the digest, or ends.

    `None` if that is the item itself.
    """
    gone = {one.version for one in case.superseded} | {item.version}
    others = [one for one in inbox.waiting if one.version not in gone]
    singles = [one for one in others if not one.digest]
    gathered = [one for one in others if one.digest]
    if not item.digest and len(singles) >= WAITING_MAX:
        lowest = min((*singles, item), key=_worth)
        until = case.next_digest(case.now) if len(gathered) < DIGEST_MAX else None
        if until is None:
            return _turned_out(draft, lowest, item)
        moved = replace(lowest, digest=True, until_at=until)
        draft.events.append(Postponed(moved))
        if lowest is item:
            return moved
    elif item.digest and len(gathered) >= DIGEST_MAX:
        return _turned_out(draft, min((*gathered, item), key=_worth), item)
    draft.events.append(Postponed(item))
    return item


def _turned_out(draft: Draft, lowest: Item, item: Item) -> Item | None:
    draft.suppress(lowest, "INBOX_FULL")
    if lowest is item:
        return None
    draft.events.append(Postponed(item))
    return item


def _worth(item: Item) -> tuple[int, Instant, int]:
    """The lowest and oldest first."""
    return RANK[item.priority], item.accepted_at, item.version


# -- wakes


def wake(draft: Draft, inbox: InboxState, shared: Incident | None) -> Decision:
    now, incident = draft.now, inbox.incident
    if incident and incident.ends_at <= now:
        draft.events.append(IncidentClosed(incident.ends_at))
        return draft.decision()
    due = [item for item in inbox.waiting if item.until_at <= now]
    if not due:
        return draft.decision()
    cases = [Case(draft.stream, inbox, shared, item, draft.policy, now) for item in due]
    if cases[0].quiet_until is not None and "quiet_hours" not in draft.policy.shadowed:
        held = tuple(item.version for item in due)
        draft.events.append(Held(held, cases[0].outside_quiet(now)))
        return draft.decision()
    singles = [case for case in cases if not case.item.digest]
    if not singles:
        return _release_digest(draft, inbox, shared)
    first = min(singles, key=lambda case: (-case.rank, case.item.accepted_at, case.item.version))
    return carry_out(draft, inbox, judged(first), is_new=False)


def _release_digest(draft: Draft, inbox: InboxState, shared: Incident | None) -> Decision:
    """Send everything gathered at once, but for what must not go out at all; while no channel has room, hold it."""
    kept: list[Case] = []
    for item in (one for one in inbox.waiting if one.digest):
        case = Case(draft.stream, inbox, shared, item, draft.policy, draft.now)
        reason = find_stop(case)
        if reason:
            draft.suppress(item, reason)
        else:
            kept.append(case)
    if not kept:
        return draft.decision()
    channels = _digest_channels(inbox, kept)
    channel = next(filter(kept[0].has_room, channels), channels[0])
    room_at = min(map(kept[0].channel_free_at, channels))
    if room_at > draft.now and "channel_cap" not in draft.policy.shadowed:
        held = tuple(case.item.version for case in kept)
        draft.events.append(Held(held, kept[0].outside_quiet(room_at)))
        return draft.decision()
    refs = tuple(ref_of(case.item) for case in kept)
    delivery = draft.launch(refs, (channel,), digest=True)
    for case in kept:
        item = case.item
        draft.events.append(Digested(item.version, item.event_id, (*item.reasons, "DIGEST_RELEASED")))
    draft.events.append(DigestReleased(draft.now, channel, delivery))
    draft.arrived(refs, (channel,))
    return draft.decision(Verdict("NOW", ("DIGEST_RELEASED",)))


def find_stop(case: Case) -> str | None:
    """Return the reason why an item of a digest must not go out at all, or `None`."""
    rules = (rule for rule in RULES.rules if rule.name in _CHECKED_IN_DIGEST and rule.name not in case.policy.shadowed)
    return next((finding.hit.reason for rule in rules if (finding := rule.check(case)).hit), None)


def _digest_channels(inbox: InboxState, kept: list[Case]) -> tuple[str, ...]:
    """The channels a digest may go by, in order: the person's choice, then those of its items, the newest first."""
    chosen = inbox.preferences.digest_channel
    is_open = chosen in kept[0].policy.channels and chosen not in inbox.preferences.opt_out.channels
    newest_first = sorted(kept, key=lambda case: (case.item.accepted_at, case.item.version), reverse=True)
    names = [name for case in newest_first for name in case.usable_channels]
    return tuple(dict.fromkeys([chosen, *names] if chosen and is_open else names))
