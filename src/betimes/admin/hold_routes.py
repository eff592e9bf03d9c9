"""Routes of the hold: let nothing fire for a while."""

from __future__ import annotations

from functools import partial

import msgspec

from betimes.admin.service import Tenants
from betimes.domain.hold_view import HOLD_HEADER
from betimes.domain.operations.model import Note
from betimes.http.service_calls import ServiceCalls, route


class EndQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    note: Note | None = None
    """Why, for the record."""


_tenants = ServiceCalls(lambda request: request.services.tenants)
_route = partial(route, "/v1/hold", scope="admin", tag="Administration")

ROUTES = (
    _route(_tenants.call(Tenants.hold), "The hold in force", method="GET"),
    _route(
        _tenants.call(Tenants.set_hold),
        "Let nothing fire",
        method="PUT",
        description="Until that instant, or until it is ended: no alarm of these domains rings, no schedule ticks, "
        "nothing is sent, called or handed out. Requests are answered and recorded as ever. Afterwards all that was "
        "postponed happens, in order. Meanwhile every answer carries the header "
        f"`{HOLD_HEADER}`. A hold that is in force is replaced.",
        example={"domains": ["notifications"], "until": "2026-01-05T18:00:00Z", "reason": "a wrong template"},
    ),
    _route(
        _tenants.call(Tenants.end_hold),
        "Let everything fire again",
        method="DELETE",
        description="What was postponed comes first. Without a hold nothing changes.",
        query=EndQuery,
    ),
)
