"""Outcomes: what an event decided, for events that stand for a decision without carrying a verdict; what was judged."""

from __future__ import annotations

import msgspec

from betimes.core.instants import Instant


class EventOutcome(msgspec.Struct, frozen=True, gc=False):
    """One decision in the spelling of its domain, such as `fired` or `ALLOW`."""

    outcome: str
    reasons: tuple[str, ...] = ()
    until: Instant | None = None
    would_pass_at: Instant | None = None


class JudgedThing(msgspec.Struct, frozen=True, gc=False):
    """One thing that a segment judged."""

    id: str | int
    """Later judgements of the same thing have the same."""
    key: str
    """The event id or key of the request."""
    what: str = ""
    """Such as an event type, where the segment says it."""
