"""The policy section `automation`: settings of all sensors, beyond their own definitions."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[int, msgspec.Meta(ge=1, le=604_800)]


class AutomationPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backoff_min_s: Seconds = 1
    """Backoff of a poll sensor, beyond its interval, after its first error in a row; it doubles with each."""
    backoff_max_s: Seconds = 3_600
    """Longest backoff of a failing poll sensor."""
    secret_overlap_s: Seconds = 86_400
    """How long a sensor's old secret stays valid after a rotation."""
    evaluator_attempts_max: Annotated[int, msgspec.Meta(ge=1, le=100)] = 8
    """Attempts at evaluating a message before it is a dead letter."""

    def __post_init__(self) -> None:
        if self.backoff_min_s > self.backoff_max_s:
            raise ValueError("backoff_min_s must not be longer than backoff_max_s")
