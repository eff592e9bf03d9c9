"""Judgements: what a segment judged, and every other time that the same thing was judged.

A notification or a trigger that has to wait is judged again, by another segment of the same stream. Domains say what a
segment judged (`Domain.judged`); nothing here knows a domain by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from betimes.catalogue import DOMAIN_OF
from betimes.core.outcomes import JudgedThing
from betimes.core.segments import Segment
from betimes.domain.json_view import JsonView
from betimes.domain.paging import Listing
from betimes.domain.service import in_slices
from betimes.engine.codecs import Kinds, checkpoint_of
from betimes.engine.engine import Engine

EARLIER_MAX, LATER_MAX = 100, 200
"""Segments of a stream before and after one that are looked through for other judgements of the same thing."""


class JudgedView(JsonView, frozen=True):
    """Something that was judged."""

    id: str
    """The same in every judgement of it, in its stream."""
    key: str
    """The event id or key of the request."""
    what: str | None
    """Such as an event type or a type of trigger, where it is known."""


def judged_things(kinds: Kinds, segment: Segment) -> list[JudgedThing]:
    """Return what a segment judged, as its domain knows it; of most kinds of streams nothing."""
    domain = DOMAIN_OF.get(segment.stream.kind)
    judged = domain.judged.get(segment.stream.kind) if domain else None
    if judged is None or checkpoint_of(segment):
        return []
    kind = kinds.of(segment.stream)
    found: Listing[JudgedThing] = Listing()
    with found.reading(segment):  # one that cannot be read made no decision that can be shown
        command = None if segment.command is None else kind.command(segment.command, segment)
        found.items += judged(command, kind.events(segment), kind.recorded(segment).reply)
    return found.items


def judged_views(things: Iterable[JudgedThing], known: dict[str | int, str]) -> list[JudgedView]:
    """Return things as people see them, each once; `known` says and learns what each is."""
    found: dict[str, JudgedView] = {}
    for thing in things:
        if thing.what:
            known[thing.id] = thing.what
        found.setdefault(thing.key, JudgedView(str(thing.id), thing.key, known.get(thing.id)))
    return [*found.values()]


async def find_others(engine: Engine, segment: Segment) -> tuple[list[Segment], list[Segment]]:
    """Return segments of the same stream that judge what this one judged: those before it and those after, in order."""
    ids = {thing.id for thing in judged_things(engine.kinds, segment)}
    if not ids:
        return [], []
    first = max(segment.version - EARLIER_MAX - 1, 0)
    _, page = await engine.store.history(segment.stream, first, segment.version - first + LATER_MAX)
    found = [
        one
        async for one in in_slices(page)
        if one.version != segment.version and any(thing.id in ids for thing in judged_things(engine.kinds, one))
    ]
    before = [one for one in found if one.version < segment.version]
    return before, found[len(before) :]
