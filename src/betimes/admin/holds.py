"""The hold: nothing of some domains fires until an instant, and nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from betimes.catalogue import AREAS, Area
from betimes.core.datetimes import Moment, instant
from betimes.core.errors import Invalid, Refused
from betimes.domain.hold_view import HoldView, read_hold
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import Note
from betimes.domain.service import Service, check_request
from betimes.engine.tenants.model import EndHold, SetHold, tenant_stream

REASON_CHARS_MAX = 200


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    domains: Annotated[tuple[Area, ...], msgspec.Meta(min_length=1, max_length=len(AREAS))] = AREAS
    """Without it, everything."""
    until: Moment
    """When it ends by itself: within 30 days."""
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARS_MAX)]
    """Why, for the ledger and for everybody affected."""


class HoldStatus(JsonView, frozen=True):
    held: bool
    hold: HoldView | None


class Holds(Service):
    """The hold of one tenant."""

    async def hold(self) -> HoldStatus:
        """Return the hold in force, if there is one."""
        found = await read_hold(self.engine, self.caller.tenant)
        return HoldStatus(found is not None, found)

    async def set_hold(self, request: HoldRequest | Mapping[str, Any]) -> HoldStatus:
        """Let nothing of some domains fire until an instant; a hold there is is replaced."""
        request = check_request(request, HoldRequest)
        try:
            await self._change_hold(SetHold(request.domains, instant(request.until), request.reason))
        except Refused as refused:
            # The bound depends on the store's time, so only the decider can check it.
            if refused.reason == "UNTIL_OUT_OF_BOUNDS":
                raise Invalid(str(refused), (("until", str(refused)),)) from None
            raise
        return await self.hold()

    async def end_hold(self, *, note: Note | None = None) -> None:
        """Let everything fire again, what was postponed first; without a hold there is nothing to do.

        Deferred work comes first. Without a hold nothing changes.

        Parameters
        ----------
        note
            Why, for the record.
        """
        await self._change_hold(EndHold(note or self.caller.note or None))

    async def _change_hold(self, command: SetHold | EndHold) -> None:
        await self.submit(tenant_stream(self.caller.tenant), command)
