"""Parts of the ledger: groups of streams that can be rehearsed apart from each other.

Streams that were ever written in one turn, that sent each other commands, or of which one looks at the other, belong
together; everything else is independent and can be rehearsed in a process of its own. That is what the ledger tells of
the recorded policy. A candidate may tie streams together that never met: a part that comes upon a stream of another
part is `Entangled`, and parts that both made the same new stream are found afterwards. Then the tenant is rehearsed
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from betimes.backtest.lockstep import PartResult
from betimes.backtest.plan import Plan
from betimes.backtest.traffic import Chain, cause_of, pages, pruned_refusal
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.store import Store

SHARED = "tenant"
"""Streams that every part reads: policies in force."""


class Entangled(Exception):
    """A candidate ties together streams of different parts."""

    def __init__(self, tenant: str) -> None:
        super().__init__(f"streams of {tenant!r} are not independent of each other under a candidate")
        self.tenant = tenant


class Parts(msgspec.Struct, frozen=True):
    """The part of each stream; of tenants that are rehearsed whole, only the tenant's part is kept."""

    count: int
    of_tenant: dict[str, int]
    of_stream: dict[str, int]
    """By name, of tenants that are split."""

    def part_of(self, stream: StreamId) -> int | None:
        """`None` for a stream the ledger does not know of."""
        whole = self.of_tenant.get(stream.tenant)
        return self.of_stream.get(str(stream)) if whole is None else whole


class Links:
    """Streams that belong together, and how many segments each group has."""

    def __init__(self) -> None:
        self._parent: dict[StreamId, StreamId] = {}
        self._size: dict[StreamId, int] = {}

    def add(self, stream: StreamId) -> None:
        root = self.root(stream)
        self._size[root] = self._size.get(root, 0) + 1

    def root(self, stream: StreamId) -> StreamId:
        parent = self._parent.setdefault(stream, stream)
        while parent != stream:
            grandparent = self._parent[parent]
            self._parent[stream] = grandparent
            stream, parent = parent, grandparent
        return stream

    def join(self, one: StreamId, other: StreamId) -> None:
        first, second = self.root(one), self.root(other)
        if first != second:
            first, second = min(first, second), max(first, second)
            self._parent[second] = first
            self._size[first] = self._size.get(first, 0) + self._size.pop(second, 0)

    def __contains__(self, stream: StreamId) -> bool:
        return stream in self._parent

    @property
    def streams(self) -> Iterable[StreamId]:
        return tuple(self._parent)

    @property
    def sizes(self) -> Mapping[StreamId, int]:
        return self._size


async def survey_links(store: Store, kinds: Kinds, plan: Plan) -> Links:
    """Read the ledger once and join the streams that were written together or caused each other."""
    links, chain = Links(), Chain(plan.since_at)
    turn, first = "", None
    async for page in pages(store, plan.tenant, plan.until_at):
        for segment in page:
            stream = segment.stream
            if stream.kind == SHARED:
                continue
            links.add(stream)
            chain.note_pruned(segment)
            if segment.turn == turn and first and first.tenant == stream.tenant:
                links.join(first, stream)
            else:
                turn, first = segment.turn, stream
            if segment.cause and (cause := cause_of(segment)) and cause.kind != SHARED:
                links.join(cause.source, stream)
    if chain.possible_from is not None:
        raise pruned_refusal(chain.possible_from)
    _join_lookers(links, kinds)
    return links


def _join_lookers(links: Links, kinds: Kinds) -> None:
    """Join every stream with the streams its decider reads, if those have a history."""
    for stream in links.streams:
        for looked_at in kinds.of(stream).decider.reads(stream):
            if looked_at in links:
                links.join(looked_at, stream)


def split_links(links: Links, count: int, whole: Iterable[str] = ()) -> Parts:
    """Share the groups among parts, the largest first, each to the part with the least to do."""
    load = [0] * count
    together = set(whole)
    sizes: dict[StreamId | str, int] = {}
    for root, size in links.sizes.items():
        name = root.tenant if root.tenant in together else root
        sizes[name] = sizes.get(name, 0) + size
    part: dict[StreamId | str, int] = {}
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], str(item[0]))):
        part[name] = load.index(min(load))
        load[part[name]] += size
    return Parts(
        count,
        {tenant: part[tenant] for tenant in sorted(together) if tenant in part},
        {
            str(stream): part[links.root(stream)]
            for stream in links.streams
            if stream.tenant not in together and links.root(stream) in part
        },
    )


class Lookout:
    """Watches which streams a part looks at."""

    def __init__(self, parts: Parts, part: int) -> None:
        self._parts = parts
        self._part = part
        self.unknown: set[StreamId] = set()

    def is_mine(self, stream: StreamId) -> bool:
        return self._parts.part_of(stream) == self._part

    def first_look(self, stream: StreamId) -> None:
        if stream.kind == SHARED:
            return
        part = self._parts.part_of(stream)
        if part is None:
            self.unknown.add(stream)
        elif part != self._part:
            raise Entangled(stream.tenant)


def entangled_tenants(results: Sequence[PartResult]) -> set[str]:
    """Return tenants of whom two parts looked at one new stream and one of them wrote it."""
    seen: set[StreamId] = set()
    shared: set[StreamId] = set()
    written: set[StreamId] = set()
    for result in results:
        for stream, was_written in result.looked_at:
            (shared if stream in seen else seen).add(stream)
            if was_written:
                written.add(stream)
    return {stream.tenant for stream in shared & written}
