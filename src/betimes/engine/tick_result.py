"""The outcome of a tick."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.instants import Instant, render


class TickResult(msgspec.Struct, frozen=True):
    """The outcome of a pass: what it did, and what it left.

    Instants are whole microseconds since 1970, as everywhere in this package; `str()` and `to_dict` show them as text.
    """

    now: Instant
    """The instant at which the pass ended."""
    fired: dict[str, int]
    """How many alarms rang and intents fired, by kind of stream."""
    effects: dict[str, int]
    """How many calls to the outside ended, by how."""
    sends: int
    """How many commands to other streams were applied."""
    complete: bool
    """Whether nothing is due any more."""
    next_due_at: Instant | None
    """When something is due next, if anything is known to be."""

    @property
    def effect_counts(self) -> dict[str, int]:
        """The ends of effects by kind; those that are not tried again count as dead."""
        lost = sum(self.effects.get(end, 0) for end in ("dead", "failed", "abandoned"))
        return {"done": self.effects.get("done", 0), "retrying": self.effects.get("retrying", 0), "dead": lost}

    def __repr__(self) -> str:
        """Return it with instants as readable text."""
        parts = {name: getattr(self, name) for name in self.__struct_fields__}
        parts |= {name: parts[name] and render(parts[name]) for name in ("now", "next_due_at")}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

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
