"""The nominal time of what a schedule causes: for which instant and which stretch of data, however late it happens."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from betimes.core.instants import Instant, render


class NominalTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """The nominal time of one tick; a catch-up of five has five of them."""

    run_key: str
    scheduled_for: Instant
    data_interval_start: Instant | None = None
    """The occurrence before; none if there never was one."""
    partition_key: str | None = None

    def body(self) -> dict[str, Any]:
        """Return the part of a body that handlers, webhooks and runs receive."""
        start, scheduled_for = self.data_interval_start, _render(self.scheduled_for)
        return {
            "run_key": self.run_key,
            "scheduled_for": scheduled_for,
            "data_interval_start": None if start is None else _render(start),
            "data_interval_end": scheduled_for,
            "partition_key": self.partition_key,
        }


_render = lru_cache(maxsize=1_024)(render)
"""Schedules that are due together have these instants in common."""
NO_NOMINAL_TIME: dict[str, Any] = dict.fromkeys(
    ("scheduled_for", "data_interval_start", "data_interval_end", "partition_key")
)
"""Of what a message or an evaluation causes."""
