"""The history of a notification, read from the segments of its inbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.deciders import Event
from betimes.core.instants import Instant
from betimes.core.segments import Recorded, Segment
from betimes.core.verdicts import Verdict
from betimes.engine.codecs import Kind
from betimes.engine.store import EffectQuery, EffectRow, Store
from betimes.notifications.model import (
    ChannelFailed,
    Delivered,
    Delivery,
    DeliveryFailed,
    Digested,
    DigestReleased,
    Held,
    InboxState,
    Item,
    NotificationReply,
    Postponed,
    Released,
    Rerouted,
    Suppressed,
)
from betimes.notifications.views import DeliveryView, JudgementView, Status

PAGE, PAGES_MAX = 500, 40
_OPEN = ("waiting", "delivering")


class NotificationHistory:
    """The life of one item, folded from the segments of its inbox in order."""

    def __init__(self, item: int) -> None:
        self.item = item
        self.status: Status = "suppressed"
        self.judgements: list[JudgementView] = []
        self.latest: Recorded | None = None
        self.deliveries: dict[int, tuple[tuple[int | None, str], ...]] = {}
        """The segments that caused deliveries, and the calls of each."""
        self.ends: dict[tuple[int, int | None], Delivered | ChannelFailed] = {}
        self._waits: Item | None = None
        """The item as it was last put off."""
        self._digest = False

    @property
    def is_open(self) -> bool:
        """True while later segments may add to it: also after it has arrived, until all its calls have ended."""
        return self.status in _OPEN or any(
            (version, place) not in self.ends for version, calls in self.deliveries.items() for place, _ in calls
        )

    @property
    def defer_count(self) -> int:
        """The number of deferrals before its latest evaluation."""
        reply = self.latest.reply if self.latest else None
        return reply.defer_count if isinstance(reply, NotificationReply) else 0

    @property
    def defer_until(self) -> Instant | None:
        verdict = self.latest.verdict if self.latest else None
        return verdict.until if verdict else None

    def status_with(self, deliveries: list[DeliveryView]) -> Status:
        """Return the status; a dead letter that was revived may have arrived after the item had failed."""
        revived = self.status == "failed" and any(one.status == "done" for one in deliveries)
        return self._arrived_status if revived else self.status

    @property
    def _arrived_status(self) -> Status:
        return "digested" if self._digest else "delivered"

    def add_page(self, kind: Kind, page: Sequence[Segment]) -> None:
        """Add segments until it has ended."""
        for segment in page:
            if not self.is_open:
                return
            self.add_segment(kind, segment)

    def add_segment(self, kind: Kind, segment: Segment) -> None:
        for event in kind.events(segment):
            self._record_evaluation(kind, segment, event)
            self._update_status(segment, event)

    def skips_to(self, inbox: InboxState) -> bool:
        """Return whether nothing was decided on the item since, by the inbox as it is now; take over what was moved."""
        for item in inbox.waiting:
            # What is moved keeps all but its instant; a deferral that does not count has another reason or a digest.
            if self._waits and self._waits == replace(item, until_at=self._waits.until_at):
                self._move_until(item.until_at)
                return True
        return any(one.pending == self.deliveries.get(one.version) for one in inbox.delivering)

    def _record_evaluation(self, kind: Kind, segment: Segment, event: Event) -> None:
        match event:
            case Released(item, _, _, _, _, reasons) if item == self.item:
                self._record(kind, segment, "NOW", reasons, None)
            case Postponed(item) if item.version == self.item:
                self._record(kind, segment, "LATER", item.reasons, item.until_at)
                self._waits = item
            case Suppressed(item, _, reasons) if item == self.item:
                self._record(kind, segment, "NEVER", reasons, None)
            case Digested(item, _, reasons) if item == self.item:
                self._record(kind, segment, "NOW", reasons, None)

    def _record(
        self, kind: Kind, segment: Segment, answer: Any, reasons: tuple[str, ...], until_at: Instant | None
    ) -> None:
        """Record a verdict: the segment's own if it is about this item, else what its event says."""
        said = kind.recorded(segment)
        own = isinstance(said.reply, NotificationReply) and said.reply.item == self.item
        verdict = said.verdict if own and said.verdict else Verdict(answer, reasons, until=until_at)
        deferrals = self._waits.defer_count if self._waits else 0
        reply = said.reply if own else NotificationReply(item=self.item, defer_count=deferrals)
        self.latest = Recorded(segment.stream, segment.version, segment.at, segment.policy, verdict, reply)
        self.judgements.append(JudgementView(moment(segment.at), answer, reasons, moment(until_at), segment.handle))

    def _update_status(self, segment: Segment, event: Event) -> None:
        match event:
            case Suppressed(item, _, reasons) if item == self.item:
                self.status = "cancelled" if reasons[-1:] == ("CANCELLED",) else "suppressed"
            case Postponed(item) if item.version == self.item:
                self.status = "waiting"
            case Released(item, channels=channels, delivery=delivery) if item == self.item:
                self._add_delivery(segment, channels, delivery)
            case Digested(item) if item == self.item:
                self._digest = True
            case Held(items, until_at) if self.item in items:
                self._move_until(until_at)
            case DigestReleased(_, channel, delivery) if self._digest and self.status == "waiting":
                self._add_delivery(segment, (channel,), delivery)
                self._set_channel(channel)
            case Rerouted(items, channel, _, delivery) if self.item in items:
                self._add_delivery(segment, (channel,), delivery)
            case Delivered(version=version, place=place) if version in self.deliveries:
                self.ends[version, place] = event
                self.status = self._arrived_status
            case ChannelFailed(version=version, place=place) if version in self.deliveries:
                self.ends[version, place] = event
            case DeliveryFailed(items) if self.item in items:
                self.status = "failed"

    def _move_until(self, until_at: Instant) -> None:
        """Move the promised instant: later, because it was due in quiet hours, or sooner, by a change of settings."""
        if self.latest and (verdict := self.latest.verdict):
            sooner = verdict.until is not None and until_at < verdict.until
            passes_at = verdict.would_pass_at and (until_at if sooner else max(verdict.would_pass_at, until_at))
            self.latest = replace(self.latest, verdict=replace(verdict, until=until_at, would_pass_at=passes_at))

    def _set_channel(self, channel: str) -> None:
        if self.latest and isinstance(self.latest.reply, NotificationReply):
            self.latest = replace(self.latest, reply=replace(self.latest.reply, channel=channel))

    def _add_delivery(self, segment: Segment, channels: tuple[str, ...], delivery: Delivery | None) -> None:
        self.status = "delivering"
        pending = delivery.pending if delivery else ()
        called = {channel for _, channel in pending}
        # The feed needs no call: it is written in the commit that decides.
        at_once = tuple((None, channel) for channel in channels if channel not in called)
        self.deliveries[segment.version] = (*pending, *at_once)


async def load_history(store: Store, kind: Kind, first: Segment) -> NotificationHistory:
    """Return the history from the segment that brought the notification to its end, or to now.

    After each page the inbox is asked whether anything more was decided on it; most often a busy inbox says no.
    """
    history, version = NotificationHistory(first.version), first.version
    history.add_segment(kind, first)
    for _ in range(PAGES_MAX):
        if not history.is_open:
            break
        row, page = await store.history(first.stream, version, PAGE)
        history.add_page(kind, page)
        if len(page) < PAGE or row is None or history.skips_to(kind.state(row.stream, row.schema, row.state)):
            break
        version = page[-1].version
    return history


async def deliveries_of(store: Store, history: NotificationHistory, first: Segment) -> list[DeliveryView]:
    """Return every call to a channel: as it stands, or as it ended if the call itself was pruned."""
    views = []
    for version, calls in history.deliveries.items():
        rows = {row.id.place: row for row in await store.effects(EffectQuery(source=first.stream, version=version))}
        for place, channel in calls:
            row = rows.get(place) if place is not None else None
            handle = None if place is None else f"{first.stream.kind}:{first.stream.id}:{version}:{place}"
            end = history.ends.get((version, place))
            if row is None or (row.attempts == 0 and isinstance(end, ChannelFailed)):
                # Nobody took the call in time, and its inbox has gone on to another channel.
                views.append(_end_view(handle, channel, end))
            else:
                views.append(_row_view(handle, channel, row))
    return views


def _row_view(handle: str | None, channel: str, row: EffectRow) -> DeliveryView:
    return DeliveryView(
        effect_id=handle,
        channel=channel,
        status="pending" if row.status == "leased" else row.status,
        attempts=row.attempts,
        next_attempt_at=moment(row.next_attempt_at) if row.status in ("pending", "leased") else None,
        last_error=row.last_error or None,
        delivered_at=moment(row.finished_at) if row.status == "done" else None,
    )


def _end_view(handle: str | None, channel: str, end: Delivered | ChannelFailed | None) -> DeliveryView:
    match end:
        case Delivered(at=at, attempts=attempts):
            return DeliveryView(
                effect_id=handle, channel=channel, status="done", attempts=attempts, delivered_at=moment(at)
            )
        case ChannelFailed(attempts=attempts, error=error):
            return DeliveryView(effect_id=handle, channel=channel, status="dead", attempts=attempts, last_error=error)
        case None:
            return DeliveryView(effect_id=handle, channel=channel, status="pending", attempts=0)
