"""When a schedule occurs, as people send and see it, and the preview of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from betimes.core.datetimes import Moment, instant
from betimes.core.instants import Instant
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import shown
from betimes.schedules.recurrence import CronField, Dst, EverySeconds, Exclude, Recurrence, ZoneText


class EveryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interval of real time; the anchor is its first instant."""

    seconds: EverySeconds
    anchor: Moment | None = None

    @property
    def anchor_at(self) -> Instant:
        return instant(self.anchor) or 0


@shown()
class DstView(Dst, JsonView, frozen=True):
    """The treatment of skipped and repeated local times; a field that is not set goes by the kind of cron."""


class EveryView(JsonView, frozen=True):
    seconds: int
    anchor: datetime | None


@shown()
class ExcludeView(Exclude, JsonView, frozen=True):
    __doc__ = None


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    cron: CronField | None = None
    timezone: ZoneText = "UTC"
    dst: Dst = Dst()
    from_: Moment | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    every: EveryRequest | None = None
    exclude: Exclude | None = None

    def recurrence(self) -> Recurrence:
        return derive(Recurrence, self)


class PreviewTick(JsonView, frozen=True):
    scheduled_for: datetime
    local: str
    """The time on the wall, with its offset."""


class Preview(JsonView, frozen=True):
    items: list[PreviewTick]
    recurrence_text: str
    """The expression in English: `At 07:30 every day`."""
