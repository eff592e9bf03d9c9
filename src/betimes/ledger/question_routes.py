"""Routes of questions: what this server is, what was decided and how often, what comes next, who and what there is."""

from __future__ import annotations

from typing import Annotated

import msgspec

from betimes.http.routes import ANY_KEY, RequestContext
from betimes.http.service_calls import ServiceRoutes
from betimes.ledger.fleet import ProcessList
from betimes.ledger.meta import MetaView
from betimes.ledger.routes import ledger_of
from betimes.ledger.search import HITS_MAX, QUERY_CHARS_MAX
from betimes.ledger.service import Ledger
from betimes.ledger.statistics import CELLS_MAX
from betimes.ledger.stream_list import VERIFIED_MAX

TAG = "Questions"


class SearchQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[str, msgspec.Meta(min_length=1, max_length=QUERY_CHARS_MAX)]
    kinds: str | None = None
    """Of streams, with commas."""


async def meta(request: RequestContext) -> MetaView:
    return await ledger_of(request).meta(virtual=request.application.is_virtual)


async def processes(request: RequestContext) -> ProcessList:
    return await ledger_of(request).processes(virtual=request.application.is_virtual)


_ledger = ServiceRoutes(ledger_of, TAG, read="any:read", write="any:write")

ROUTES = (
    _ledger.get(
        "/v1/meta",
        meta,
        "Information about this server",
        description="Its version and time, the domains and kinds the key may read, channels, bounds and what is "
        "installed.",
        scope=ANY_KEY,
    ),
    _ledger.get(
        "/v1/stats",
        Ledger.stats,
        "Counts of outcomes",
        description=f"Counts of outcomes in steps of time, in UTC: at most {CELLS_MAX:,} cells. They come from the "
        "tally, which is kept for two days by the minute, for ninety by the hour, and by the day after that. An "
        "outcome with several reasons counts under each of them.",
    ),
    _ledger.get("/v1/verdicts", Ledger.verdicts, "Past verdicts"),
    _ledger.get("/v1/upcoming", Ledger.upcoming, "Upcoming work, counted by time"),
    _ledger.get("/v1/upcoming/items", Ledger.upcoming_items, "Waiting items"),
    _ledger.get("/v1/timeline", Ledger.timeline, "The day of a user or an account"),
    _ledger.get(
        "/v1/search",
        Ledger.search,
        "Search by id or prefix",
        description="Ids of streams and keys by their beginning; segments, effects and correlations by their whole "
        f"name. At most {HITS_MAX} hits, exact ones first.",
        query=SearchQuery,
    ),
    _ledger.get("/v1/streams", Ledger.streams, "Streams of a kind"),
    _ledger.get("/v1/streams/{kind}/{id}", Ledger.stream_detail, "One stream"),
    _ledger.get(
        "/v1/streams/{kind}/{id}/verification",
        Ledger.verify_stream,
        "Verify one stream",
        description="Replays its history and compares it with what is stored, byte for byte, with the chain of "
        f"digests: at most {VERIFIED_MAX:,} segments. `betimes verify` does the same for everything.",
        scope="admin",
        codes=((409, "HISTORY_TOO_LONG"),),
    ),
    _ledger.get("/v1/backlog", Ledger.backlog, "Due and pending work"),
    _ledger.get("/v1/health", Ledger.health, "Health: lateness of alarms, pending effects, verifications"),
    _ledger.get(
        "/v1/processes",
        processes,
        "Running processes",
        description="Processes seen within a day: role, version, executors, when they were last seen.",
        scope="admin",
    ),
)
