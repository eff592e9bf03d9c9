"""The history of a tenant's policy: what was in force when, who changed it, why, and after which backtest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.errors import Invalid, NotFound, Refused
from betimes.core.segments import Segment
from betimes.core.streams import parse_segment_handle
from betimes.domain.json_view import JsonView
from betimes.domain.paging import Listing, NumberPlace, Page, check_filters, checked_limit, cursor_of, place_of
from betimes.domain.service import Service
from betimes.engine.codecs import checkpoint_of
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.model import DEPLOYMENT, PolicySet, TenantState, tenant_stream

SEGMENTS = 200
"""Read at a time."""
NAMED_PAGES_MAX = 5
"""Read of the tenant's own stream, and of its newest segments, to see whether one names a policy."""
PAGES_MAX = 100
"""Read for one answer: between two changes of policy there may be many of keys and sessions."""


class PolicyChange(JsonView, frozen=True, rename={"before": "from", "after": "to"}):
    path: str
    before: Any
    after: Any


class PolicyVersion(JsonView, frozen=True, kw_only=True):
    version: int
    overrides: dict[str, Any]
    overrides_fingerprint: str
    changes: list[PolicyChange] | None
    """Of the overrides, from the version before; `None` if that is not on the ledger any more."""
    at: datetime
    actor: str
    note: str | None
    backtest_id: str | None
    restores: int | None = None
    """Of a roll back: the version whose overrides it put in force again."""
    segment_id: str
    correlation_id: str


class NamedPolicy(JsonView, frozen=True):
    fingerprint: str
    effective: dict[str, Any]


class _Set(NamedTuple):
    """A change of policy, where it stands on the ledger, and the version it led to."""

    segment: Segment
    event: PolicySet
    version: int


class PolicyHistory(Service):
    """What is known of a tenant's policies."""

    async def _tenant(self) -> TenantState:
        return await self.state(tenant_stream(self.caller.tenant)) or TenantState()

    async def policy_named(self, fingerprint: str, *, segment_id: str | None = None) -> NamedPolicy:
        """Return the policy that segments of the tenant name by this fingerprint; raise `NotFound` for another.

        With `segment_id` that segment is looked at; without, those of the tenant's own stream and its newest ones.
        """
        for tenant in (self.caller.tenant, DEPLOYMENT.tenant):
            in_force = await self.engine.policy_of(tenant)
            if fingerprint == in_force.fingerprint:
                return NamedPolicy(fingerprint, msgspec.json.decode(in_force.body))
        body = await self.engine.store.policy(fingerprint)
        if body is None or not await self._was_decided_by(fingerprint, segment_id):
            hint = "" if segment_id else "; give the segment_id of one that does"
            raise NotFound(f"no segment that was looked at names a policy {fingerprint[:80]!r}{hint}")
        return NamedPolicy(fingerprint, msgspec.json.decode(body))

    async def _was_decided_by(self, fingerprint: str, segment_id: str | None) -> bool:
        """Return whether a segment of the tenant names a policy, among a bounded number of them."""
        if segment_id is not None:
            return await self._names_policy(segment_id, fingerprint)
        tenant = self.caller.tenant
        # a change of policy is decided by the one before it, so the tenant's stream names all that were ever replaced
        own = LedgerQuery(tenant=tenant, kind=tenant_stream(tenant).kind, id=tenant_stream(tenant).id)
        for query in (own, LedgerQuery(tenant=tenant)):
            after = 0
            for _ in range(NAMED_PAGES_MAX):
                page = await self.engine.store.ledger(replace(query, backwards=True, after=after, limit=SEGMENTS))
                if any(segment.policy == fingerprint for segment in page):
                    return True
                if len(page) < SEGMENTS:
                    break
                after = page[-1].seq
        return False

    async def _names_policy(self, segment_id: str, fingerprint: str) -> bool:
        try:
            stream, version = parse_segment_handle(self.caller.tenant, segment_id)
        except Invalid:
            return False
        _, segments = await self.engine.store.history(stream, version - 1, 1)
        return any(segment.version == version and segment.policy == fingerprint for segment in segments)

    @check_filters
    async def policy_history(self, *, limit: int = 50, cursor: str | None = None) -> Page[PolicyVersion]:
        """List changes of the overrides, newest first."""
        named = ["policy history", self.caller.tenant]
        place = place_of(cursor, named, NumberPlace)
        views: Listing[PolicyVersion] = Listing()
        found, is_whole, more = await self._changes(place, checked_limit(limit) + 1, views)
        views.items += [
            _version_view(change, found[number + 1] if number + 1 < len(found) else None, is_whole)
            for number, change in enumerate(found[:limit])
        ]
        if len(found) > limit:
            more = NumberPlace(found[limit - 1].segment.seq, found[limit - 1].version)
        return views.page(cursor_of(named, more) if more else None)

    async def earlier_overrides(self, version: int | None, fingerprint: str | None) -> PolicyVersion:
        """Return an earlier version, by number or by the fingerprint of its overrides.

        By default it is the one before the latest change that was not rolled back yet: each roll back goes further.
        """
        state = await self._tenant()
        found, is_whole, _ = await self._changes(None, state.policy_version, Listing())
        wanted = version
        if version is None and fingerprint is None:
            wanted = _version_before({change.version: change.event for change in found}, state)
        if wanted == 0 and state.policy_version and fingerprint is None:
            return _no_overrides()
        for change in found:
            if wanted in (None, change.version) and fingerprint in (None, change.event.fingerprint):
                return _version_view(change, None, is_whole)
        sought = " ".join(str(name) for name in (wanted, fingerprint) if name is not None)
        raise NotFound(f"the policy {sought} is not among the versions found on the ledger; see /v1/policy/history")

    async def _changes(
        self, place: NumberPlace | None, limit: int, listing: Listing[Any]
    ) -> tuple[list[_Set], bool, NumberPlace | None]:
        """Return changes of policy before a place, newest first, and whether the ledger was read to its beginning.

        If it was not, because that is far, return also where to go on. Segments that cannot be read are noted in the
        listing.
        """
        stream = tenant_stream(self.caller.tenant)
        after, version = (place.number, place.row - 1) if place else (0, (await self._tenant()).policy_version)
        found: list[_Set] = []
        for _ in range(PAGES_MAX):
            query = LedgerQuery(
                after=after, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id, limit=SEGMENTS
            )
            segments = await self.engine.store.ledger(query)
            for segment in segments:
                if checkpoint_of(segment):
                    return found, False, None
                for event in self._sets_in(segment, listing):
                    if len(found) == limit:
                        return found, False, None
                    found.append(_Set(segment, event, version))
                    version -= 1
            if len(segments) < SEGMENTS:
                return found, True, None
            after = segments[-1].seq
        return found, False, NumberPlace(after, version + 1)

    def _sets_in(self, segment: Segment, listing: Listing[Any]) -> list[PolicySet]:
        events: Sequence[Any] = ()
        with listing.reading(segment):
            events = self.engine.kinds.of(segment.stream).events(segment)
        return [event for event in reversed(events) if isinstance(event, PolicySet)]


def _version_before(changes: Mapping[int, PolicySet], state: TenantState) -> int:
    """Return the version to roll back to: before the change whose overrides are in force, however they came back.

    A roll back is no change to go back to: one after another walks down the changes, as undo does.
    """
    version = state.policy_version
    while version:
        change = changes.get(version)
        if change is None or (change.restores is None and change.policy != state.policy):
            return version
        version = version - 1 if change.restores is None else change.restores
    if not state.policy:
        raise Refused("NOTHING_TO_ROLL_BACK", "no change of the policy is left that could be rolled back")
    return 0


def _no_overrides() -> PolicyVersion:
    """Return the version before the first: no overrides."""
    return PolicyVersion(
        version=0,
        overrides={},
        overrides_fingerprint="",
        changes=[],
        at=moment(0),
        actor="",
        note=None,
        backtest_id=None,
        segment_id="",
        correlation_id="",
    )


def _version_view(change: _Set, before: _Set | None, is_whole: bool) -> PolicyVersion:
    segment, event, version = change
    overrides_before = before.event.policy if before else {} if is_whole and version == 1 else None
    return PolicyVersion(
        version=version,
        overrides=event.policy,
        overrides_fingerprint=event.fingerprint,
        changes=None if overrides_before is None else [*changes("", overrides_before, event.policy)],
        at=moment(event.at),
        actor=segment.actor,
        note=event.note,
        backtest_id=event.backtest_id,
        restores=event.restores,
        segment_id=segment.handle,
        correlation_id=segment.correlation,
    )


def changes(path: str, before: Any, after: Any) -> Iterator[PolicyChange]:
    """Yield where two bodies differ, as paths with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from changes(f"{path}.{name}" if path else name, before.get(name), after.get(name))
    elif before != after:
        yield PolicyChange(path, before, after)
