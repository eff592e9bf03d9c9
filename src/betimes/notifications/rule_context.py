"""One notification before the rules: everything they may look at, computed once and only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from msgspec.structs import replace

from betimes.core.instants import SECOND, Instant
from betimes.core.jitter import spread
from betimes.core.streams import StreamId
from betimes.notifications import composite_score as scoring
from betimes.notifications import windows
from betimes.notifications.digests import next_window
from betimes.notifications.fingerprints import distance
from betimes.notifications.model import InboxState, Incident, Item
from betimes.notifications.policy import CRITICAL_TYPE, DAY_S, IN_APP, NotificationsPolicy
from betimes.notifications.quiet_hours import awake_span, quiet_until

RANK = {"LOW": 0, None: 1, "MEDIUM": 1, "HIGH": 2, "CRITICAL": 3}
"""An absent priority counts as MEDIUM, never as LOW."""
HIGH = RANK["HIGH"]
Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 — used like a keyword
    """A property computed when it is first asked for; `functools.cached_property` without its lock."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__

    @overload
    def __get__(self, case: None, kind: Any = None) -> once[Value]: ...
    @overload
    def __get__(self, case: object, kind: Any = None) -> Value: ...
    def __get__(self, case: Any, kind: Any = None) -> Any:
        if case is None:
            return self
        value = case.__dict__[self._name] = self._make(case)
        return value


class Case:
    """An item, the inbox it would reach, what is in force, and when."""

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

    def again(self, now: Instant, defer_count: int) -> Case:
        """The same item at a later instant, as things stand; by then it is like fewer others, and never like more."""
        item = replace(self.item, defer_count=defer_count)
        then = Case(self.stream, self.inbox, self.shared, item, self.policy, now)
        since = now - self.policy.dedup.window_s * SECOND
        then.__dict__["matches"] = tuple(match for match in self.matches if match[2] > since)
        return then

    # -- who and what

    @property
    def is_critical(self) -> bool:
        return self.item.priority == "CRITICAL" or self.item.event_type == CRITICAL_TYPE

    @property
    def rank(self) -> int:
        return 3 if self.is_critical else RANK[self.item.priority]

    @property
    def zone(self) -> str:
        return self.inbox.preferences.timezone

    @once
    def incident(self) -> Incident | None:
        """The one that lasts longest, the person's or the tenant's."""
        if self.inbox.incident is None and self.shared is None:
            return None
        running = [one for one in (self.inbox.incident, self.shared) if one and one.ends_at > self.now]
        return max(running, key=lambda one: one.ends_at, default=None)

    # -- duplicates

    @once
    def matches(self) -> tuple[tuple[int, int | None, Instant], ...]:
        """Accepted items with the same or nearly the same text: the item, the distance (`None`: exact), and when."""
        item, since = self.item, self.now - self.policy.dedup.window_s * SECOND
        found = [
            (seen.item, None, seen.at)
            for seen in self.inbox.seen
            if seen.exact == item.exact and seen.at > since and seen.item != item.version
        ]
        if item.near is None or not self.policy.dedup.near:
            return tuple(found)
        near, most = item.near, self.policy.dedup.distance_max
        return tuple(found) + tuple(
            (one.item, distance(near, one.near), one.at)
            for one in self.inbox.prints
            if (near ^ one.near).bit_count() <= most and one.at > since and one.item != item.version
        )

    @once
    def superseded(self) -> tuple[Item, ...]:
        """Waiting items of lower priority with this text, whose place it takes."""
        if not self.matches or "dedup" in self.policy.shadowed:
            return ()
        alike = {item for item, _, _ in self.matches}
        return tuple(one for one in self.inbox.waiting if one.version in alike and RANK[one.priority] < self.rank)

    @once
    def duplicates(self) -> tuple[tuple[int, int | None, Instant], ...]:
        """What it is a duplicate of and cannot take the place of; exact matches first."""
        if not self.matches:
            return ()
        beaten = {one.version for one in self.superseded}
        return tuple(match for match in self.matches if match[0] not in beaten)

    # -- time

    @once
    def quiet_until(self) -> Instant | None:
        return quiet_until(self.inbox.preferences.quiet_hours, self.zone, self.now)

    def spread_from(self, boundary: Instant) -> Instant:
        """Spread an instant that many share, from the end of quiet hours if it lies in them, before others begin."""
        hours = self.inbox.preferences.quiet_hours
        start = (quiet_until(hours, self.zone, boundary) if hours else None) or boundary
        span = awake_span(hours, self.zone, start, self.policy.jitter_s * SECOND)
        return start + spread(span, self.stream.tenant, self.stream.id, start)

    def outside_quiet(self, at: Instant) -> Instant:
        """This instant, or if it is quiet then, the end of that, spread."""
        hours = self.inbox.preferences.quiet_hours
        is_quiet = hours and quiet_until(hours, self.zone, at) is not None
        return self.spread_from(at) if is_quiet else at

    @property
    def digest_crons(self) -> tuple[str, ...]:
        own = self.inbox.preferences.digest_windows
        return self.policy.digest_windows if own is None else own

    def next_digest(self, after: Instant) -> Instant | None:
        """When the next digest is released."""
        opens = next_window(self.digest_crons, self.zone, after)
        return None if opens is None else self.spread_from(opens)

    # -- channels

    @once
    def open_channels(self) -> tuple[str, ...]:
        """Those listed that the person did not opt out of."""
        closed = self.inbox.preferences.opt_out.channels
        return tuple(name for name in self.item.channels if name not in closed) if closed else self.item.channels

    @once
    def usable_channels(self) -> tuple[str, ...]:
        """Those to choose from when it goes out: of what waited, channels that the policy still has come before all.

        What the person asked for passes over channels on which they have no address, unless no other is left.
        """
        allowed = self.open_channels or self.item.channels
        known = tuple(name for name in allowed if name in self.policy.channels) or allowed
        return tuple(filter(self._has_address, known)) or known if self.item.requested else known

    def _has_address(self, name: str) -> bool:
        channel = self.policy.channels.get(name)
        needs_none = name == IN_APP or (channel is not None and not channel.needs_address)
        return needs_none or name in self.inbox.preferences.addresses

    def channel_free_at(self, name: str) -> Instant:
        channel = self.policy.channels.get(name)
        if channel is None or channel.cap_24h is None:
            return self.now
        return windows.free_at(self.inbox.used.get(name, ()), self.now, DAY_S, channel.cap_24h)

    def has_room(self, name: str) -> bool:
        return self.channel_free_at(name) <= self.now

    @once
    def first_room_at(self) -> Instant | None:
        return min(map(self.channel_free_at, self.usable_channels), default=None)

    # -- digests and scores

    @property
    def digest_type(self) -> bool:
        kind = self.policy.event_types.get(self.item.event_type)
        return kind is not None and kind.digest

    @property
    def digest_eligible(self) -> bool:
        return self.digest_type and self.rank < HIGH

    def score_with(self, recent: int) -> scoring.Score:
        policy, kind = self.policy, self.policy.event_types.get(self.item.event_type)
        ai = policy.ai_for(self.item.event_type) if self.item.ai is None else self.item.ai
        hint = policy.hints.exact[self.item.priority]
        return scoring.score(policy.weights.exact, hint, ai, kind.base if kind else 0, recent, policy.recency_count)

    @once
    def recent(self) -> int:
        return windows.count(self.inbox.delivered, self.now, 3_600)

    @once
    def scored(self) -> scoring.Score:
        return self.score_with(self.recent)

    @property
    def was_scored(self) -> bool:
        return "scored" in self.__dict__
