"""Routes of the hold: let nothing fire for a while."""

from __future__ import annotations

from functools import partial

import msgspec

from betimes.admin.holds import HoldRequest, HoldStatus
from betimes.domain.hold_view import HOLD_HEADER
from betimes.domain.operations.model import Note
from betimes.http.routes import RequestContext, Route


class EndQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    note: Note | None = None
    """Why, for the record."""


async def hold(request: RequestContext) -> HoldStatus:
    return await request.services.tenants.hold()


async def set_hold(request: RequestContext) -> HoldStatus:
    return await request.services.tenants.set_hold(request.body)


async def end_hold(request: RequestContext) -> None:
    await request.services.tenants.end_hold(note=request.query.note)


_route = partial(Route, path="/v1/hold", scope="admin", tag="Administration")

ROUTES = (
    _route(method="GET", answer=hold, summary="The hold in force", reply=HoldStatus),
    _route(
        method="PUT",
        answer=set_hold,
        summary="Let nothing fire",
        description="Until that instant, or until it is ended: no alarm of these domains rings, no schedule ticks, "
        "nothing is sent, called or handed out. Requests are answered and recorded as ever. Afterwards all that was "
        "postponed happens, in order. Meanwhile every answer carries the header "
        f"`{HOLD_HEADER}`. A hold that is in force is replaced.",
        body=HoldRequest,
        reply=HoldStatus,
        example={"domains": ["notifications"], "until": "2026-01-05T18:00:00Z", "reason": "a wrong template"},
    ),
    _route(
        method="DELETE",
        answer=end_hold,
        summary="Let everything fire again",
        description="What was postponed comes first. Without a hold nothing changes.",
        query=EndQuery,
    ),
)
