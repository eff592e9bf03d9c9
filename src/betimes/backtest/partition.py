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

from betimes.backtest.domain_rules import PARTS
from betimes.backtest.lockstep import PartResult
from betimes.backtest.plan import Plan, SubjectSample
from betimes.backtest.report import SampleReport
from betimes.backtest.traffic import Chain, cause_of, pages, pruned_refusal
from betimes.core.canonical import digest
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
        self.sources: dict[StreamId, set[StreamId]] = {}
        """For a sample: who sent a stream its commands."""

    def add(self, stream: StreamId) -> None:
        root = self.root(stream)
        self._size[root] = self._size.get(root, 0) + 1

    def root(self, stream: StreamId) -> StreamId:
        parent = self._parent.setdefault(stream, stream)
        while parent != stream:
            grandparent = self._parent[parent]
            # Halves the path on the way, so that long chains of causes are short for whoever asks next.
            self._parent[stream] = grandparent
            stream, parent = parent, grandparent
        return stream

    def join(self, one: StreamId, other: StreamId) -> None:
        first, second = self.root(one), self.root(other)
        if first != second:
            # The least name is the root, whatever the order of joining: every process that splits gets the same groups.
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
    """Read the ledger once and join the streams that were written together or caused each other.

    Those that look at others are joined with them too. For a sample only those written together are joined: what a
    stream looks at, and who sent it something, comes along, and what they send to others goes nowhere.
    """
    links, chain = Links(), Chain(plan.since_at)
    turn, first = "", None
    async for page in pages(store, plan.tenant, plan.until_at):
        for segment in page:
            stream = segment.stream
            if stream.kind == SHARED:
                continue
            links.add(stream)
            chain.note_pruned(segment)
            # Segments of one turn stand next to each other in the ledger.
            if segment.turn == turn and first and first.tenant == stream.tenant:
                links.join(first, stream)
            else:
                turn, first = segment.turn, stream
            if segment.cause and (cause := cause_of(segment)) and cause.kind != SHARED:
                if plan.sample is None:
                    links.join(cause.source, stream)
                elif cause.source != stream:
                    links.sources.setdefault(stream, set()).add(cause.source)
    if chain.possible_from is not None:
        raise pruned_refusal(chain.possible_from)
    if plan.sample is None:
        _join_lookers(links, kinds)
    return links


def _join_lookers(links: Links, kinds: Kinds) -> None:
    """Join every stream with the streams its decider reads, if those have a history."""
    for stream in links.streams:
        for looked_at in kinds.of(stream).decider.reads(stream):
            if looked_at in links:
                links.join(looked_at, stream)


OUTSIDE = -1
"""The part of streams that are not in the sample."""


class ChosenGroups(msgspec.Struct, frozen=True):
    """The groups that are in a sample, by their first streams."""

    roots: frozenset[StreamId]
    report: SampleReport


def choose_groups(links: Links, kinds: Kinds, sample: SubjectSample) -> ChosenGroups:
    """Choose whole groups by a hash of the seed and their subjects' ids, so that the same sample is the same people.

    What counts is how many subjects a group has. Those that hang together in groups too large for the sample are left
    out, with all of their kind: another policy may tie them too. What the chosen ones need comes with them.
    """
    looks = {stream: [at for at in kinds.of(stream).decider.reads(stream) if at in links] for stream in links.streams}
    subjects = _subjects_of(links, {at for seen in looks.values() for at in seen})
    everybody = {id for ids in subjects.values() for id in ids}
    room = sample.subjects or max(1, round((sample.share or 0) * len(everybody)))
    tied = {root for root, ids in subjects.items() if len(ids) > room}
    # Left out by kind, not one by one: a candidate's policy may tie streams of it that the recorded one did not.
    tied_kinds = {stream.kind for stream in links.streams if links.root(stream) in tied and stream.kind not in PARTS}
    apart = {root for root in subjects if root.kind in tied_kinds}

    def rank(root: StreamId) -> tuple[str, StreamId]:
        return digest(sample.seed or 0, root.tenant, min(subjects[root])), root

    chosen: set[str] = set()
    roots: set[StreamId] = set()
    for root in sorted(subjects.keys() - apart, key=rank):
        if len(together := chosen | subjects[root]) <= room:
            chosen = together
            roots.add(root)
    _bring_along(links, looks, roots)
    taken, whole = sum(links.sizes.get(root, 0) for root in roots), sum(links.sizes.values())
    left_out = {id for root in apart for id in subjects[root]} - chosen
    return ChosenGroups(frozenset(roots), SampleReport(len(chosen), len(everybody), taken, whole, len(left_out)))


def _subjects_of(links: Links, shared: set[StreamId]) -> dict[StreamId, set[str]]:
    """Return the ids of the people, accounts and the like in each group; what many look at is no subject."""
    subjects: dict[StreamId, set[str]] = {}
    for stream in links.streams:
        if stream.kind not in PARTS and stream not in shared:
            subjects.setdefault(links.root(stream), set()).add(stream.id)
    return subjects


def _bring_along(links: Links, looks: Mapping[StreamId, Sequence[StreamId]], roots: set[StreamId]) -> None:
    """Add the groups of all that the chosen streams look at or were sent something by, and what those need in turn."""
    members: dict[StreamId, list[StreamId]] = {}
    for stream in links.streams:
        members.setdefault(links.root(stream), []).append(stream)
    left = [*roots]
    while left:
        for stream in members.get(left.pop(), ()):
            for needed in (*looks[stream], *links.sources.get(stream, ())):
                if needed in links and (root := links.root(needed)) not in roots:
                    roots.add(root)
                    left.append(root)


def sample_parts(links: Links, chosen: ChosenGroups) -> Parts:
    """Return the sample as one part; whatever is not in it belongs to none."""
    return Parts(1, {}, {str(stream): 0 if links.root(stream) in chosen.roots else OUTSIDE for stream in links.streams})


def split_links(links: Links, count: int, whole: Iterable[str] = ()) -> Parts:
    """Share the groups among parts, the largest first, each to the part with the least to do."""
    load = [0] * count
    together = set(whole)
    sizes: dict[StreamId | str, int] = {}
    for root, size in links.sizes.items():
        name = root.tenant if root.tenant in together else root
        sizes[name] = sizes.get(name, 0) + size
    part: dict[StreamId | str, int] = {}
    # Ties are broken by name, so that two processes share the work in the same way.
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

    def is_outside(self, stream: StreamId) -> bool:
        return self._parts.part_of(stream) == OUTSIDE

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
