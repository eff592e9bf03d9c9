"""The route that prunes old history."""

from __future__ import annotations

from betimes.admin.service import Tenants
from betimes.http.service_calls import ServiceCalls, route

_tenants = ServiceCalls(lambda request: request.services.tenants)

ROUTES = (
    route(
        "/v1/prune",
        _tenants.call(Tenants.prune),
        "Replace old history by checkpoints",
        method="POST",
        scope="admin",
        tag="Administration",
        description="Of each stream, what is older than `before` becomes one checkpoint, which carries the state it "
        "led to. There is no way back. A dry run counts what would go. A tenant's key prunes that tenant, a key of `*` "
        "all. When `complete` is false, call again with `next_cursor`.",
        keeps_answer="prunes",
        deployment=True,
        example={"before": "2026-01-01T00:00:00Z", "note": "a year is enough"},
    ),
)
