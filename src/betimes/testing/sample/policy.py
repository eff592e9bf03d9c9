"""What a gate's doorkeeper goes by."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[int, msgspec.Meta(ge=0, le=86_400)]
Cap = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class GatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cooldown_s: Seconds = 60
    per_hour: Cap = 12
    tenant_per_hour: Cap | None = None
    """All gates of the tenant together; `None`: no common limit, and no common stream is locked."""
    waiting_max: Cap = 16
    greet: bool = False
    """Call `handler:greet` for every admission."""
    announce: bool = False
    """Call `handler:announce` for every admission, at least once."""
    tally: bool = False
    """Count every admission in a stream of its own."""
