"""The decider of sensors.

**Push.** A message is recorded once under its id. Without an evaluator it asks for its run in the same turn; with one
it is accepted first and evaluated by an effect, whose end comes back here.

**Poll.** When the alarm rings the evaluator is called outside the lock, with the cursor and the version of the state.
What it answers counts only if that version is still the current one: accepted evaluations, pauses, resumptions, changes
and resets of the cursor move it by one each. One evaluation is out at a time; one that is not back by its deadline is
an error, and whatever comes later is stale.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode, fingerprint
from betimes.core.deciders import Call, Decider, Decision, Index, Reconsider, Refusal, Settled, View, Wake
from betimes.core.errors import BetimesError
from betimes.core.instants import SECOND, Instant, epoch_down
from betimes.core.policies import Policy
from betimes.core.streams import EffectId, StreamId, parse_effect_handle
from betimes.domains.automation.checks import sensor_problems, sentence
from betimes.domains.automation.evaluations import RULES, Attempt, answered, pause_after, run_keys, settled
from betimes.domains.automation.model import RunRequested
from betimes.domains.automation.ownership import changes_owner, take_over
from betimes.domains.automation.policy import AutomationPolicy
from betimes.domains.automation.reasons import EVALUATION_REASONS
from betimes.domains.automation.requests import runs_of
from betimes.domains.automation.schedules import mismatch
from betimes.domains.automation.sensor_model import (
    CURSOR_CHARS_MAX,
    RUN_REQUESTS_MAX,
    SECRET_AUTHS,
    CursorReset,
    DefineSensor,
    DeleteSensor,
    DisableSensor,
    EnableSensor,
    Evaluated,
    Evaluation,
    EvaluationRef,
    EvaluationStarted,
    InFlight,
    Message,
    MessageReceived,
    PollMoved,
    ReceiveMessage,
    ResealSecrets,
    ResetCursor,
    RotateSecret,
    RunRequest,
    Secret,
    SecretRotated,
    SecretsResealed,
    SensorCommands,
    SensorDeclared,
    SensorDefined,
    SensorDefinition,
    SensorDeleted,
    SensorDisabled,
    SensorEnabled,
    SensorEvaluated,
    SensorEvents,
    SensorState,
    ShelveSensor,
    WebhookEvaluator,
    message_key,
    message_run_key,
)


def decide(
    view: View[SensorState], command: SensorCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state
    if isinstance(command, DefineSensor | ShelveSensor):
        return _define(view, command, now)
    if state is None:
        return Decision() if isinstance(command, Settled) else _missing(view.stream)
    match command:
        case Wake():
            return _wake(view, state, policy[AutomationPolicy], now)
        case Settled():
            return _came_back(view, state, command, policy[AutomationPolicy], now)
        case Reconsider():
            return _reconsider(state, policy[AutomationPolicy])
        case ReceiveMessage(message):
            return _receive(view, state, message, policy[AutomationPolicy], now)
        case Evaluated():
            return _by_hand(view, state, command, policy[AutomationPolicy], now)
        case RotateSecret(secret):
            until = now + policy[AutomationPolicy].secret_overlap_s * SECOND
            return Decision((SecretRotated(secret, now, until),))
        case ResealSecrets(secrets, was):
            return _reseal(state, secrets, was)
        case ResetCursor():
            return _reset_cursor(view.stream, state, command, now)
        case EnableSensor() | DisableSensor() | DeleteSensor():
            return mismatch(view.stream, command.if_version, state.version) or _switch(state, command, now)


def _reseal(state: SensorState, secrets: tuple[str, ...], was: str) -> Decision | Refusal:
    known = tuple(one.secret for one in state.secrets)
    if fingerprint(known) != was or len(secrets) != len(known):
        return Refusal("VERSION_MISMATCH", "the secrets were changed meanwhile; try again")
    return Decision((SecretsResealed(secrets),))


def _missing(stream: StreamId) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no sensor {stream.id!r}")


# -- definitions


def _define(view: View[SensorState], command: DefineSensor | ShelveSensor, now: Instant) -> Decision | Refusal:
    state, definition = view.state, command.definition
    refusal = mismatch(view.stream, command.if_version, state.version if state else 0)
    if refusal:
        return refusal
    if problems := sensor_problems(view.stream.id, definition):
        return Refusal("INVALID", sentence(problems))
    if state and state.definition.sensor_type != definition.sensor_type:
        return Refusal("INVALID", "sensor_type: cannot be changed; delete the sensor and make another")
    declared = (SensorDeclared(command.declared_by),) if changes_owner(state, command.declared_by) else ()
    if state and state.definition == definition and state.status != "error":
        return Decision(declared)
    version = (state.version if state else view.version) + 1
    state_version = state.state_version + 1 if state else 1
    next_at = now if definition.enabled and definition.sensor_type == "poll" else None
    made = state.made if state else view.version + 1
    authority = state.authority if state and _same_targets(state.definition, definition) else command.authority
    defined = SensorDefined(definition, version, now, state_version, made, next_at, command.secret, authority)
    return Decision((defined, *declared))


def _same_targets(one: SensorDefinition, other: SensorDefinition) -> bool:
    return (one.target, one.allowed_targets) == (other.target, other.allowed_targets)


def _switch(state: SensorState, command: EnableSensor | DisableSensor | DeleteSensor, now: Instant) -> Decision:
    match command:
        case EnableSensor():
            if state.status == "active":
                return Decision()
            version = state.version + (not state.definition.enabled)
            next_at = now if state.definition.sensor_type == "poll" else None
            return Decision((SensorEnabled(version, now, state.state_version + 1, next_at),))
        case DisableSensor():
            if not state.definition.enabled:
                return Decision()
            return Decision((SensorDisabled(state.version + 1, now, state.state_version + 1, command.reason),))
        case DeleteSensor():
            return Decision((SensorDeleted(now),))


# -- messages


def _receive(
    view: View[SensorState], state: SensorState, message: Message, policy: AutomationPolicy, now: Instant
) -> Decision | Refusal:
    if state.definition.sensor_type != "push":
        return Refusal("NOT_A_PUSH_SENSOR", f"the sensor {view.stream.id!r} polls; it takes no messages")
    if state.status != "active":
        return Refusal("SENSOR_PAUSED", f"the sensor {view.stream.id!r} is {state.status}; deliver it again later")
    sensor_id, definition = view.stream.id, state.definition
    if definition.evaluator is None:
        payload = {**definition.payload, "message": message}
        request = RunRequest(
            message_run_key(sensor_id, message.message_id), payload=msgspec.to_builtins(payload)
        )  # the key may be longer than a caller's own
        attempt = Attempt(
            evaluation_id=message_key(sensor_id, message.message_id), cause="message", message_id=message.message_id,
            evaluation=Evaluation((request,)),
        )  # fmt: skip
        return settled(view, state, attempt, policy, now)
    asked = {"sensor_id": sensor_id, "message": msgspec.to_builtins(message)}
    call = replace(_evaluation_call(view.stream, definition, asked), attempts_max=policy.evaluator_attempts_max)
    received = MessageReceived(message.message_id, now)
    return Decision((received,), effects=(call,), reply=EvaluationRef(view.version + 1))


def _evaluation_call(stream: StreamId, definition: SensorDefinition, asked: dict[str, Any]) -> Call:
    """To the evaluator by name, or to the one executor that reaches them over HTTP."""
    told = {"timeout_s": definition.timeout_seconds, "body": asked}
    if isinstance(definition.evaluator, WebhookEvaluator):
        return Call("evaluator", {**told, "url": definition.evaluator.url}, report_to=stream)
    name = definition.evaluator.name if definition.evaluator else ""
    return Call(f"evaluator:{name}", told, report_to=stream)


# -- polling


def _wake(view: View[SensorState], state: SensorState, policy: AutomationPolicy, now: Instant) -> Decision:
    out = state.in_flight
    if out is not None:
        error = f"no answer within {state.definition.timeout_seconds} s"
        late = Attempt(
            evaluation_id=out.evaluation_id, cause="poll", expected=state.state_version, error=error,
            duration_ms=(now - out.started_at) // 1_000,
        )  # fmt: skip
        return settled(view, state, late, policy, now)
    evaluation_id = f"sensor_eval:{view.stream.id}:poll:{epoch_down(now)}"
    asked = {"sensor_id": view.stream.id, "cursor": state.cursor, "state_version": state.state_version}
    timeout = state.definition.timeout_seconds
    call = replace(_evaluation_call(view.stream, state.definition, asked), at_most_once=True, lease_s=timeout + 5)
    effect = EffectId(*view.stream, view.version + 1, 0).handle
    started = EvaluationStarted(evaluation_id, state.state_version, effect, now, now + timeout * SECOND)
    return Decision((started,), effects=(call,))


def _reconsider(state: SensorState, policy: AutomationPolicy) -> Decision:
    """A pause after errors that is shorter now; otherwise a sensor polls by its own definition."""
    failed_at, next_at, errors = state.last_evaluated_at, state.next_at, state.consecutive_errors
    if not errors or failed_at is None or next_at is None:
        return Decision()
    sooner_at = failed_at + pause_after(errors, state.definition.interval_seconds * SECOND, policy)
    return Decision((PollMoved(sooner_at),)) if sooner_at < next_at else Decision()


def _came_back(
    view: View[SensorState], state: SensorState, command: Settled, policy: AutomationPolicy, now: Instant
) -> Decision:
    """An evaluator has answered, or failed for good."""
    asked_at = _asked_at(view.stream, command)
    if asked_at < state.made:
        return Decision()  # asked for by a sensor of this name that was deleted since
    evaluation, error = None, command.error or command.status
    if command.status == "done":
        evaluation, error = answered(command.result, state.definition)
    attempt = Attempt(evaluation_id=command.effect, cause="poll", evaluation=evaluation, error=error)
    if state.definition.sensor_type == "push":
        return settled(view, state, replace(attempt, cause="message", received=asked_at), policy, now)
    out = state.in_flight
    if out is None or out.effect != command.effect:
        return settled(view, state, replace(attempt, expected=0, is_open=False), policy, now)
    attempt = replace(
        attempt, evaluation_id=out.evaluation_id, expected=out.expected_state_version,
        duration_ms=(now - out.started_at) // 1_000,
    )  # fmt: skip
    return settled(view, state, attempt, policy, now)


def _asked_at(stream: StreamId, command: Settled) -> int:
    """The version of the segment that asked for what has ended."""
    try:
        return parse_effect_handle(stream.tenant, command.effect).version
    except BetimesError:
        return 0


def _by_hand(
    view: View[SensorState], state: SensorState, command: Evaluated, policy: AutomationPolicy, now: Instant
) -> Decision | Refusal:
    if state.definition.sensor_type != "poll":
        return Refusal("NOT_A_POLL_SENSOR", f"the sensor {view.stream.id!r} is told of messages; it does not poll")
    evaluation, error = None, command.error
    if command.evaluation is not None and not error:
        evaluation, error = answered(command.evaluation, state.definition)
    attempt = Attempt(
        evaluation_id=command.evaluation_id, cause="manual", expected=command.expected_state_version,
        evaluation=evaluation, error=error, duration_ms=command.duration_ms,
    )  # fmt: skip
    return settled(view, state, attempt, policy, now)


def _reset_cursor(stream: StreamId, state: SensorState, command: ResetCursor, now: Instant) -> Decision | Refusal:
    if state.definition.sensor_type != "poll":
        return Refusal("NOT_A_POLL_SENSOR", f"the sensor {stream.id!r} is told of messages; it has no cursor")
    if len(encode(command.cursor)) > CURSOR_CHARS_MAX:
        return Refusal("INVALID", f"the cursor is over {CURSOR_CHARS_MAX:,} characters")
    if command.if_state_version not in (None, state.state_version):
        told = f"the state of the sensor {stream.id!r} is at version {state.state_version}"
        return Refusal("VERSION_MISMATCH", f"{told}, not {command.if_state_version}; read it again")
    return Decision((CursorReset(command.cursor, state.state_version + 1, now),))


# -- the state


def fold(state: SensorState | None, event: SensorEvents) -> SensorState | None:
    if isinstance(event, SensorDefined):
        return _defined(state, event)
    if state is None:
        return None
    match event:
        case SensorEnabled(version, at, state_version, next_at):
            definition = replace(state.definition, enabled=True)
            return replace(take_over(state), definition=definition, version=version, updated_at=at, status="active",
                           state_version=state_version, next_at=next_at, in_flight=None, consecutive_errors=0,
                           last_error="")  # fmt: skip
        case SensorDisabled(version, at, state_version, reason):
            definition = replace(state.definition, enabled=False)
            return replace(state, definition=definition, version=version, updated_at=at, status="paused",
                           state_version=state_version, next_at=None, in_flight=None,
                           paused_reason=reason)  # fmt: skip
        case SensorDeclared(declared_by):
            return replace(state, declared_by=declared_by)
        case SensorDeleted():
            return None
        case SecretsResealed(secrets):
            sealed = zip(secrets, state.secrets, strict=True)
            return replace(state, secrets=tuple(Secret(secret, known.until_at) for secret, known in sealed))
        case SecretRotated(secret, _, old_until_at):
            old = tuple(Secret(known.secret, old_until_at) for known in state.secrets[:1])
            return replace(state, secrets=(Secret(secret), *old))
        case CursorReset(cursor, state_version):
            return replace(state, cursor=cursor, state_version=state_version)
        case EvaluationStarted(evaluation_id, expected, effect, at, deadline_at):
            return replace(state, in_flight=InFlight(evaluation_id, effect, expected, at, deadline_at), next_at=None)
        case SensorEvaluated():
            return _evaluated(state, event)
        case PollMoved(next_at):
            return replace(state, next_at=next_at)
        case MessageReceived() | RunRequested():
            return state


def _defined(state: SensorState | None, event: SensorDefined) -> SensorState:
    definition, at = event.definition, event.at
    secrets = (Secret(event.secret),) if event.secret else state.secrets if state else ()
    fresh = SensorState(
        definition, event.version, state.created_at if state else at, at, event.made,
        "active" if definition.enabled else "paused", event.state_version, next_at=event.next_at,
        secrets=secrets if definition.auth in SECRET_AUTHS else (), authority=event.authority,
    )  # fmt: skip
    if state is None:
        return fresh
    owner = take_over(state).declared_by
    return replace(fresh, cursor=state.cursor, last_evaluated_at=state.last_evaluated_at, declared_by=owner)


def _evaluated(state: SensorState, event: SensorEvaluated) -> SensorState:
    state = replace(state, last_evaluated_at=event.at, last_error=event.error or state.last_error)
    if event.expected_state_version is None:
        return state
    out = state.in_flight
    if out and out.evaluation_id == event.evaluation_id:
        state = replace(state, in_flight=None)
    accepted = event.status in ("triggered", "no_change")
    state = replace(
        state, cursor=event.cursor, state_version=event.state_version or state.state_version,
        consecutive_errors=event.errors, last_error="" if accepted else state.last_error,
    )  # fmt: skip
    if state.status != "active":
        return state
    if event.is_broken:
        return replace(state, status="error", next_at=None, in_flight=None)
    return state if state.in_flight or event.next_at is None else replace(state, next_at=event.next_at)


def alarm(state: SensorState) -> Instant | None:
    if state.status != "active":
        return None
    return state.in_flight.deadline_at if state.in_flight else state.next_at


def index(state: SensorState) -> Index:
    return Index(status=state.status, owner=state.definition.sensor_type)


def needs(stream: StreamId, command: SensorCommands | Wake | Settled, policy: Policy) -> tuple[StreamId, ...]:
    """The runs an evaluation names, so that each is answered at once: requested, duplicate or conflict."""
    match command:
        case ReceiveMessage(message):
            return runs_of(stream.tenant, (message_run_key(stream.id, message.message_id),))
        case Settled(status="done", result=result):
            return runs_of(stream.tenant, run_keys(result)[: RUN_REQUESTS_MAX + 1])
        case Evaluated(evaluation=Evaluation() as evaluation):
            return runs_of(stream.tenant, run_keys(evaluation)[: RUN_REQUESTS_MAX + 1])
        case _:
            return ()


SENSOR: Decider[SensorState] = Decider(
    kind="sensor",
    state=SensorState,
    scope="automation:write",
    targets=(EnableSensor, DisableSensor),
    commands=SensorCommands,
    events=SensorEvents,
    replies=EvaluationRef | None,
    decide=decide,
    fold=fold,
    alarm=alarm,
    index=index,
    needs=needs,
    stops=(ShelveSensor, DisableSensor, DeleteSensor),
    heeds=(AutomationPolicy,),
    heeding=("active",),
    tables=(RULES,),
    reasons=EVALUATION_REASONS,
)
