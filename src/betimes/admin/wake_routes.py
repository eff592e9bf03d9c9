"""The route that rings one stream by hand."""

from __future__ import annotations

import msgspec

from betimes.admin.wakes import WakeView
from betimes.domain.operations.model import Note
from betimes.http.routes import RequestContext, name_segment
from betimes.http.service_calls import route


class WakeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    note: Note | None = None
    """Why, for the record."""


async def wake(request: RequestContext[WakeRequest]) -> WakeView:
    wakes = request.services.wakes
    view = await wakes.wake(request.path["kind"], request.path["id"], note=request.body.note)
    name_segment(request, wakes)
    return view


ROUTES = (
    route(
        "/v1/streams/{kind}/{id}/wake",
        wake,
        "Ring a stream's alarm now, if it is due",
        method="POST",
        scope="tick",
        tag="Time and history",
        description="Ends the snooze of a stream whose wake failed and wakes it; if that fails again, `error` says why "
        "and it is snoozed again.",
        body_optional=True,
        keeps_answer="wakes",
    ),
)
