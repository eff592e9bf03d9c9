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
    """Minimum time between two fires of a cron."""
    cron_fires_per_day_max: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 96
    """Maximum number of fires of a cron on one day."""
    claim_lease_s: Annotated[int, msgspec.Meta(ge=10, le=3_600)] = 300
    """Default lease of a claim."""
    retry_minutes: Minutes = 15
    """Backoff after a failed execution; it doubles with each failure in a row. 0: retry at once."""
    retry_minutes_max: Minutes = 360
    """Longest backoff after a failed execution."""
    source_retry_minutes: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 1
    """Backoff after a source could not be asked; it doubles each time in a row."""
    source_retry_minutes_max: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 30
    """Longest backoff for a source."""
    failures_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10
    """Failures in a row that disable an intent."""
    channels: Annotated[tuple[ChannelName, ...], msgspec.Meta(min_length=1, max_length=8)] = ("push", "in_app")
    """Channels of the notifications of intents, in order of preference."""

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
            raise ValueError("channels contains a duplicate")
