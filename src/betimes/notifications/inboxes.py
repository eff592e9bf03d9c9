"""The service of inboxes: a person's preferences, in-app messages, counters and bans; and incidents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined
from betimes.core.datetimes import instant, moment
from betimes.core.errors import NotFound, Refused, VersionMismatch
from betimes.core.instants import SECOND, Instant
from betimes.core.merge_patch import apply_merge_patch
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domain.derivation import derive
from betimes.domain.paging import (
    InstantPlace,
    Listing,
    NumberPlace,
    Page,
    after_row,
    check_filters,
    checked_limit,
    cursor_of,
    place_of,
)
from betimes.domain.service import Service, check_request
from betimes.engine.store import PAGE_MAX, StreamQuery
from betimes.notifications.feed_model import FeedItem, FeedState, MarkRead, ReadAnswer, feed_stream
from betimes.notifications.fold import HAS_INCIDENT
from betimes.notifications.local_time import clock_text, minute_of_day
from betimes.notifications.message_texts import digest_title, texts_of
from betimes.notifications.model import (
    BanPerson,
    CloseIncident,
    InboxState,
    Incident,
    IncidentAnswer,
    IncidentState,
    Item,
    OpenIncident,
    OptOut,
    Preferences,
    SetPreferences,
    UnbanPerson,
    inbox_stream,
    incident_stream,
)
from betimes.notifications.policy import DAY_S, NotificationsPolicy
from betimes.notifications.preferences import preference_rules
from betimes.notifications.quiet_hours import QuietHours
from betimes.notifications.rule_context import RuleContext, count_within
from betimes.notifications.views import (
    DAYS,
    BanRequest,
    BanView,
    ChannelUse,
    Cooldown,
    DigestLine,
    InboxItem,
    InboxPage,
    IncidentRequest,
    IncidentView,
    NotificationState,
    PreferencesRequest,
    PreferencesView,
    PreferencesWritten,
    QuietHoursView,
    ReadRequest,
    ReadResult,
    WaitingView,
)

PREFERENCES_READ_ONLY = frozenset({"created_at", "updated_at", "warnings", "segment_id"})
_PATCH_TRIES = 5
INCIDENT_PAGES_MAX = 10
"""Pages of people with an incident that one list looks through."""
PREFERENCES, INCIDENTS = "preferences", "incidents"
"""Collections of keys."""


class Inboxes(Service):
    """Preferences, in-app messages, counters and bans of one person, and incidents."""

    def _inbox(self, user_id: str) -> StreamId:
        return self.stream("inbox", user_id)

    async def _inbox_state(self, user_id: str) -> InboxState:
        return await self.state(self._inbox(user_id)) or InboxState()

    # -- preferences

    async def preferences(self, user_id: str) -> PreferencesView:
        return _preferences_view(await self._inbox_state(user_id))

    async def set_preferences(
        self,
        user_id: str,
        body: Mapping[str, Any] | PreferencesRequest | Examined[PreferencesRequest],
        *,
        if_match: int | None = None,
        key: str | None = None,
        request: str = "",
    ) -> PreferencesWritten:
        """Replace the preferences. Read-only fields sent back are ignored."""
        sent: Any = body
        if isinstance(body, Mapping):
            sent = {name: value for name, value in body.items() if name not in PREFERENCES_READ_ONLY}
        chosen = await self.check_under_policy(
            sent, PreferencesRequest, lambda policy: preference_rules(policy[NotificationsPolicy])
        )
        version = chosen.version if if_match is None else if_match
        command = SetPreferences(_preferences_of(chosen), version)
        recorded = await self.submit(self._inbox(user_id), command, key=key, collection=PREFERENCES, request=request)
        return await self._preferences_after(recorded)

    async def _preferences_after(self, recorded: Recorded) -> PreferencesWritten:
        view = _preferences_view(await self.state_after(recorded))
        return derive(PreferencesWritten, view, warnings=[], segment_id=recorded.segment_id)

    async def patch_preferences(
        self, user_id: str, patch: Mapping[str, Any], *, if_match: int | None = None, key: str | None = None
    ) -> PreferencesWritten:
        """JSON Merge Patch; `null` restores a default."""
        wanted = patch.get("version") if if_match is None else if_match
        request = (self.caller.request or fingerprint((user_id, patch))) if key else ""
        if key and (again := await self.find_recorded(key, PREFERENCES, request)):
            return await self._preferences_after(again)
        # A patch without a version is about its own fields only: what others change meanwhile stays as they set it.
        for attempt in range(_PATCH_TRIES):
            current = await self.preferences(user_id)
            if wanted is not None and wanted != current.version:
                raise VersionMismatch(f"the preferences are at version {current.version}; read them again")
            body = _without_nulls(apply_merge_patch(msgspec.to_builtins(current), patch)) | {"version": current.version}
            try:
                return await self.set_preferences(user_id, body, key=key, request=request)
            except VersionMismatch:
                if wanted is not None or attempt == _PATCH_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    # -- bans

    async def ban(self, user_id: str, request: BanRequest | Mapping[str, Any]) -> BanView:
        request = check_request(request, BanRequest)
        await self.submit(self._inbox(user_id), BanPerson(request.reason))
        return BanView(user_id, banned=True, reason=request.reason)

    async def unban(self, user_id: str) -> None:
        await self.submit(self._inbox(user_id), UnbanPerson())

    # -- in-app messages

    @check_filters
    async def inbox(
        self, user_id: str, *, unread: bool | None = None, limit: int = 50, cursor: str | None = None
    ) -> InboxPage:
        """List in-app messages, newest first."""
        checked_limit(limit)
        filters = ("inbox", self.caller.tenant, user_id, unread)
        place = place_of(cursor, filters, NumberPlace)
        self._inbox(user_id)
        found, feed = Listing[InboxItem](), FeedState()
        with found.reading(feed_stream(self.caller.tenant, user_id)):
            feed = await self.state(feed_stream(self.caller.tenant, user_id)) or feed
        listed = [item for item in reversed(feed.items) if unread is None or (item.read_at is None) is unread]
        if place is not None:
            listed = [item for item in listed if _number(item) < place.number]
        page = listed[:limit]
        following = cursor_of(filters, NumberPlace(_number(page[-1]))) if len(listed) > limit else None
        unread_count = sum(item.read_at is None for item in feed.items)
        for item in page:
            with found.reading(item.id):
                found.items.append(await self._inbox_item(user_id, item))
        return InboxPage(found.items, following, unread_count, tuple(found.unreadable))

    async def _inbox_item(self, user_id: str, item: FeedItem) -> InboxItem:
        texts = await texts_of(self.engine.store, self._inbox(user_id), item.segments)
        first = next(iter(texts.values()), None)
        single = first if first and not item.digest else None
        lines = [derive(DigestLine, text) for text in texts.values()]
        return InboxItem(
            item_id=item.id,
            event_id=single.event_id if single else None,
            event_type=single.event_type if single else "DIGEST",
            title=single.title if single else digest_title(list(texts.values()), len(item.segments)),
            message=single.message if single else "\n".join(f"{line.title}: {line.message}" for line in lines),
            metadata=single.metadata if single else {},
            digest=lines if item.digest else [],
            delivered_at=moment(item.at),
            read_at=moment(item.read_at),
        )

    async def mark_read(
        self, user_id: str, request: ReadRequest | Mapping[str, Any], *, key: str | None = None
    ) -> ReadResult:
        """Mark in-app messages as read.

        Either `item_ids`, or `all: true` with `before`.
        """
        request = check_request(request, ReadRequest)
        self._inbox(user_id)
        command = MarkRead(request.item_ids or (), request.all, instant(request.before))
        recorded = await self.submit(feed_stream(self.caller.tenant, user_id), command, key=key)
        assert isinstance(recorded.reply, ReadAnswer)
        return derive(ReadResult, recorded.reply)

    # -- counters

    async def notification_state(self, user_id: str) -> NotificationState:
        policy = (await self.engine.policy_of(self.caller.tenant))[NotificationsPolicy]
        inbox, now = await self._inbox_state(user_id), await self.engine.store.now()
        shared = await self.state(incident_stream(self.caller.tenant))
        nothing = Item(0, "", "", (), now, "")
        context = RuleContext(self._inbox(user_id), inbox, shared.incident if shared else None, nothing, policy, now)
        fatigue = policy.fatigue
        counts = [count_within(inbox.delivered, now, cap.span_s) for cap in (fatigue.burst, fatigue.hour, fatigue.day)]
        gathered = [item.until_at for item in inbox.waiting if item.digest]
        return NotificationState(
            user_id=user_id,
            delivered_5m=counts[0],
            delivered_1h=counts[1],
            delivered_24h=counts[2],
            channels={name: _use(context, name) for name in sorted(policy.channels)},
            cooldowns=_cooldowns(inbox, policy, now),
            quiet_until=moment(context.quiet_until),
            incident=_incident_view(context.incident) if context.incident else None,
            banned=inbox.ban is not None,
            next_digest_at=moment(min(gathered, default=None) or context.next_digest(now)),
            waiting=[
                derive(WaitingView, one)
                for one in sorted(inbox.waiting, key=lambda one: (one.until_at, one.version))[:200]
            ],
        )

    # -- incidents

    async def open_incident(
        self, request: IncidentRequest | Mapping[str, Any], *, key: str | None = None
    ) -> tuple[IncidentView, bool]:
        """Open an incident, or give an open one a later end; return it, and whether it is new."""
        request = check_request(request, IncidentRequest)
        stream = self._inbox(request.user_id) if request.user_id else incident_stream(self.caller.tenant)
        found = _incident_in(await self.state(stream))
        before = found.id if found else None
        command = OpenIncident(request.ttl_seconds, request.reason)
        recorded = await self.submit(stream, command, key=key, collection=INCIDENTS)
        assert isinstance(recorded.reply, IncidentAnswer)
        incident = recorded.reply.incident
        assert incident is not None
        is_new = _version_of(incident) == recorded.version if recorded.replayed else before != incident.id
        return _incident_view(incident), is_new

    @check_filters
    async def incidents(self, *, limit: int = 50, cursor: str | None = None) -> Page[IncidentView]:
        """List open incidents, the last opened first."""
        filters, size = ("incidents", self.caller.tenant), checked_limit(limit)
        found = await self._open_incidents()
        ordered = sorted(found.items, key=_opening, reverse=True)
        before = place_of(cursor, filters, InstantPlace)
        rest = [one for one in ordered if before is None or _opening(one) < (before.at, before.id)]
        more = cursor_of(filters, InstantPlace(*_opening(rest[size - 1]))) if len(rest) > size else None
        return Page([_incident_view(one) for one in rest[:size]], more, tuple(found.unreadable[:size]))

    async def _open_incidents(self) -> Listing[Incident]:
        """Return the tenant's and people's. Incidents do not last long, so there are never many."""
        store, now, tenant = self.engine.store, await self.engine.store.now(), self.caller.tenant
        kind, found = self.engine.kinds.of(inbox_stream(tenant, "any")), Listing[Incident]()
        with found.reading(incident_stream(tenant)):
            found.items += _open_in(await self.state(incident_stream(tenant)), now)
        query = StreamQuery(tenant=tenant, kind="inbox", owner=HAS_INCIDENT, newest_first=True, limit=PAGE_MAX)
        for _ in range(INCIDENT_PAGES_MAX):
            rows = await store.streams(query)
            for row in rows:
                with found.reading(row.stream):
                    found.items += _open_in(kind.state(row.stream, row.schema, row.state), now)
            if len(rows) < PAGE_MAX:
                break
            query = after_row(query, rows[-1])
        return found

    async def close_incident(self, incident_id: str) -> None:
        scope, _, rest = incident_id.partition(":")
        user_id = rest.partition(":")[2]
        known = (scope == "global" and rest.isdigit()) or (scope == "user" and user_id)
        stream = self._inbox(user_id) if user_id else incident_stream(self.caller.tenant)
        try:
            if not known:
                raise Refused("NO_SUCH_INCIDENT", f"there is no open incident {incident_id!r}")
            await self.submit(stream, CloseIncident(incident_id))
        except Refused as refused:
            raise NotFound(str(refused)) from None


def _number(item: FeedItem) -> int:
    """Return the version of the segment that sent it, which is in its id: later messages have higher ones."""
    return int(item.id[1:])


def _opening(incident: Incident) -> tuple[Instant, str]:
    return incident.opened_at, incident.id


def _open_in(state: InboxState | IncidentState | None, now: Instant) -> list[Incident]:
    return [state.incident] if state and state.incident and state.incident.ends_at > now else []


def _incident_in(state: InboxState | IncidentState | None) -> Incident | None:
    return state.incident if state else None


def _version_of(incident: Incident) -> int:
    """Return the version of the segment that opened it, which is in its id."""
    return int(incident.id.split(":")[1])


def _incident_view(incident: Incident) -> IncidentView:
    scope, _, rest = incident.id.partition(":")
    user_id = rest.partition(":")[2] if scope == "user" else None
    return derive(IncidentView, incident, scope="user" if user_id else "global", user_id=user_id)


def _use(context: RuleContext, name: str) -> ChannelUse:
    cap = context.policy.channels[name].cap_24h
    used = count_within(context.inbox.used.get(name, ()), context.now, DAY_S)
    return ChannelUse(used, cap, moment(context.channel_free_at(name)) if cap is not None and used >= cap else None)


def _cooldowns(inbox: InboxState, policy: NotificationsPolicy, now: Instant) -> list[Cooldown]:
    ends = {
        name: at + policy.event_types[name].cooldown_s * SECOND
        for name, at in inbox.last_by_type.items()
        if name in policy.event_types
    }
    return [Cooldown(name, moment(at)) for name, at in sorted(ends.items()) if at > now]


def _preferences_of(request: PreferencesRequest) -> Preferences:
    opt_out = derive(OptOut, request.opt_out)  # not the request's subclass of it, which forbids unknown fields
    return derive(Preferences, request, quiet_hours=tuple(map(_quiet_hours_of, request.quiet_hours)), opt_out=opt_out)


def _quiet_hours_of(view: QuietHoursView) -> QuietHours:
    days = tuple(sorted({DAYS.index(day) for day in view.days}))
    return QuietHours(minute_of_day(view.start), minute_of_day(view.end), days)


def _preferences_view(inbox: InboxState) -> PreferencesView:
    chosen = inbox.preferences
    hours = [
        QuietHoursView(clock_text(one.start), clock_text(one.end), tuple(DAYS[day] for day in one.days))
        for one in chosen.quiet_hours
    ]
    return derive(PreferencesView, chosen, inbox, quiet_hours=hours)


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if isinstance(value, Mapping) else value
        for name, value in body.items()
        if value is not None
    }
