"""Outcomes: what an event decided, for events that stand for a decision without carrying a verdict."""

from __future__ import annotations

import msgspec

from betimes.core.instants import Instant


class EventOutcome(msgspec.Struct, frozen=True, gc=False):
    """One decision in the spelling of its domain, such as `fired` or `ALLOW`."""

    outcome: str
    reasons: tuple[str, ...] = ()
    until: Instant | None = None
    would_pass_at: Instant | None = None
