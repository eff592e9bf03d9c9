"""The history of a tenant's policy: what was in force when, who changed it, why, and after which backtest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from betimes.core.datetimes import moment
from betimes.core.errors import Invalid, NotFound, Refused
from betimes.core.segments import Segment
from betimes.core.streams import parse_segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import (
    PAGE_CHARS_MAX,
    Listing,
    NumberPlace,
    Page,
    check_filters,
    checked_limit,
    cursor_of,
    place_of,
)
from betimes.domain.service import Service
from betimes.domain.struct_forms import From
from betimes.engine.codecs import checkpoint_of
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.model import DEPLOYMENT, PolicySet, TenantState, tenant_stream

SEGMENTS = 200
"""Read at a time."""
NAMED_PAGES_MAX = 5
"""Read of the tenant's own stream, and of its newest segments, to see whether one names a policy."""
LISTED = "`betimes policy history` and GET /v1/policy/history list them"
PAGES_MAX = 100
"""Read for one answer: between two changes of policy there may be many of keys and sessions."""


class PolicyChange(JsonView, frozen=True, rename={"before": "from", "after": "to"}):
    path: str
    before: Any
    after: Any


class PolicyVersion(JsonView, frozen=True, kw_only=True):
    version: int
    overrides: Annotated[dict[str, Any], From("policy")]
    overrides_fingerprint: Annotated[str, From("fingerprint")]
    changes: list[PolicyChange] | None
    """Of the overrides, from the version before; `None` if that is not on the ledger any more."""
    at: datetime
    actor: str
    note: str | None
    backtest_id: str | None
    restores: int | None = None
    """For a rollback: the version that it restored."""
    segment_id: Annotated[str, From("handle")]
    correlation_id: Annotated[str, From("correlation")]


class NamedPolicy(JsonView, frozen=True):
    fingerprint: str
    effective: dict[str, Any]


class _Set(NamedTuple):
    """A change of policy, where it stands on the ledger, and the version it led to."""

    segment: Segment
    event: PolicySet
    version: int


class PolicyHistory(Service):
    """The known versions of a tenant's policy."""

    async def _tenant(self) -> TenantState:
        return await self.state(tenant_stream(self.caller.tenant)) or TenantState()

    async def policy_named(self, fingerprint: str, *, segment_id: str | None = None) -> NamedPolicy:
        """Return the policy that segments of the tenant name by this fingerprint; raise `NotFound` for another.

        Kept as long as a segment names it. It must be one that is in force, or that a segment of the tenant names:
        `segment_id`, or without that one of the tenant's own stream or of its newest segments.

        Parameters
        ----------
        segment_id
            A segment that names the policy, such as the one it was read from.
        """
        for tenant in (self.caller.tenant, DEPLOYMENT.tenant):
            in_force = await self.engine.policy_of(tenant)
            if fingerprint == in_force.fingerprint:
                return NamedPolicy(fingerprint, msgspec.json.decode(in_force.body))
        body = await self.engine.store.policy(fingerprint)
        if body is None or not await self._was_decided_by(fingerprint, segment_id):
            hint = "" if segment_id else "; give the segment_id of one that does"
            raise NotFound(f"no segment that was searched names the policy {fingerprint[:80]!r}{hint}")
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
        """List changes of the overrides, newest first.

        Each with its author, time, note, backtest and changes.
        """
        named = ["policy history", self.caller.tenant]
        place = place_of(cursor, named, NumberPlace)
        views: Listing[PolicyVersion] = Listing()
        gathered = _GatheredPage(checked_limit(limit))
        end = await self._read_changes(place, gathered.is_full_with, views.reading)
        befores = [*gathered.shown[1:], gathered.behind]
        views.items += [_version_view(*both, end.is_whole) for both in zip(gathered.shown, befores, strict=False)]
        more = end.go_on
        if gathered.behind:
            more = NumberPlace(gathered.shown[-1].segment.seq, gathered.shown[-1].version)
        return views.page(cursor_of(named, more) if more else None)

    async def earlier_overrides(self, version: int | None, fingerprint: str | None) -> PolicyVersion:
        """Return an earlier version, by number or by the fingerprint of its overrides.

        By default it is the one before the latest change that was not rolled back yet: each roll back goes further.
        """
        state = await self._tenant()
        search = _VersionSearch(state, version, fingerprint)
        end = (
            _End()
            if search.wanted == 0
            else await self._read_changes(None, search.is_found_at, lambda _: nullcontext())
        )
        if search.found:
            return _version_view(search.found, None, False)
        if search.wanted == 0 and fingerprint is None:
            if version is None and not state.policy:
                raise Refused("NOTHING_TO_ROLL_BACK", "there is no change of the policy left to roll back")
            if state.policy_version:
                return _no_overrides()
        sought = " ".join(str(name) for name in (search.wanted, fingerprint) if name is not None)
        if end.go_on:
            raise Refused(
                "POLICY_TOO_FAR_BACK",
                f"the policy {sought} is not among the last {PAGES_MAX * SEGMENTS:,} changes of the tenant, keys and "
                f"sessions included; {LISTED}, with their overrides to put again",
            )
        raise NotFound(f"the policy {sought} is not among the versions found on the ledger; {LISTED}")

    async def _read_changes(
        self,
        place: NumberPlace | None,
        is_enough: Callable[[_Set], bool],
        reading: Callable[[Segment], AbstractContextManager[None]],
    ) -> _End:
        """Hand over changes of policy before a place, newest first, until it is enough or `PAGES_MAX` were read."""
        stream = tenant_stream(self.caller.tenant)
        after, version = (place.number, place.row - 1) if place else (0, (await self._tenant()).policy_version)
        for _ in range(PAGES_MAX):
            query = LedgerQuery(
                after=after, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id, limit=SEGMENTS
            )
            segments = await self.engine.store.ledger(query)
            for segment in segments:
                # What came before was pruned: what the last change that is shown replaced is not known any more.
                if checkpoint_of(segment):
                    return _End()
                for event in self._sets_in(segment, reading):
                    if is_enough(_Set(segment, event, version)):
                        return _End()
                    version -= 1
            if len(segments) < SEGMENTS:
                return _End(is_whole=True)
            after = segments[-1].seq
        return _End(go_on=NumberPlace(after, version + 1))

    def _sets_in(self, segment: Segment, reading: Callable[[Segment], AbstractContextManager[None]]) -> list[PolicySet]:
        events: Sequence[Any] = ()
        with reading(segment):
            events = self.engine.kinds.of(segment.stream).events(segment)
        return [event for event in reversed(events) if isinstance(event, PolicySet)]


class _End(NamedTuple):
    """Where reading stopped: at the beginning of the ledger, far from it with a place to go on, or neither."""

    is_whole: bool = False
    go_on: NumberPlace | None = None


class _GatheredPage:
    """The changes that a page shows, and the one behind them, which says what the last of them changed."""

    def __init__(self, limit: int) -> None:
        self.shown: list[_Set] = []
        self.behind: _Set | None = None
        self._limit = limit
        self._chars = 0

    def is_full_with(self, change: _Set) -> bool:
        self._chars += len(change.segment.events)
        if len(self.shown) == self._limit or (self.shown and self._chars > PAGE_CHARS_MAX):
            self.behind = change
            return True
        self.shown.append(change)
        return False


class _VersionSearch:
    """Looks for an earlier version among changes that come newest first, and keeps none but that one.

    Without a number or a fingerprint it is the version before the change whose overrides are in force, however they
    came back. A roll back is no change to go back to: one after another walks down the changes, as undo does.
    """

    def __init__(self, state: TenantState, version: int | None, fingerprint: str | None) -> None:
        self.found: _Set | None = None
        self._is_undo = version is None and fingerprint is None
        self.wanted = state.policy_version if self._is_undo else version
        self._in_force = state.policy
        self._fingerprint = fingerprint

    def is_found_at(self, change: _Set) -> bool:
        """Return whether nothing further back is of interest, having kept the change if it is the one."""
        if self.wanted is None:
            is_it = change.event.fingerprint == self._fingerprint
        elif change.version > self.wanted:
            return False
        elif self._is_undo and (change.event.restores is not None or change.event.policy == self._in_force):
            self.wanted = change.version - 1 if change.event.restores is None else change.event.restores
            return self.wanted == 0
        else:
            is_it = change.version == self.wanted and self._fingerprint in (None, change.event.fingerprint)
        self.found = change if is_it else None
        return is_it or self.wanted is not None


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
    # Only the very first version is known to have replaced nothing; behind a pruned history that cannot be said.
    overrides_before = before.event.policy if before else {} if is_whole and version == 1 else None
    changed = None if overrides_before is None else [*changes("", overrides_before, event.policy)]
    return derive(PolicyVersion, event, segment, version=version, changes=changed)


def changes(path: str, before: Any, after: Any) -> Iterator[PolicyChange]:
    """Yield where two bodies differ, as paths with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from changes(f"{path}.{name}" if path else name, before.get(name), after.get(name))
    elif before != after:
        yield PolicyChange(path, before, after)
