"""The policy section `notifications`: the settings of the rules; a tenant may override any of them."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from betimes.notifications import digests
from betimes.notifications.composite_score import ONE, Factors, ten_thousandths
from betimes.notifications.local_time import TimeOfDay, minute_of_day
from betimes.notifications.reasons import SHADOWABLE_RULES

HOUR_S, DAY_S = 3_600, 86_400
Count = Annotated[int, msgspec.Meta(ge=1, le=500)]
"""Deliveries are remembered one by one for a day, at most 500 of them."""
Seconds = Annotated[int, msgspec.Meta(ge=0, le=7 * DAY_S)]
Span = Annotated[int, msgspec.Meta(ge=1, le=DAY_S)]
TypeName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Z][A-Z0-9_]{0,63}$", description="a name of A–Z, 0–9 and _, at most 64, beginning with a letter"
    ),
]
ChannelName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z][a-z0-9_]{0,31}$", description="a name of a–z, 0–9 and _, at most 32, beginning with a letter"
    ),
]
if TYPE_CHECKING:
    RuleName: TypeAlias = str
else:
    RuleName = Literal[SHADOWABLE_RULES]  # so that decoding names the rules there are, and a new one is added once
Pause = Annotated[int, msgspec.Meta(ge=0, le=DAY_S)]
DELIVERY_PAUSES_S = (5, 30, 120, 600, 2_700)
"""Six attempts over about an hour."""
AfterDeferrals = Literal["digest", "drop", "deliver"]
CRITICAL_TYPE = "SECURITY"
IN_APP = "in_app"
DELIVER = "deliver:"
DELIVER_BY_FUNCTION = f"{DELIVER}function:"
"""The executor of a channel begins so; those of functions have another, which processes without them do not take."""


class _PolicyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, kw_only=True): ...


def _share(name: str, value: Decimal) -> int:
    """Return a setting in ten-thousandths; raise `ValueError` with the setting's name in front."""
    try:
        return ten_thousandths(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


class Thresholds(_PolicyPart, frozen=True):
    now_from: Decimal = Decimal("0.65")
    never_below: Decimal = Decimal("0.30")

    def __post_init__(self) -> None:
        if self.never > self.now:
            raise ValueError("never_below is above now_from; nothing would ever be postponed")

    @cached_property
    def as_texts(self) -> tuple[str, str]:
        return str(self.never_below), str(self.now_from)

    @cached_property
    def now(self) -> int:
        return _share("now_from", self.now_from)

    @cached_property
    def never(self) -> int:
        return _share("never_below", self.never_below)


class EventType(_PolicyPart, frozen=True):
    """A kind of notification."""

    weight: Decimal
    """Weight of the type in the score."""
    cooldown_s: Seconds = 0
    """Minimum time between two deliveries of the type; 0: none."""
    digest: bool = False
    """Collected in digests unless HIGH or above."""
    thresholds: Thresholds | None = None
    ai_fallback: Decimal | None = None
    """Score used when the provider gives none; `null`: the section's."""
    after_deferrals: AfterDeferrals | None = None
    deliver: Literal["first", "all"] = "first"
    """Send through the first channel that is allowed and has room, or through all of them."""

    def __post_init__(self) -> None:
        _ = self.base, self.fallback

    @cached_property
    def base(self) -> int:
        return _share("weight", self.weight)

    @cached_property
    def fallback(self) -> int | None:
        return None if self.ai_fallback is None else _share("ai_fallback", self.ai_fallback)


class Channel(_PolicyPart, frozen=True):
    cap_24h: Count | None = None
    """Deliveries in any 24 hours; `null`: no cap."""
    legal_opt_out: bool = False
    """An opt-out of this channel applies to CRITICAL too."""
    needs_address: bool = True
    """Notifications of intents skip this channel for users without an address; in_app never needs one."""
    function: bool = False
    """Delivered by a Python function (set by `@bt.channel`); only processes with it, or with a configuration,
    deliver."""


def channel_of(executor: str) -> str | None:
    """Return the channel that an executor delivers through; `None` if it delivers nothing."""
    return executor.rpartition(":")[2] if executor.startswith(DELIVER) else None


class Cap(_PolicyPart, frozen=True):
    cap: Count
    span_s: Span


class Fatigue(_PolicyPart, frozen=True):
    """Caps on deliveries in sliding windows, and the pauses after the shortest and the longest one."""

    day: Cap = Cap(cap=30, span_s=DAY_S)
    hour: Cap = Cap(cap=10, span_s=3_600)
    burst: Cap = Cap(cap=3, span_s=300)
    burst_pause_s: Seconds = 900
    day_resumes: TimeOfDay = "08:00"
    """Local time on the following day at which items over the daily cap are released."""

    @cached_property
    def day_resumes_minute(self) -> int:
        return minute_of_day(self.day_resumes)


class Dedup(_PolicyPart, frozen=True):
    window_s: Span = DAY_S
    near: bool = True
    distance_max: Annotated[int, msgspec.Meta(ge=0, le=16)] = 3
    words_min: Annotated[int, msgspec.Meta(ge=2, le=100)] = 4
    """Shorter texts are only compared exactly."""
    shingle_words: Annotated[int, msgspec.Meta(ge=1, le=4)] = 3
    """Words per shingle: fewer find more duplicates, and more false ones."""
    mask_numbers: bool = False
    """Texts that differ only in numbers are near duplicates."""
    near_with_key: bool = False
    """Also check texts with a `dedupe_key` for near duplicates; by default another key means another text."""


class Weights(_PolicyPart, frozen=True):
    hint: Decimal = Decimal("0.35")
    ai: Decimal = Decimal("0.25")
    type: Decimal = Decimal("0.30")
    recency: Decimal = Decimal("0.10")

    def __post_init__(self) -> None:
        exact = self.exact
        if exact.hint + exact.ai + exact.type + exact.recency != ONE:
            raise ValueError("the four weights must add up to 1")

    @cached_property
    def exact(self) -> Factors:
        return Factors(*(_share(name, getattr(self, name)) for name in ("hint", "ai", "type", "recency")))


class Hints(_PolicyPart, frozen=True):
    """The value of each priority hint in the score."""

    critical: Decimal = Decimal("1.0")
    high: Decimal = Decimal("0.8")
    medium: Decimal = Decimal("0.5")
    low: Decimal = Decimal("0.2")
    absent: Decimal = Decimal("0.3")

    def __post_init__(self) -> None:
        exact = self.exact
        if not exact["CRITICAL"] >= exact["HIGH"] >= exact["MEDIUM"] >= exact["LOW"]:
            raise ValueError("a higher priority must not be worth less than a lower one")
        if not exact["LOW"] <= exact[None] <= exact["HIGH"]:
            raise ValueError("an absent hint must be worth something from LOW to HIGH")

    @cached_property
    def exact(self) -> dict[str | None, int]:
        return {
            "CRITICAL": _share("critical", self.critical),
            "HIGH": _share("high", self.high),
            "MEDIUM": _share("medium", self.medium),
            "LOW": _share("low", self.low),
            None: _share("absent", self.absent),
        }


_WEIGHTS = {
    "SECURITY": "1.0",
    "MESSAGE": "0.75",
    "ALERT": "0.7",
    "REMINDER": "0.6",
    "SYSTEM": "0.55",
    "UPDATE": "0.4",
    "DIGEST": "0.3",
    "PROMO": "0.15",
}
_TYPES = {name: EventType(weight=Decimal(weight), digest=name == "DIGEST") for name, weight in _WEIGHTS.items()}
_CHANNELS = {"push": Channel(), "email": Channel(), "sms": Channel(cap_24h=3, legal_opt_out=True), IN_APP: Channel()}


class NotificationsPolicy(_PolicyPart, frozen=True):
    mode: Literal["enforce", "shadow"] = "enforce"
    """`shadow`: every rule that stops or defers is judged and recorded, and none is enforced."""
    shadow: tuple[RuleName, ...] = ()
    """Rules that are judged and recorded but not enforced."""
    event_types: Annotated[dict[TypeName, EventType], msgspec.Meta(max_length=64)] = msgspec.field(
        default_factory=lambda: dict(_TYPES)
    )
    channels: Annotated[dict[ChannelName, Channel], msgspec.Meta(max_length=16)] = msgspec.field(
        default_factory=lambda: dict(_CHANNELS)
    )
    critical_channels: tuple[ChannelName, ...] = ("push", "email", "sms", IN_APP)
    """Channels that CRITICAL tries after the ones it lists."""
    weights: Weights = Weights()
    hints: Hints = Hints()
    recency_count: Count = 10
    """With this many deliveries in the last hour, recency is 0."""
    thresholds: Thresholds = Thresholds()
    score_defer_s: Annotated[int, msgspec.Meta(ge=60, le=DAY_S)] = 1_800
    ai_fallback: Decimal = Decimal("0.5")
    fatigue: Fatigue = Fatigue()
    dedup: Dedup = Dedup()
    digest_windows: Annotated[tuple[str, ...], msgspec.Meta(max_length=8)] = ("0 8 * * *", "0 18 * * *")
    """Cron expressions in the user's zone, for users without their own."""
    max_deferrals: Annotated[int, msgspec.Meta(ge=1, le=10)] = 2
    after_deferrals: AfterDeferrals = "digest"
    jitter_s: Annotated[int, msgspec.Meta(ge=0, le=3_600)] = 300
    """Instants that many users share are spread over this time."""
    incident_ttl_s: Annotated[int, msgspec.Meta(ge=60, le=604_800)] = 7_200
    delivery_attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 6
    """Attempts per channel; CRITICAL moves to its next channel after one."""
    delivery_pauses_s: Annotated[tuple[Pause, ...], msgspec.Meta(min_length=1, max_length=20)] = DELIVERY_PAUSES_S
    """Backoff after the first failed attempt, the second, and so on; the last one is repeated. Each is up to a fifth
    longer, by a hash of the delivery."""

    def __post_init__(self) -> None:
        problems = [
            f"digest_windows: {cron!r}: {problem}"
            for cron in self.digest_windows
            if (problem := digests.problem_of(cron))
        ]
        problems += [
            f"critical_channels: there is no channel {name!r}"
            for name in self.critical_channels
            if name not in self.channels
        ]
        if IN_APP not in self.channels:
            problems.append(f"channels: {IN_APP!r} cannot be left out: it is where CRITICAL always arrives")
        _ = self.fallback
        if problems:
            raise ValueError("; ".join(problems))

    @cached_property
    def fallback(self) -> int:
        return _share("ai_fallback", self.ai_fallback)

    @cached_property
    def shadow_rules(self) -> frozenset[str]:
        """The rules that are evaluated and recorded and do not bind."""
        return frozenset(SHADOWABLE_RULES) if self.mode == "shadow" else frozenset(self.shadow)

    @cached_property
    def function_channels(self) -> frozenset[str]:
        """The channels that functions deliver."""
        return frozenset(name for name, channel in self.channels.items() if channel.function)
