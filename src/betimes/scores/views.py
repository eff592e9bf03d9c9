"""Scores as callers see them: points as decimals, instants as datetimes, and a forecast.

Everything is derived from a state, a policy and an instant with the domain's own arithmetic; nothing is decided here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from betimes.core.datetimes import instant, moment
from betimes.core.deciders import Event
from betimes.core.instants import DAY, HOUR, Instant
from betimes.core.segments import Segment
from betimes.core.streams import segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import From, placed
from betimes.scores.amounts import Micro, points
from betimes.scores.decay import Terms, debt_until, falls_to_at
from betimes.scores.model import (
    Decayed,
    GameOver,
    Interacted,
    ScoreAdjusted,
    ScoreCreated,
    ScoreState,
    StatusChanged,
    ThresholdCrossed,
    score_stream,
)
from betimes.scores.policy import ScoresPolicy
from betimes.scores.rules import terms_of

Chapter: TypeAlias = int | str
Points: TypeAlias = Annotated[Decimal, From("score", points)]
HistoryType: TypeAlias = Literal["created", "interaction", "decay", "decay_game_over", "adjust", "status"]
_DECIMALS = 6
_UNKNOWN_STAGE = Terms(grace_us=0, rate=0, daily_cap=0, cycle_cap=0)
"""A score whose stage is gone from the policy is shown as one that does not fade: no sweep takes anything from it."""
_LAST_AT = instant(datetime.max.replace(tzinfo=UTC))


AnyScore = TypeVar("AnyScore", bound="Score")


class ThresholdForecast(JsonView, frozen=True):
    name: str
    score: Decimal
    at: datetime | None


class Forecast(JsonView, frozen=True):
    """If nothing happens, swept hourly."""

    thresholds: list[ThresholdForecast]
    zero_at: datetime | None


class Score(JsonView, frozen=True):
    user_id: str
    score: Points
    """As stored."""
    effective_score: Decimal
    """The score that a sweep would leave now."""
    chapter: Chapter
    game_status: Annotated[str, From("status")]
    last_interaction_at: Annotated[datetime | None, From("interacted_at")]
    grace_ends_at: datetime
    last_decay_applied_at: Annotated[datetime | None, From("applied_at")]
    hours_overdue: Decimal
    days_overdue: Decimal
    paused_until: datetime | None
    forecast: Forecast | None
    created_at: datetime
    updated_at: datetime


class WrittenScore(Score, frozen=True):
    """A score as a command left it."""

    segment_id: str


class Period(JsonView, frozen=True, rename={"since": "from"}):
    since: Annotated[datetime, From("from_at")]
    to: datetime


class DecayResult(JsonView, frozen=True):
    user_id: str
    decay_amount: Annotated[Decimal, From("amount", points)]
    score_before: Decimal
    score_after: Points
    hours_overdue: Decimal
    days_overdue: Decimal
    chapter: Chapter
    decay_rate: Annotated[Decimal, From("rate", points)]
    timestamp: datetime
    period: Period
    segment_id: str


@placed(counted=None, created="counted", decay="created")
class InteractionAnswer(WrittenScore, frozen=True, kw_only=True):
    """An interaction, and the score as it left it."""

    counted: bool
    created: bool
    decay: DecayResult | None


class AdjustAnswer(JsonView, frozen=True):
    user_id: str
    score_before: Decimal
    score_after: Decimal
    reason: str
    timestamp: datetime
    segment_id: str


class HistoryEntry(JsonView, frozen=True):
    event_type: HistoryType
    timestamp: datetime
    score_before: Decimal
    score_after: Decimal
    event_details: dict[str, Any]
    segment_id: str


# -- scores


def as_of(state: ScoreState, policy: ScoresPolicy, now: Instant) -> ScoreState:
    """Return the state with a pause that has timed out ended, as its alarm will end it."""
    until_at = state.paused_until_at
    if until_at is None or until_at > now:
        return state
    return replace(state, status=policy.active_statuses[0], interacted_at=until_at, paused_until_at=None)


def score_view(user_id: str, state: ScoreState, policy: ScoresPolicy, now: Instant, updated_at: Instant) -> Score:
    """Return the score as it is now."""
    return _score(Score, user_id, state, policy, now, updated_at=updated_at)


def written_score(user_id: str, state: ScoreState, policy: ScoresPolicy, now: Instant, segment_id: str) -> WrittenScore:
    """Return the score as a command left it."""
    return _score(WrittenScore, user_id, state, policy, now, updated_at=now, segment_id=segment_id)


def _score(
    kind: type[AnyScore], user_id: str, stored: ScoreState, policy: ScoresPolicy, now: Instant, **given: Any
) -> AnyScore:
    state = as_of(stored, policy, now)
    # A stage that the policy has no more is like a pause: nothing is taken until somebody sets another.
    paused = state.status in policy.pauses or state.chapter not in policy.terms
    terms = policy.terms.get(state.chapter, _UNKNOWN_STAGE)
    debt = debt_until(terms, state.base_at, state.applied_at, now, state.score)
    return derive(
        kind,
        state,
        debt,
        user_id=user_id,
        effective_score=points(state.score - (0 if paused else debt.amount)),
        forecast=None if paused else _forecast(state, policy, now),
        **_overdue_fields(0 if paused else max(now - debt.grace_ends_at, 0)),
        **given,
    )


def _forecast(state: ScoreState, policy: ScoresPolicy, now: Instant) -> Forecast:
    terms, base_at = terms_of(state, policy), state.base_at

    def at(level: Micro) -> datetime | None:
        falls_at = falls_to_at(terms, base_at, state.applied_at, state.score, level, now)
        return None if falls_at is None or falls_at > _LAST_AT else moment(falls_at)  # past the year 9999: never

    ahead = [(level, name) for level, name in policy.levels if level < state.score]
    return Forecast([ThresholdForecast(name, points(level), at(level)) for level, name in ahead], at(0))


def _ratio(part: int, whole: int) -> Decimal:
    """Return a ratio to six decimals, rounded down, without trailing zeros."""
    return points(part * 10**_DECIMALS // whole)


def _overdue_fields(overdue_us: int) -> dict[str, Any]:
    return {"hours_overdue": _ratio(overdue_us, HOUR), "days_overdue": _ratio(overdue_us, DAY)}


def decay_result(user_id: str, decay: Decayed, at: Instant, segment_id: str) -> DecayResult:
    """Return a decay as callers see it."""
    return derive(
        DecayResult,
        decay,
        user_id=user_id,
        score_before=points(decay.score + decay.amount),
        timestamp=at,
        period=derive(Period, decay),
        segment_id=segment_id,
        **_overdue_fields(decay.to_at - decay.grace_ends_at),
    )


# -- history


def history_entries(segment: Segment, events: tuple[Event, ...]) -> list[HistoryEntry]:
    """Return the entries that one segment adds to the history, in the order they happened."""
    return [entry for event in events if (entry := _entry(segment, event, events))]


def _entry(segment: Segment, event: Event, events: tuple[Event, ...]) -> HistoryEntry | None:
    match event:
        case ScoreCreated(score, chapter, status):
            return _history_entry("created", segment, score, score, {"chapter": chapter, "game_status": status})
        case Interacted(interaction, at, score, counted):
            details = {"type": interaction, "at": moment(at), "counted": counted}
            return _history_entry("interaction", segment, score, score, details)
        case StatusChanged(status, chapter, score, reason):
            details = {
                "game_status": status,
                "chapter": chapter,
                "reason": reason or None,
                "paused_until": moment(event.paused_until_at),
            }
            return _history_entry("status", segment, score, score, details)
        case ScoreAdjusted(before, score, reason):
            crossed, over = _crossed_thresholds(events, score, before), _game_over(events, "adjust")
            details = {"reason": reason, "game_over": over, "thresholds_crossed": crossed}
            return _history_entry("adjust", segment, before, score, details)
        case Decayed():
            return _decay_entry(segment, event, events)
        case _:
            return None


def _decay_entry(segment: Segment, decay: Decayed, events: tuple[Event, ...]) -> HistoryEntry:
    before, over = decay.score + decay.amount, _game_over(events, "decay")
    result = decay_result(segment.stream.id, decay, segment.at, _handle(segment))
    shown = ("user_id", "decay_amount", "hours_overdue", "days_overdue", "chapter", "decay_rate", "period")
    details = {name: getattr(result, name) for name in shown}
    details["thresholds_crossed"] = _crossed_thresholds(events, decay.score, before)
    if over:
        details["reason"] = "decay"
    return _history_entry("decay_game_over" if over else "decay", segment, before, decay.score, details)


def _history_entry(
    what: HistoryType, segment: Segment, before: Micro, after: Micro, details: dict[str, Any]
) -> HistoryEntry:
    return HistoryEntry(what, moment(segment.at), points(before), points(after), details, _handle(segment))


def _handle(segment: Segment) -> str:
    return segment_handle(score_stream(segment.stream.tenant, segment.stream.id), segment.version)


def _game_over(events: tuple[Event, ...], reason: str) -> bool:
    return any(isinstance(event, GameOver) and event.reason == reason for event in events)


def _crossed_thresholds(events: tuple[Event, ...], after: Micro, before: Micro) -> list[str]:
    """Return the names of the thresholds between two scores that this segment crossed."""
    return [event.name for event in events if isinstance(event, ThresholdCrossed) and after <= event.threshold < before]
