"""Search: one box over ids of streams, keys, segments, effects and correlations; by their beginning, twenty answers.

A key in force is found by its beginning, one that has expired by the whole of it, as long as the ledger has its
segment.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from betimes.catalogue import DOMAIN_OF, area_of
from betimes.core.errors import Invalid, UnknownKind
from betimes.core.streams import parse_effect_handle, parse_segment_handle
from betimes.domain.json_view import JsonView
from betimes.domain.paging import check_filters, wrong_parameter
from betimes.engine.store import EffectQuery, LedgerQuery
from betimes.ledger.effects import NUMBER_MAX
from betimes.ledger.reader import LedgerReader

HITS_MAX = 20
EACH_MAX = 5
"""Of each kind of stream, and of each collection of keys."""
QUERY_CHARS_MAX = 300
PEOPLE = ("inbox",)
"""Kinds of streams that represent a person or an account."""
HitType: TypeAlias = Literal["stream", "key", "segment", "effect", "correlation"]


class SearchHit(JsonView, frozen=True, kw_only=True):
    type: HitType
    id: str
    """The text found: an id, a key, a handle."""
    kind: str
    """Of the stream it is, or is of."""
    domain: str
    status: str | None = None
    href: str
    """Where the API says more about it."""


class SearchView(JsonView, frozen=True):
    items: list[SearchHit]
    truncated: bool
    """Whether there may be more hits."""


class Search(LedgerReader):
    """Finds things by what they are called."""

    @check_filters
    async def search(self, q: str, *, kinds: str | None = None) -> SearchView:
        """Find what is called so, or begins so: exact ones first, and people before all else of their name."""
        wanted = tuple(sorted(self.check_kinds(kinds)))
        text = q.strip()
        if not 1 <= len(text) <= QUERY_CHARS_MAX:
            raise wrong_parameter("q", f"1 to {QUERY_CHARS_MAX} characters")
        hits = [
            *await self._segment(text, wanted),
            *await self._effect(text, wanted),
            *await self._streams(text, wanted),
            *await self._keys(text, wanted),
            *await self._correlated(text, wanted),
        ]
        # The sort is stable, so within a rank the order of the looks above stays.
        hits.sort(key=lambda hit: (hit.id != text, hit.kind not in PEOPLE))
        return SearchView(hits[:HITS_MAX], len(hits) > HITS_MAX)

    async def _streams(self, text: str, kinds: tuple[str, ...]) -> list[SearchHit]:
        found = await self.engine.store.names_like(self.caller.tenant, kinds, text, EACH_MAX)
        return [_hit("stream", one.id, one.kind, f"streams/{one.kind}/{one.id}", one.status or None) for one in found]

    async def _keys(self, text: str, kinds: tuple[str, ...]) -> list[SearchHit]:
        """Find keys in force by their beginning, and those that expired, which only the ledger has, by the whole."""
        collections = {*kinds, *(name for kind in kinds for name in DOMAIN_OF[kind].collections)}
        in_force = await self.engine.store.keys_like(self.caller.tenant, sorted(collections), text, EACH_MAX)
        handles = {f"{one.kind}:{one.id}:{one.version}": (one.key, one.kind) for one in in_force if one.kind in kinds}
        query = LedgerQuery(tenant=self.caller.tenant, key=text, backwards=True, limit=EACH_MAX)
        for segment in await self.engine.store.ledger(query):
            if segment.stream.kind in kinds and segment.key and segment.key.collection in collections:
                handles.setdefault(segment.handle, (text, segment.stream.kind))
        return [_hit("key", key, kind, f"explain/{handle}") for handle, (key, kind) in handles.items()]

    async def _segment(self, text: str, kinds: tuple[str, ...]) -> list[SearchHit]:
        try:
            stream, version = parse_segment_handle(self.caller.tenant, text)
        except (Invalid, UnknownKind):
            return []
        if stream.kind not in kinds or not 1 <= version <= NUMBER_MAX:
            return []
        _, page = await self.engine.store.history(stream, version - 1, 1)
        return [_hit("segment", text, stream.kind, f"explain/{text}")] if page and page[0].version == version else []

    async def _effect(self, text: str, kinds: tuple[str, ...]) -> list[SearchHit]:
        try:
            effect = parse_effect_handle(self.caller.tenant, text)
        except (Invalid, UnknownKind):
            return []
        if effect.kind not in kinds or max(effect.version, effect.place) > NUMBER_MAX:
            return []
        query = EffectQuery(tenant=effect.tenant, source=effect.source, version=effect.version, limit=200)
        rows = [row for row in await self.engine.store.effects(query) if row.id == effect]
        return [_hit("effect", text, effect.kind, f"effects/{text}", row.status) for row in rows]

    async def _correlated(self, text: str, kinds: tuple[str, ...]) -> list[SearchHit]:
        query = LedgerQuery(tenant=self.caller.tenant, correlation=text, limit=EACH_MAX)
        return [
            _hit("correlation", text, found.stream.kind, f"explain/{found.handle}")
            for found in await self.engine.store.ledger(query)
            if found.stream.kind in kinds
        ]


def _hit(type: HitType, id: str, kind: str, path: str, status: str | None = None) -> SearchHit:
    return SearchHit(type=type, id=id, kind=kind, domain=area_of(kind) or "", status=status, href=f"/v1/{path}")
