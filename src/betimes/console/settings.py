"""Settings of the console."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Texts: TypeAlias = Literal["never", "click", "always"]


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether there is a console, and what it offers."""

    enabled: bool = True
    """Serve the console at `/console`."""
    actions: bool = True
    """Offer what changes something, to whoever has the scope for it; without, no session can be let to act either."""
    texts: Texts = "click"
    """When the texts of messages are shown to people who look: they are personal."""
