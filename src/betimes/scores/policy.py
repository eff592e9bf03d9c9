"""The section `scores` of the policy: stages with their grace, rate and cap, statuses, interactions, thresholds.

The deployment or the tenant sets every number; a value that cannot work is refused with its path.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import Annotated, TypeAlias

import msgspec

from betimes.core.instants import HOUR, SECOND
from betimes.scores.amounts import SCORE_MAX, Micro, micro
from betimes.scores.decay import Terms

Word: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="of letters, digits and the characters . _ -, beginning with none of . and -",
    ),
]
Words: TypeAlias = Annotated[tuple[Word, ...], msgspec.Meta(max_length=32)]
StageName: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | Word
GRACE_HOURS_MAX = 24 * 366
PAUSE_S_MAX = 366 * 86_400
PauseSeconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=PAUSE_S_MAX)]


def _check_amount(name: str, value: Decimal, low: Decimal, high: Decimal) -> Micro:
    if not value.is_finite() or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, not {value}")
    return micro(value)


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage: how long it forgives neglect, and what neglect costs after that."""

    name: StageName
    grace_hours: Decimal
    rate: Decimal
    """Points per hour."""
    daily_cap: Decimal
    """Points within each 24 hours counted from the grace end."""

    def __post_init__(self) -> None:
        _check_amount("grace_hours", self.grace_hours, Decimal(0), Decimal(GRACE_HOURS_MAX))
        _check_amount("rate", self.rate, Decimal(0), Decimal(100))
        _check_amount("daily_cap", self.daily_cap, Decimal(0), Decimal(100))


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A level that is an event of its own when a score falls to it."""

    name: Word
    score: Decimal

    def __post_init__(self) -> None:
        if _check_amount("score", self.score, Decimal(0), Decimal(100)) in (0, SCORE_MAX):
            raise ValueError("score must lie between 0, which is game over, and 100, which nothing falls to")


def _stage(name: int, grace_hours: int, rate: str, daily_cap: int) -> Stage:
    return Stage(name, Decimal(grace_hours), Decimal(rate), Decimal(daily_cap))


CHAPTERS = (
    _stage(1, 24, "0.8", 15),
    _stage(2, 36, "0.6", 12),
    _stage(3, 48, "0.4", 10),
    _stage(4, 72, "0.3", 8),
    _stage(5, 96, "0.2", 5),
)


class ScoresPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The section `scores`."""

    stages: Annotated[tuple[Stage, ...], msgspec.Meta(min_length=1, max_length=100)] = CHAPTERS
    """In order; a new score starts in the first."""
    start: Decimal = Decimal(50)
    """Points of a new score."""
    max_decay_per_cycle: Decimal = Decimal(20)
    """The most points one sweep takes; anything beyond it is forgiven."""
    active_statuses: Annotated[Words, msgspec.Meta(min_length=1)] = ("active",)
    """Scores with these statuses decay; a new score, and one whose pause times out, gets the first."""
    paused_statuses: Annotated[Words, msgspec.Meta(min_length=1)] = ("boss_fight", "game_over", "won")
    """Scores with these statuses do not decay."""
    pause_timeouts_s: dict[Word, PauseSeconds] = {}
    """Default time-out of pauses in seconds, by status; a pause that is not listed has none."""
    game_over_status: Word = "game_over"
    """Status of a score that reached 0; one of the paused statuses."""
    interactions: Words = ("text", "voice")
    """Kinds of interactions that restart grace."""
    uncounted_interactions: Words = ("portal",)
    """Kinds of interactions that are recorded but do not restart grace."""
    thresholds: Annotated[tuple[Threshold, ...], msgspec.Meta(max_length=16)] = (
        Threshold("warning", Decimal(40)),
        Threshold("critical", Decimal(20)),
    )
    """Thresholds besides 0, which always is one."""
    sweep_interval_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 60
    """How soon after a decay a score may be swept again."""

    def __post_init__(self) -> None:
        if _check_amount("start", self.start, Decimal(0), Decimal(100)) == 0:
            raise ValueError("start must be more than 0: a score that starts at 0 would be over at once")
        cap = _check_amount("max_decay_per_cycle", self.max_decay_per_cycle, Decimal(0), Decimal(100))
        for place, stage in enumerate(self.stages):
            if micro(stage.rate) > cap:
                raise ValueError(
                    f"max_decay_per_cycle is less than stages[{place}].rate: hourly sweeps would forgive part of it"
                )
        _check_distinct("stages", [str(stage.name) for stage in self.stages])
        _check_distinct("active_statuses and paused_statuses", [*self.active_statuses, *self.paused_statuses])
        _check_distinct("interactions and uncounted_interactions", [*self.interactions, *self.uncounted_interactions])
        _check_distinct("thresholds", [threshold.name for threshold in self.thresholds])
        _check_distinct("thresholds' scores", [str(micro(threshold.score)) for threshold in self.thresholds])
        if self.game_over_status not in self.paused_statuses:
            raise ValueError(f"game_over_status {self.game_over_status!r} must be one of paused_statuses")
        timed = set(self.paused_statuses) - {self.game_over_status}
        if wrong := sorted(self.pause_timeouts_s.keys() - timed):
            raise ValueError(
                f"pause_timeouts_s: no time-out can end {', '.join(wrong)}; known: {', '.join(sorted(timed)) or 'none'}"
            )

    @cached_property
    def terms(self) -> dict[StageName, Terms]:
        """The stages' numbers, whole."""
        cap = micro(self.max_decay_per_cycle)
        return {
            stage.name: Terms(
                micro(stage.grace_hours) * (HOUR // SECOND), micro(stage.rate), micro(stage.daily_cap), cap
            )
            for stage in self.stages
        }

    @cached_property
    def levels(self) -> tuple[tuple[Micro, str], ...]:
        """The thresholds, highest first."""
        return tuple(sorted(((micro(t.score), t.name) for t in self.thresholds), reverse=True))

    @cached_property
    def level_max(self) -> Micro:
        return max((level for level, _ in self.levels), default=0)

    @cached_property
    def level_min(self) -> Micro:
        return min((level for level, _ in self.levels), default=0)

    @cached_property
    def pauses(self) -> frozenset[str]:
        """The paused statuses, to look one up in."""
        return frozenset(self.paused_statuses)

    @cached_property
    def sweep_interval_us(self) -> int:
        return self.sweep_interval_s * SECOND

    @property
    def first_stage(self) -> StageName:
        return self.stages[0].name

    def knows_status(self, status: str) -> bool:
        return status in self.pauses or status in self.active_statuses


def _check_distinct(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} must be distinct; there more than once: {', '.join(twice)}")
