"""The route that prunes old history."""

from __future__ import annotations

from betimes.admin.prune import PruneOutcome, PruneRequest
from betimes.http.routes import RequestContext, Route


async def prune(request: RequestContext) -> PruneOutcome:
    return await request.services.tenants.prune(request.body)


ROUTES = (
    Route(
        "/v1/prune",
        prune,
        "Replace old history by checkpoints",
        method="POST",
        scope="admin",
        tag="Administration",
        description="Of each stream, what is older than `before` becomes one checkpoint, which carries the state it "
        "led to. There is no way back. A dry run counts what would go. A tenant's key prunes that tenant, a key of `*` "
        "all. When `complete` is false, call again with `next_cursor`.",
        body=PruneRequest,
        reply=PruneOutcome,
        keeps_answer="prunes",
        deployment=True,
        example={"before": "2026-01-01T00:00:00Z", "note": "a year is enough"},
    ),
)
