"""The section `intents` of the policy."""

from __future__ import annotations

from typing import Annotated

import msgspec

Minutes = Annotated[int, msgspec.Meta(ge=0, le=10_080)]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=86_400)]
ChannelName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class IntentsPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled_per_user_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 25
    """Intents one user may have enabled at a time; lowering it disables none."""
    cron_gap_s_min: Seconds = 60
    """The least time between two fires of a cron."""
    cron_fires_per_day_max: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 96
    """Fires of a cron on a day on which it fires."""
    claim_lease_s: Annotated[int, msgspec.Meta(ge=10, le=3_600)] = 300
    """How long a claim lives when whoever claims does not say."""
    retry_minutes: Minutes = 15
    """The pause after a failed execution; it doubles with each failure in a row. 0: tried again at once."""
    retry_minutes_max: Minutes = 360
    """The longest pause after a failed execution."""
    source_retry_minutes: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 1
    """The pause after a source could not be asked; it doubles with each time in a row."""
    source_retry_minutes_max: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 30
    """The longest pause for a source."""
    failures_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10
    """So many failures in a row disable an intent."""
    channels: Annotated[tuple[ChannelName, ...], msgspec.Meta(min_length=1, max_length=8)] = ("push", "in_app")
    """The channels of a notification that an intent leads to, in order of preference."""

    def __post_init__(self) -> None:
        if self.retry_minutes_max < self.retry_minutes:
            raise ValueError(
                f"retry_minutes_max ({self.retry_minutes_max}) must be at least retry_minutes ({self.retry_minutes})"
            )
        if self.source_retry_minutes_max < self.source_retry_minutes:
            raise ValueError(
                f"source_retry_minutes_max ({self.source_retry_minutes_max}) must be at least source_retry_minutes "
                f"({self.source_retry_minutes})"
            )
        if len(set(self.channels)) < len(self.channels):
            raise ValueError("channels names one twice")
