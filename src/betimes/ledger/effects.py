"""Effects as a caller may see them: what had to happen outside, and how it went."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from betimes.catalogue import Area
from betimes.core.errors import Invalid, NotFound
from betimes.core.streams import ID_FIRST, ID_LAST, EffectId, StreamId, parse_effect_handle, segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import (
    LOOKED_AT_MAX,
    InstantPlace,
    Listing,
    Page,
    check_filters,
    checked_limit,
    cursor_of,
    malformed_cursor,
    place_of,
)
from betimes.domain.service import check_request
from betimes.domain.struct_forms import placed
from betimes.engine.codecs import decode_text
from betimes.engine.store import PAGE_MAX, SEND, EffectQuery, EffectRow
from betimes.ledger.reader import LedgerReader, domain_of
from betimes.ledger.redaction import redact
from betimes.notifications.delivery import load_delivery
from betimes.notifications.message_texts import texts_of
from betimes.notifications.model import inbox_stream
from betimes.notifications.policy import channel_of

NUMBER_MAX = 2**31 - 1
"""Versions and places are below it on every store."""
WEBHOOKS = ("webhook", "evaluator")
EffectKind: TypeAlias = Literal["run_handler", "handler", "webhook", "delivery", "command"]
ErrorText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Status: TypeAlias = Literal["pending", "done", "failed", "dead"]


class StreamView(JsonView, frozen=True):
    kind: str
    id: str


class EffectView(JsonView, frozen=True, kw_only=True):
    effect_id: str
    effect_kind: EffectKind
    domain: str
    stream: StreamView
    segment_id: str
    target: str
    executor: str
    """The name by which processes take it, such as `webhook` or `deliver:push`."""
    status: Status
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    created_at: datetime
    finished_at: datetime | None
    user_id: str | None
    """Of a delivery."""
    event_id: str | None
    """Of a delivery; `None` of a digest of several."""
    channel: str | None
    """Of a delivery."""


class EffectAttempt(JsonView, frozen=True):
    at: datetime
    ok: bool
    error: str | None
    duration_ms: int | None


class EffectDetail(EffectView, frozen=True, kw_only=True):
    payload: Any
    history: list[EffectAttempt]
    """Its last attempts, oldest first; `at` is when each ended."""


class EffectChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A choice of effects; a field left out does not narrow."""

    effect_kind: EffectKind | None = None
    domain: Area | None = None
    channel: str | None = None
    """Of a delivery."""
    executor: str | None = None
    """Such as `webhook` or `deliver:push`."""
    error: ErrorText | None = None
    """A text in the last error, in any case."""

    def fits(self, row: EffectRow) -> bool:
        return (
            self.effect_kind in (None, kind_of(row))
            and self.domain in (None, domain_of(row.id.kind))
            and (self.channel is None or channel_of(row.executor) == self.channel)
            and self.executor in (None, row.executor)
            and (self.error is None or self.error.lower() in row.last_error.lower())
        )


@placed(status=None, user_id="domain")
class EffectFilters(EffectChoice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Status | None = None
    user_id: str | None = None
    """Of a delivery."""


class Effects(LedgerReader):
    """The effects of the domains it is given."""

    @check_filters
    async def effects(
        self, filters: EffectFilters | Mapping[str, Any], *, limit: int = 50, cursor: str | None = None
    ) -> Page[EffectView]:
        """The newest first.

        Deliveries are `effect_kind=delivery`, dead letters `status=dead`. Effects of domains the key may not read
        are left out; ended ones are deleted after a while.
        """
        filters = check_request(filters, EffectFilters)
        checked_limit(limit)
        named = ["effects", self.caller.tenant, filters]
        place = place_of(cursor, named, InstantPlace)
        # One more than is shown, to know whether there is another page.
        query = self._query(filters, limit + 1)
        rows, place = await self._look_through(query, place, limit, lambda row: self._is_wanted(row, filters))
        found: Listing[EffectView] = Listing()
        for row in rows:
            with found.reading(row.id):
                found.items.append(await self.view(row))
        return found.page(cursor_of(named, place) if place else None)

    async def _look_through(
        self,
        query: EffectQuery,
        place: InstantPlace | None,
        limit: int,
        is_wanted: Callable[[EffectRow], bool],
        keep: Callable[[EffectRow], EffectRow] = lambda row: row,
    ) -> tuple[list[EffectRow], InstantPlace | None]:
        """Return up to `limit` matching effects after a position, and the next position, if there may be more."""
        if place is not None:
            query = replace(query, after=effect_at(place, self.caller.tenant), after_created_at=place.at)
        found: list[EffectRow] = []
        looked_at = 0
        while looked_at < LOOKED_AT_MAX:
            page = await self.engine.store.effects(query)
            for row in page:
                if is_wanted(row):
                    # Only with one more than asked for it is known that there is a next page, from the row before on.
                    if len(found) == limit:
                        return found, place
                    found.append(keep(row))
                # Also of rows that are not wanted, so that the next page does not look through them again.
                place = InstantPlace(row.created_at, self._place_id(row.id, query).handle)
            if len(page) < query.limit:
                return found, None
            looked_at += query.limit
            last, left = page[-1], max(1, LOOKED_AT_MAX - looked_at)
            query = replace(query, after=last.id, after_created_at=last.created_at, limit=min(PAGE_MAX, left))
        return found, place

    def _place_id(self, id: EffectId, query: EffectQuery) -> EffectId:
        """Return the id that a cursor names: none of a domain that the caller may not see, but the end of its kind."""
        if self.may_see(id.kind):
            return id
        end = (ID_LAST, NUMBER_MAX, NUMBER_MAX) if query.oldest_first else (ID_FIRST, 0, 0)
        return EffectId(id.tenant, id.kind, *end)

    def _query(self, filters: EffectFilters, limit: int) -> EffectQuery:
        tenant = self.caller.tenant
        source = inbox_stream(tenant, filters.user_id) if filters.user_id is not None else None
        # Of the statuses only dead letters have an index, and a person's effects have one of their own.
        is_indexed = filters.status == "dead" and source is None
        return EffectQuery(
            tenant=tenant, source=source, status="dead" if is_indexed else None, newest_first=True, limit=limit
        )

    def _is_wanted(self, row: EffectRow, filters: EffectFilters) -> bool:
        return (
            self.may_see(row.id.kind)
            and filters.status in (None, status_of(row))
            and (filters.user_id is None or channel_of(row.executor) is not None)
            and filters.fits(row)
        )

    async def effect(self, effect_id: str) -> EffectDetail:
        row = await self._row(effect_id)
        view = await self.view(row)
        payload = redact(decode_text(_payloads, row.payload, "the payload of", row.id), row.id.kind)
        if row.executor in WEBHOOKS:
            payload["url"] = bare_url(payload["url"])
        return derive(EffectDetail, view, payload=payload, history=history_of(row))

    async def _objection(self, row: EffectRow) -> str:
        """Say why a delivery may not be made any more, if it is one and may not."""
        channel = channel_of(row.executor)
        if channel is None:
            return ""
        segments = _payload(row)["segments"]
        return (await load_delivery(self.engine, row.id.source, channel, segments)).objection

    async def _row(self, effect_id: str) -> EffectRow:
        unknown = NotFound(f"there is no effect {effect_id[:80]!r}; effects are deleted some time after they end")
        try:
            id = parse_effect_handle(self.caller.tenant, effect_id)
        except Invalid:
            raise unknown from None
        if not self.may_see(id.kind) or max(id.version, id.place) > NUMBER_MAX:
            raise unknown
        async for row in self._of_segment(id.source, id.version):
            if row.id == id:
                return row
        raise unknown

    async def _of_segment(self, source: StreamId, version: int) -> AsyncIterator[EffectRow]:
        after: EffectId | None = None
        while True:
            page = await self.engine.store.effects(
                EffectQuery(source=source, version=version, after=after, limit=PAGE_MAX)
            )
            for row in page:
                yield row
            if len(page) < PAGE_MAX:
                return
            after = page[-1].id

    async def view(self, row: EffectRow) -> EffectView:
        channel = channel_of(row.executor)
        is_open = row.status in ("pending", "leased")
        return derive(
            EffectView,
            row,
            effect_id=row.id.handle,
            effect_kind=kind_of(row),
            domain=domain_of(row.id.kind),
            stream=StreamView(row.id.kind, row.id.id),
            segment_id=segment_handle(row.id.source, row.id.version),
            target=target_of(row),
            status=status_of(row),
            next_attempt_at=row.next_attempt_at if is_open else None,
            user_id=row.id.id if channel else None,
            event_id=await self._event_id(row) if channel else None,
            channel=channel,
        )

    async def _event_id(self, row: EffectRow) -> str | None:
        versions = _payload(row).get("segments", ())
        if len(versions) != 1:
            return None
        texts = await texts_of(self.engine.store, row.id.source, versions)
        return next((text.event_id for text in texts.values()), None)


def status_of(row: EffectRow) -> Status:
    return "pending" if row.status == "leased" else row.status


def kind_of(row: EffectRow) -> EffectKind:
    if row.executor == SEND:
        return "command"
    if channel_of(row.executor):
        return "delivery"
    if row.at_most_once and row.to is not None and row.to.kind == "run":
        return "run_handler"
    return "webhook" if row.executor in WEBHOOKS else "handler"


def target_of(row: EffectRow) -> str:
    """Return the target in a word: a stream, a channel, a handler, or an address without anything secret in it."""
    if row.executor == SEND:
        return f"{row.to.kind}:{row.to.id}" if row.to else SEND
    if row.executor in WEBHOOKS:
        return bare_url(_payload(row).get("url", ""))
    return channel_of(row.executor) or row.executor.partition(":")[2] or row.executor


_payloads: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_bodies = msgspec.json.Decoder(dict[str, Any])


def _payload(row: EffectRow) -> dict[str, Any]:
    payload: dict[str, Any] = decode_text(_bodies, row.payload, "the payload of", row.id)
    return payload


def bare_url(url: str) -> str:
    """Return the address without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"  # saved before URLs were checked, and perhaps with something secret in it
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def history_of(row: EffectRow) -> list[EffectAttempt]:
    return [derive(EffectAttempt, made) for made in row.history]


def effect_at(place: InstantPlace, tenant: str) -> EffectId:
    """Return the effect a place names; raise `Invalid` if nothing can have that id."""
    try:
        after = parse_effect_handle(tenant, place.id)
    except Invalid:
        raise malformed_cursor() from None
    if max(after.version, after.place) > NUMBER_MAX:
        raise malformed_cursor()
    return after
