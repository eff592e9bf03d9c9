"""Verdicts as they are committed, as server-sent events.

A stream belongs to its request: it takes what is new from the end of the ledger, which all streams share, sends it, and
sleeps for a bounded while, all in the task that answers. When the reader goes away that task is cancelled and nothing
is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Literal

import msgspec

from betimes.catalogue import readable_areas
from betimes.domain.derivation import derive
from betimes.domain.paging import wrong_parameter
from betimes.engine.engine import Engine
from betimes.http.event_stream import EventStream, demand_room, may_go_on, read_rounds
from betimes.http.process import Streams
from betimes.http.routes import RequestContext, Route
from betimes.ledger.known_names import check_names, split_names
from betimes.ledger.pulse import SAMPLES_MAX, PulseFeed, PulseFrame, PulseTail
from betimes.ledger.verdict_feed import (
    ALL,
    BEHIND_MAX,
    FeedFilters,
    FeedPosition,
    Pulse,
    VerdictEvent,
    VerdictFeed,
    VerdictTail,
    position_of,
)

TAG = "Time and history"
SAMPLES = 20
"""Verdicts that a frame shows, if not asked otherwise."""


class VerdictStreamQuery(FeedFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Literal["verdicts", "pulse"] = "verdicts"
    """`pulse`: a frame a second, with sums and a few samples, in place of every verdict."""
    sample: Annotated[int, msgspec.Meta(ge=0, le=SAMPLES_MAX)] | None = None
    """Of a pulse: how many verdicts each frame shows; 20, if not given."""


async def verdicts(request: RequestContext) -> EventStream:
    tenant, streams, engine = request.caller.tenant, request.process.streams, request.engine
    query: VerdictStreamQuery = request.query
    filters = derive(FeedFilters, query)
    _check_mode(query)
    check_names(outcomes=split_names(query.outcome), reason=query.reason)
    domains = readable_areas(request.scopes, "read")
    last = request.headers.get("last-event-id")
    if query.mode == "pulse":
        samples = SAMPLES if query.sample is None else query.sample
        pulse = PulseFeed(streams.share_tail(engine, PulseTail), tenant, domains, filters, samples)
        await pulse.start(position_of(last).seq if last else None)
        demand_room(streams, tenant)
        return EventStream(stream_frames(pulse, engine, streams, lambda: may_go_on(request)), streams, tenant)
    tail = streams.share_tail(engine, VerdictTail)
    if last:
        feed = VerdictFeed(tail, tenant, domains, filters, position_of(last))
    else:
        feed = await VerdictFeed.from_now(tail, tenant, domains, filters)
    demand_room(streams, tenant)
    return EventStream(stream_events(feed, engine, streams, lambda: may_go_on(request)), streams, tenant)


def _check_mode(query: VerdictStreamQuery) -> None:
    """Raise `Invalid` for parameters of the other mode."""
    if query.mode == "pulse" and query.id is not None:
        raise wrong_parameter("id", "not with mode=pulse")
    if query.mode == "verdicts" and query.sample is not None:
        raise wrong_parameter("sample", "only with mode=pulse")


async def stream_events(
    feed: VerdictFeed, engine: Engine, streams: Streams, may_read_on: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yield bytes for the wire until the reader goes, loses its key, or the process stops."""
    loop = asyncio.get_running_loop()
    yield b": from here on\n\n"
    said_s = loop.time()
    async for _ in read_rounds(engine, streams, may_read_on):
        events = await feed.read()
        if events:
            yield b"".join(
                _encode_event(_name(event), position, msgspec.json.encode(event)) for position, event in events
            )
            said_s = loop.time()
        elif loop.time() - said_s >= streams.comment_s:
            yield b": still here\n\n"
            said_s = loop.time()
        if not feed.is_behind:
            await asyncio.sleep(engine.settings.poll_s)


async def stream_frames(
    feed: PulseFeed, engine: Engine, streams: Streams, may_read_on: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yield frames for the wire until the reader goes, loses its key, or the process stops."""
    yield b": from here on\n\n"
    async for _ in read_rounds(engine, streams, may_read_on):
        found = await feed.read()
        if found:
            seq, frame = found
            yield _encode_event("frame", str(FeedPosition(seq, ALL)), frame)
        await asyncio.sleep(feed.rests_s)


def _name(event: VerdictEvent | Pulse) -> str:
    return "pulse" if isinstance(event, Pulse) else "verdict"


def _encode_event(name: str, id: str, data: bytes) -> bytes:
    """Return the bytes of one event; JSON has no line breaks, so its data is one line."""
    return f"id: {id}\nevent: {name}\ndata: ".encode() + data + b"\n\n"


ROUTES = (
    Route(
        "/v1/verdicts/stream",
        verdicts,
        "Live verdicts",
        method="GET",
        scope="any:read",
        tag=TAG,
        description="Server-sent events: `event: verdict` with a resume cursor as "
        "its id. The header `Last-Event-ID` resumes; without it, from now on. A comment comes every 15 s. A stream "
        "ends within that time when its key is revoked or expires. A reader "
        f"over {BEHIND_MAX:,} events behind gets `event: pulse` in their place: their number by outcome and reason, "
        "and between which instants they were; its id is where it goes on. With `mode=pulse` there is one "
        "`event: frame` a second in place of every verdict: sums since the frame before, a few samples, and what is "
        "owed. A slow reader gets fewer and bigger frames and is never ended.",
        query=VerdictStreamQuery,
        reply=str,
        events={"verdict": VerdictEvent, "pulse": Pulse, "frame": PulseFrame},
        media_type="text/event-stream",
        time_limit_s=None,
        codes=((429, "TOO_MANY_STREAMS"),),
    ),
)
