"""The decisions about a score, and the effects of thresholds and game over.

Every command first takes the debt (`rules.settle_score`) and is judged by what is left. Reaching 0 is game over, once:
only an adjustment and then a change of status bring the score back. Game over is committed even when the command that
found it is refused (`Refusal.settles`).
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision, Effect, Event, Reconsider, Refusal, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.domain.hooks import hook_effects
from betimes.scores.amounts import SCORE_MAX, micro, number
from betimes.scores.fold import fold_score, score_alarm, score_index
from betimes.scores.model import (
    KIND,
    AdjustScore,
    Commands,
    CreateScore,
    Decayed,
    GameOver,
    Interact,
    Interacted,
    Reply,
    Rescheduled,
    ScoreAdjusted,
    ScoreCreated,
    ScoreState,
    SetStatus,
    StatusChanged,
    SweepScore,
    Swept,
    ThresholdCrossed,
)
from betimes.scores.policy import ScoresPolicy
from betimes.scores.reasons import REASONS
from betimes.scores.rules import (
    RULES,
    SettledScore,
    UnknownStage,
    crossings,
    due_of,
    reschedule,
    score_case,
    settle_score,
)

TIMEOUT = "timeout"


def decide_score(
    view: View[ScoreState], command: Commands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    """Decide a command on a score."""
    if view.state is None:
        return _begin_score(view, command, policy, now)
    decision = _judge_command(view, view.state, command, policy, now)
    if isinstance(decision, Refusal):
        # A debt that reaches 0 ends the score first, also where the command is refused: it does not wait for a sweep.
        return replace(decision, settles=_game_over_sweep(view.state, command, policy[ScoresPolicy], now))
    return decision


def _judge_command(
    view: View[ScoreState],
    state: ScoreState,
    command: Commands | Wake | Settled | Reconsider,
    policy: Policy,
    now: Instant,
) -> Decision | Refusal:
    scores = policy[ScoresPolicy]
    match command:
        case SweepScore(at):
            # Time that has not passed yet is not charged.
            return _sweep_score(view, state, policy, scores, now if at is None or at > now else at)
        case Interact():
            return _record_interaction(view, command, policy, now)
        case SetStatus():
            return _set_status(view, state, command, policy, now)
        case AdjustScore():
            return _adjust_score(view, state, command, policy, now)
        case CreateScore():
            return Refusal("ALREADY_EXISTS", f"{view.stream.id!r} has a score already")
        case Wake():
            return _end_pause(state, scores)
        # A stage that the new policy has dropped has no terms to reschedule by; the next sweep reports it.
        case Reconsider():
            return Decision() if _refuse_unknown_stage(state, scores) else Decision(_reschedule_if_moved(state, scores))
        case Settled():
            return Decision()


def _game_over_sweep(
    state: ScoreState, command: Commands | Wake | Settled | Reconsider, scores: ScoresPolicy, now: Instant
) -> SweepScore | None:
    """Return the sweep that ends a score whose debt by the command's instant reaches 0, if it does."""
    if state.score == 0 or _refuse_unknown_stage(state, scores):
        return None
    at = command.at if isinstance(command, Interact) and command.at is not None else now
    return SweepScore(min(at, now)) if settle_score(state, scores, min(at, now)).state.score == 0 else None


def _begin_score(
    view: View[ScoreState], command: Commands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    """Decide a command for a user who has no score yet."""
    match command:
        case CreateScore():
            return _create_score(view, command, policy[ScoresPolicy], now)
        case Interact():
            return _record_interaction(view, command, policy, now)
        case _:
            return Refusal("NOT_FOUND", f"there is no score of {view.stream.id!r}; create it, or send an interaction")


# -- sweeps


def _sweep_score(
    view: View[ScoreState], state: ScoreState, policy: Policy, scores: ScoresPolicy, until_at: Instant
) -> Decision:
    paid = settle_score(state, scores, until_at)
    decay, events = paid.decay, paid.events
    if decay is None:
        # If the score is listed as due it is put elsewhere: a sweep that found it again and again would never end.
        verdict = RULES.judge(score_case(state, scores, until_at))
        return Decision(_reschedule_if_moved(state, scores), verdict=verdict, reply="skipped")
    reply: Swept = "capped" if decay.forgiven else "decayed"
    if len(events) == 1:
        return Decision(events, reply=reply)  # most of a sweep: no threshold was crossed, so there are no hooks
    if isinstance(events[-1], GameOver):
        reply = "game_over"
    return Decision(events, effects=_hooks(view, policy, events, until_at), reply=reply)


def _reschedule_if_moved(state: ScoreState, policy: ScoresPolicy) -> tuple[Event, ...]:
    """Move the next sweep, if the policy has it at another instant than the score."""
    due_at = due_of(state, policy)
    return (Rescheduled(due_at),) if due_at != state.due_at else ()


# -- commands of callers


def _create_score(view: View[ScoreState], asked: CreateScore, policy: ScoresPolicy, now: Instant) -> Decision | Refusal:
    # An import may bring instants of its own, but none that has not come yet: time that will pass cannot be charged.
    late = max(asked.created_at or 0, asked.interacted_at or 0, asked.applied_at or 0)
    created = _initial_score(asked, policy, now)
    if late > now:
        return _refuse_future(late, now)
    if refusal := _refuse_unknown_names(created.status, created.chapter, policy):
        return refusal
    if created.score == 0 and created.status not in policy.pauses:
        return _refuse_at_floor(view)
    created = replace(created, due_at=due_of(fold_score(None, created), policy))
    return Decision((created,), reply=Reply(fold_score(None, created), created=True))


def _initial_score(asked: CreateScore, policy: ScoresPolicy, now: Instant) -> ScoreCreated:
    score = micro(policy.start) if asked.score is None else asked.score
    chapter = policy.first_stage if asked.chapter is None else asked.chapter
    status = policy.active_statuses[0] if asked.status is None else asked.status
    created_at = now if asked.created_at is None else asked.created_at
    return ScoreCreated(score, chapter, status, created_at, asked.interacted_at, asked.applied_at)


def _record_interaction(view: View[ScoreState], asked: Interact, policy: Policy, now: Instant) -> Decision | Refusal:
    scores = policy[ScoresPolicy]
    at = now if asked.at is None else asked.at
    if at > now:
        return _refuse_future(at, now)
    counted = asked.interaction in scores.interactions
    if not counted and asked.interaction not in scores.uncounted_interactions:
        return Refusal("UNKNOWN_INTERACTION", f"the policy knows no interaction {asked.interaction!r}")
    begun: tuple[Event, ...] = ()
    state = view.state
    if state is None:
        created = _initial_score(CreateScore(), scores, now)
        state = reschedule(fold_score(None, created), scores)
        begun = (replace(created, due_at=state.due_at),)
    if counted and (refusal := _refuse_unknown_stage(state, scores)):
        return refusal
    paid = _settle_known_stage(state, scores, at)
    tended = paid.state
    happened = Interacted(asked.interaction, at, tended.score, False)
    if counted:
        # An interaction that is told late does not take back a later one.
        tended = reschedule(replace(tended, interacted_at=max(at, tended.base_at)), scores)
        happened = Interacted(asked.interaction, at, tended.score, True, tended.interacted_at, tended.due_at)
    events = (*begun, *paid.events, happened)
    reply = Reply(tended, paid.decay, counted=counted, created=bool(begun))
    return Decision(events, effects=_hooks(view, policy, events, at), reply=reply)


def _settle_known_stage(state: ScoreState, policy: ScoresPolicy, until_at: Instant) -> SettledScore:
    """Take the debt, except of a score whose stage is gone: that one does not fade."""
    return settle_score(state, policy, until_at) if state.chapter in policy.terms else SettledScore(state)


def _set_status(
    view: View[ScoreState], state: ScoreState, asked: SetStatus, policy: Policy, now: Instant
) -> Decision | Refusal:
    scores = policy[ScoresPolicy]
    chapter = state.chapter if asked.chapter is None else asked.chapter
    if refusal := _refuse_unknown_names(asked.status, chapter, scores):
        return refusal
    into_pause = asked.status in scores.pauses
    if asked.timeout_s is not None and not into_pause:
        return Refusal("NOT_A_PAUSE", f"{asked.status!r} is not paused, so no time-out can end it")
    # What was owed is taken first, at the terms it was owed under.
    paid = _settle_known_stage(state, scores, now)
    if paid.state.score == 0 and (asked.status != scores.game_over_status or asked.timeout_s is not None):
        return _refuse_at_floor(view)
    leaves = state.status in scores.pauses and not into_pause
    until_at = _pause_end(state, asked, scores, now) if into_pause else None
    changed = StatusChanged(asked.status, chapter, paid.state.score, asked.reason, now if leaves else None, until_at)
    return _change_status(view, policy, paid, changed, now)


def _pause_end(state: ScoreState, asked: SetStatus, policy: ScoresPolicy, now: Instant) -> Instant | None:
    """Return when the pause ends by itself: as asked, else as already set for the same pause, else by policy."""
    if asked.timeout_s is None and asked.status == state.status and state.paused_until_at is not None:
        return state.paused_until_at
    timeout_s = policy.pause_timeouts_s.get(asked.status) if asked.timeout_s is None else asked.timeout_s
    return None if timeout_s is None else now + timeout_s * SECOND


def _change_status(
    view: View[ScoreState], policy: Policy, paid: SettledScore, changed: StatusChanged, now: Instant
) -> Decision:
    """Complete the event with the instants that depend on the policy."""
    scores, state = policy[ScoresPolicy], paid.state
    changed = replace(changed, applied_at=_counted_until(state, fold_score(state, changed), scores, now))
    changed = replace(changed, due_at=due_of(fold_score(state, changed), scores))
    events, reply = (*paid.events, changed), Reply(fold_score(state, changed), paid.decay)
    return Decision(events, effects=_hooks(view, policy, events, now), reply=reply)


def _counted_until(before: ScoreState, after: ScoreState, policy: ScoresPolicy, now: Instant) -> Instant | None:
    """Return from when a new stage's terms count: time before the change is not charged at them.

    That holds even while their grace lasts, because a later policy may shorten it.
    """
    if after.chapter == before.chapter or after.status in policy.pauses:
        return None
    return max(now, after.applied_at or 0)


def _end_pause(state: ScoreState, policy: ScoresPolicy) -> Decision:
    """End the pause at the instant it was to end at, however late the alarm rings.

    If the stage is gone from the policy the score is due at once, so that the next sweep reports it; a wake that failed
    would also block the command that moves it.
    """
    ends_at = state.paused_until_at
    changed = StatusChanged(policy.active_statuses[0], state.chapter, state.score, TIMEOUT, ends_at)
    due_at = due_of(fold_score(state, changed), policy) if state.chapter in policy.terms else ends_at
    return Decision((replace(changed, due_at=due_at),))


def _adjust_score(
    view: View[ScoreState], state: ScoreState, asked: AdjustScore, policy: Policy, now: Instant
) -> Decision | Refusal:
    scores = policy[ScoresPolicy]
    if (asked.delta is None) == (asked.score is None):
        return Refusal("NOT_ONE_AMOUNT", "give one of delta and score")
    if refusal := _refuse_unknown_stage(state, scores):
        return refusal
    paid = settle_score(state, scores, now)
    before = paid.state.score
    wanted = before + asked.delta if asked.delta is not None else asked.score or 0
    after = min(max(wanted, 0), SCORE_MAX)
    # Coming to 0 is game over; a score that was there before stays as it is.
    over = (GameOver("adjust", scores.game_over_status),) if after == 0 < before else ()
    due_at = due_of(paid.state, scores) if after else None
    adjusted = ScoreAdjusted(before, after, asked.reason, due_at)
    events = (*paid.events, adjusted, *crossings(before, after, scores), *over)
    state = fold_score(paid.state, adjusted)
    reply = Reply(fold_score(state, over[0]) if over else state, paid.decay)
    return Decision(events, effects=_hooks(view, policy, events, now), reply=reply)


# -- refusals


def _refuse_unknown_names(status: str, chapter: int | str, policy: ScoresPolicy) -> Refusal | None:
    if not policy.knows_status(status):
        return Refusal("UNKNOWN_STATUS", f"the policy knows no status {status!r}")
    if chapter not in policy.terms:
        return Refusal("UNKNOWN_STAGE", f"the policy knows no stage {chapter!r}")
    return None


def _refuse_unknown_stage(state: ScoreState, policy: ScoresPolicy) -> Refusal | None:
    """Refuse if the policy does not know the score's stage any more: then its debt cannot be computed."""
    if state.status in policy.pauses or state.chapter in policy.terms:
        return None
    return Refusal("UNKNOWN_STAGE", str(UnknownStage(state.chapter)))


def _refuse_future(at: Instant, now: Instant) -> Refusal:
    return Refusal(
        "IN_THE_FUTURE", f"the instant is {(at - now) / SECOND:g} s in the future; record only what has happened"
    )


def _refuse_at_floor(view: View[ScoreState]) -> Refusal:
    return Refusal("AT_FLOOR", f"the score of {view.stream.id!r} is 0; adjust it first")


# -- effects of a fall


def _hooks(view: View[ScoreState], policy: Policy, events: tuple[Event, ...], at: Instant) -> tuple[Effect, ...]:
    """Return the effects of thresholds and game over: the deepest has the segment's key, others add their name."""
    passed = [event for event in events if isinstance(event, ThresholdCrossed | GameOver)]
    if not passed:
        return ()
    user, tenant, key = view.stream.id, view.stream.tenant, f"score:{view.stream.id}:{view.version + 1}"
    left = [event.score for event in events if isinstance(event, Decayed | ScoreAdjusted)]
    detail = {"user_id": user, "score": number(left[-1]), "segment_id": key}
    effects: list[Effect] = []
    for event in passed:
        if isinstance(event, GameOver):
            more = {**detail, "reason": event.reason}
            effects += hook_effects(policy, tenant, "GAME_OVER", key=key, at=at, subject=user, detail=more)
        else:
            # Keys of one segment must differ, or the receiver of the second would take it for a repeat of the first.
            own = key if event is passed[-1] else f"{key}:{event.name}"
            more = {**detail, "threshold": event.name, "threshold_score": number(event.threshold)}
            effects += hook_effects(policy, tenant, "SCORE_THRESHOLD", key=own, at=at, subject=user, detail=more)
    return tuple(effects)


SCORE = Decider(
    kind=KIND,
    scope="scores:write",
    decide=decide_score,
    tables=(RULES,),
    reasons=REASONS,
    replies=Reply | Swept,
    claims=(SweepScore,),
    targets=(SetStatus, AdjustScore),
    heeds=(ScoresPolicy,),
    fold=fold_score,
    alarm=score_alarm,
    index=score_index,
)

DECIDERS = (SCORE,)
