"""The rule context: everything the rules may look at for one notification, computed lazily and at most once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from msgspec.structs import replace

from betimes.core.deciders import View
from betimes.core.instants import SECOND, Instant
from betimes.core.jitter import spread
from betimes.core.streams import StreamId
from betimes.notifications.composite_score import CompositeScore, composite_score
from betimes.notifications.digests import next_window
from betimes.notifications.fingerprints import distance
from betimes.notifications.model import InboxState, Incident, Item, incident_stream
from betimes.notifications.policy import CRITICAL_TYPE, DAY_S, IN_APP, NotificationsPolicy, Thresholds
from betimes.notifications.quiet_hours import awake_span, quiet_until

RANK = {"LOW": 0, None: 1, "MEDIUM": 1, "HIGH": 2, "CRITICAL": 3}
"""An absent priority counts as MEDIUM, never as LOW."""
HIGH = RANK["HIGH"]
Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 — used like a keyword
    """A property computed on first access and kept: `functools.cached_property`, without the cost of its generality."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__

    @overload
    def __get__(self, context: None, kind: Any = None) -> lazy[Value]: ...
    @overload
    def __get__(self, context: object, kind: Any = None) -> Value: ...
    def __get__(self, context: Any, kind: Any = None) -> Any:
        if context is None:
            return self
        value = context.__dict__[self._name] = self._make(context)
        return value


class RuleContext:
    """An item, the inbox it would reach, the incident and policy in force, and the instant."""

    def __init__(
        self,
        stream: StreamId,
        inbox: InboxState,
        shared: Incident | None,
        item: Item,
        policy: NotificationsPolicy,
        now: Instant,
    ) -> None:
        self.stream = stream
        self.inbox = inbox
        self.shared = shared
        """The whole tenant's incident."""
        self.item = item
        self.policy = policy
        self.now = now
        # Nearly every rule reads these, so they are computed at once; the rest when a rule first asks.
        self.kind = policy.event_types.get(item.event_type)
        self.is_critical = item.priority == "CRITICAL" or item.event_type == CRITICAL_TYPE
        self.rank = 3 if self.is_critical else RANK[item.priority]
        self.zone = inbox.preferences.timezone
        closed = inbox.preferences.opt_out.channels
        self.open_channels = tuple(name for name in item.channels if name not in closed) if closed else item.channels
        """The listed channels that the person did not opt out of."""

    def at_later(self, now: Instant, defer_count: int) -> RuleContext:
        """Return the same item at a later instant, as things stand now."""
        item = replace(self.item, defer_count=defer_count)
        return RuleContext(self.stream, self.inbox, self.shared, item, self.policy, now)

    # -- the item and the person

    @lazy
    def incident(self) -> Incident | None:
        """The open incident that lasts longest, the person's or the tenant's."""
        if self.inbox.incident is None and self.shared is None:
            return None
        running = [one for one in (self.inbox.incident, self.shared) if one and one.ends_at > self.now]
        return max(running, key=lambda one: one.ends_at, default=None)

    # -- duplicates

    @lazy
    def matches(self) -> tuple[tuple[int, int | None, Instant], ...]:
        """The accepted items with the same or nearly the same text: item, distance (`None`: exact) and instant."""
        item, dedup = self.item, self.policy.dedup
        since = self.now - dedup.window_s * SECOND
        found: list[tuple[int, int | None, Instant]] = [
            (seen.item, None, seen.at)
            for seen in self.inbox.seen
            if seen.exact == item.exact and seen.at > since and seen.item != item.version
        ]
        if item.near is not None and dedup.near:
            near, most = item.near, dedup.distance_max
            found += [
                (one.item, distance(near, one.near), one.at)
                for one in self.inbox.prints
                if (near ^ one.near).bit_count() <= most and one.at > since and one.item != item.version
            ]
        return tuple(found)

    @lazy
    def superseded_items(self) -> tuple[Item, ...]:
        """The waiting items of lower priority with this text, whose place it takes."""
        if not self.matches or "dedup" in self.policy.shadow_rules:
            return ()
        alike = {item for item, _, _ in self.matches}
        return tuple(one for one in self.inbox.waiting if one.version in alike and RANK[one.priority] < self.rank)

    @lazy
    def duplicates(self) -> tuple[tuple[int, int | None, Instant], ...]:
        """The matches that it cannot take the place of, so that it is a duplicate; exact ones first."""
        if not self.matches:
            return ()
        superseded = {one.version for one in self.superseded_items}
        return tuple(match for match in self.matches if match[0] not in superseded)

    # -- time

    @lazy
    def quiet_until(self) -> Instant | None:
        return quiet_until(self.inbox.preferences.quiet_hours, self.zone, self.now)

    def spread_from(self, boundary: Instant) -> Instant:
        """Spread an instant that many share, from the end of quiet hours if it lies in them, before others begin."""
        hours = self.inbox.preferences.quiet_hours
        start = (quiet_until(hours, self.zone, boundary) if hours else None) or boundary
        span = awake_span(hours, self.zone, start, self.policy.jitter_s * SECOND)
        return start + spread(span, self.stream.tenant, self.stream.id, start)

    def outside_quiet(self, at: Instant) -> Instant:
        """Return this instant, or if it is quiet then, the end of the quiet hours, spread."""
        hours = self.inbox.preferences.quiet_hours
        is_quiet = hours and quiet_until(hours, self.zone, at) is not None
        return self.spread_from(at) if is_quiet else at

    @property
    def digest_crons(self) -> tuple[str, ...]:
        own = self.inbox.preferences.digest_windows
        return self.policy.digest_windows if own is None else own

    def next_digest(self, after: Instant) -> Instant | None:
        """Return when the next digest after this instant is released; `None` without digest windows."""
        opens = next_window(self.digest_crons, self.zone, after)
        return None if opens is None else self.spread_from(opens)

    # -- channels

    @lazy
    def usable_channels(self) -> tuple[str, ...]:
        """The channels to choose from when it goes out.

        Channels that the policy no longer has are skipped, and for an item that the person requested, channels on
        which they have no address; unless no other is left.
        """
        allowed = self.open_channels or self.item.channels
        known = tuple(filter(self.policy.channels.__contains__, allowed)) or allowed
        return tuple(filter(self._has_address, known)) or known if self.item.requested else known

    def _has_address(self, name: str) -> bool:
        channel = self.policy.channels.get(name)
        needs_none = name == IN_APP or (channel is not None and not channel.needs_address)
        return needs_none or name in self.inbox.preferences.addresses

    def channel_free_at(self, name: str) -> Instant:
        """Return when the channel has room under its cap, at the earliest now."""
        channel = self.policy.channels.get(name)
        if channel is None or channel.cap_24h is None:
            return self.now
        return free_at(self.inbox.used.get(name, ()), self.now, DAY_S, channel.cap_24h)

    def has_room(self, name: str) -> bool:
        return self.channel_free_at(name) <= self.now

    @lazy
    def roomy_channels(self) -> tuple[str, ...]:
        """The usable channels that have room now."""
        return tuple([name for name in self.usable_channels if self.channel_free_at(name) <= self.now])

    # -- digests and scores

    @property
    def thresholds(self) -> Thresholds:
        return (self.kind and self.kind.thresholds) or self.policy.thresholds

    @lazy
    def ai(self) -> int:
        """The provider's score or its fallback, in ten-thousandths."""
        if self.item.ai is not None:
            return self.item.ai
        own = self.kind.fallback if self.kind else None
        return self.policy.fallback if own is None else own

    def score_with(self, recent: int) -> CompositeScore:
        """Return the score as if there were so many deliveries in the last hour."""
        policy, base = self.policy, self.kind.base if self.kind else 0
        hint = policy.hints.exact[self.item.priority]
        return composite_score(policy.weights.exact, hint, self.ai, base, recent, policy.recency_count)


# Deliveries of the last day are sorted instants, so a sliding count is exact to the microsecond.
def count_within(instants: tuple[Instant, ...], now: Instant, span_s: int) -> int:
    """Return how many lie in `(now - span, now]`."""
    return len(instants) - bisect_right(instants, now - span_s * SECOND)


def free_at(instants: tuple[Instant, ...], now: Instant, span_s: int, cap: int) -> Instant:
    """Return the first instant from `now` on with fewer than `cap` inside, if nothing more happens."""
    # There is room again when the oldest of the last `cap` has left.
    return now if count_within(instants, now, span_s) < cap else instants[-cap] + span_s * SECOND


def shared_incident(view: View[InboxState]) -> Incident | None:
    """Return the whole tenant's incident, as it was last committed."""
    state = view.others.get(incident_stream(view.stream.tenant))
    return state.incident if state else None
