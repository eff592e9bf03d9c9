"""The outcome of a tick."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.instants import Instant, render


class TickResult(msgspec.Struct, frozen=True):
    """The outcome of a pass: what it did, and what it left. `complete` is false when something is still due."""

    now: Instant
    fired: dict[str, int]
    effects: dict[str, int]
    sends: int
    complete: bool
    next_due_at: Instant | None

    @property
    def effect_counts(self) -> dict[str, int]:
        """The ends of effects by kind; those that are not tried again count as dead."""
        lost = sum(self.effects.get(end, 0) for end in ("dead", "failed", "abandoned"))
        return {"done": self.effects.get("done", 0), "retrying": self.effects.get("retrying", 0), "dead": lost}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values: what the HTTP API sends."""
        next_due_at = None if self.next_due_at is None else render(self.next_due_at)
        return {
            "now": render(self.now),
            "fired": self.fired,
            "effects": self.effect_counts,
            "complete": self.complete,
            "next_due_at": next_due_at,
        }
