"""The decider of sensors.

**Push.** A message is recorded once under its id. Without an evaluator it asks for its run in the same turn; with one
it is accepted first and evaluated by an effect, whose end comes back here.

**Poll.** When the alarm rings the evaluator is called outside the lock, with the cursor and the version of the state.
Its answer counts only if that version is still the current one: accepted evaluations, pauses, resumptions, changes and
resets of the cursor move it by one each. One evaluation is out at a time; one that is not back by its deadline is an
error, and an answer that comes later is stale.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode, fingerprint
from betimes.core.deciders import Call, Decider, Decision, Reconsider, Refusal, Settled, View, Wake
from betimes.core.errors import BetimesError
from betimes.core.instants import SECOND, Instant, epoch_down
from betimes.core.policies import Policy
from betimes.core.streams import EffectId, StreamId, parse_effect_handle
from betimes.domain.definition_rules import (
    changes_owner,
    refuse_definition,
    refuse_invalid,
    refuse_missing,
    refuse_version,
)
from betimes.domain.run_requests import run_streams
from betimes.sensors.checks import sensor_problems
from betimes.sensors.evaluations import pause_after, read_answer, record_evaluation, run_keys
from betimes.sensors.fold import alarm, fold, index
from betimes.sensors.model import (
    CURSOR_CHARS_MAX,
    RUN_REQUESTS_MAX,
    CursorReset,
    DefineSensor,
    DeleteSensor,
    DisableSensor,
    EnableSensor,
    Evaluated,
    Evaluation,
    EvaluationRef,
    EvaluationStarted,
    Message,
    MessageReceived,
    PollMoved,
    ReceiveMessage,
    ResealSecrets,
    ResetCursor,
    RotateSecret,
    RunRequest,
    SecretRotated,
    SecretsResealed,
    SensorCommands,
    SensorDeclared,
    SensorDefined,
    SensorDefinition,
    SensorDeleted,
    SensorDisabled,
    SensorEnabled,
    SensorState,
    ShelveSensor,
    WebhookEvaluator,
    message_key,
    message_run_key,
)
from betimes.sensors.policy import AutomationPolicy
from betimes.sensors.reasons import EVALUATION_REASONS
from betimes.sensors.rules import RULES, EvaluationAttempt


def decide(
    view: View[SensorState], command: SensorCommands | Wake | Settled | Reconsider, policy: Policy, now: Instant
) -> Decision | Refusal:
    state = view.state
    if isinstance(command, DefineSensor | ShelveSensor):
        return _define(view, command, now)
    if state is None:
        return Decision() if isinstance(command, Settled) else refuse_missing(view.stream)
    match command:
        case Wake():
            return _wake(view, state, policy[AutomationPolicy], now)
        case Settled():
            return _take_answer(view, state, command, policy[AutomationPolicy], now)
        case Reconsider():
            return _reconsider(state, policy[AutomationPolicy])
        case ReceiveMessage(message):
            return _receive(view, state, message, policy[AutomationPolicy], now)
        case Evaluated():
            return _take_manual(view, state, command, policy[AutomationPolicy], now)
        case RotateSecret(secret):
            until = now + policy[AutomationPolicy].secret_overlap_s * SECOND
            return Decision((SecretRotated(secret, now, until),))
        case ResealSecrets(secrets, was):
            return _reseal(state, secrets, was)
        case ResetCursor():
            return _reset_cursor(view.stream, state, command, now)
        case EnableSensor() | DisableSensor() | DeleteSensor():
            refusal = refuse_version(view.stream, command.if_version, state.version)
            return refusal or _switch(state, command, now)


def _reseal(state: SensorState, secrets: tuple[str, ...], was: str) -> Decision | Refusal:
    known = tuple(one.secret for one in state.secrets)
    if fingerprint(known) != was or len(secrets) != len(known):
        return Refusal("VERSION_MISMATCH", "the secrets have changed in the meantime; try again")
    return Decision((SecretsResealed(secrets),))


# -- definitions


def _define(view: View[SensorState], command: DefineSensor | ShelveSensor, now: Instant) -> Decision | Refusal:
    state, definition = view.state, command.definition
    refusal = refuse_definition(view.stream, command.if_version, state.version if state else 0)
    if refusal := refusal or refuse_invalid(sensor_problems(view.stream.id, definition)):
        return refusal
    if state and state.definition.sensor_type != definition.sensor_type:
        return Refusal("INVALID", "sensor_type: cannot be changed; delete the sensor and make another")
    declared = (SensorDeclared(command.declared_by),) if changes_owner(state, command.declared_by) else ()
    # The same again changes nothing, except that a sensor that gave up begins anew.
    if state and state.definition == definition and state.status != "error":
        return Decision(declared)
    version = (state.version if state else view.version) + 1
    state_version = state.state_version + 1 if state else 1
    next_at = now if definition.enabled and definition.sensor_type == "poll" else None
    made = state.made if state else view.version + 1
    # Whoever changes anything else neither lends the targets their own scopes nor needs those of who chose them.
    authority = (
        state.authority
        if state and _chosen_targets(state.definition) == _chosen_targets(definition)
        else command.authority
    )
    defined = SensorDefined(definition, version, now, state_version, made, next_at, command.secret, authority)
    return Decision((defined, *declared))


def _chosen_targets(definition: SensorDefinition) -> tuple[Any, ...]:
    """Return the targets a sensor may cause, and who chooses among them: it acts for whoever set these."""
    return definition.target, definition.allowed_targets, definition.evaluator, definition.payload


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
        return Refusal("NOT_A_PUSH_SENSOR", f"the sensor {view.stream.id!r} is a poll sensor; it takes no messages")
    if state.status != "active":
        return Refusal("SENSOR_PAUSED", f"the sensor {view.stream.id!r} is {state.status}; deliver it again later")
    sensor_id, definition = view.stream.id, state.definition
    if definition.evaluator is None:
        payload = {**definition.payload, "message": message}
        # The key may be longer than one that an evaluator chooses: nothing checks its length here.
        request = RunRequest(message_run_key(sensor_id, message.message_id), payload=msgspec.to_builtins(payload))
        attempt = EvaluationAttempt(
            evaluation_id=message_key(sensor_id, message.message_id),
            cause="message",
            message_id=message.message_id,
            evaluation=Evaluation((request,)),
        )
        return record_evaluation(view, state, attempt, policy, now)
    asked = {"sensor_id": sensor_id, "message": msgspec.to_builtins(message)}
    call = replace(_evaluation_call(view.stream, definition, asked), attempts_max=policy.evaluator_attempts_max)
    received = MessageReceived(message.message_id, now)
    return Decision((received,), effects=(call,), reply=EvaluationRef(view.version + 1))


def _evaluation_call(stream: StreamId, definition: SensorDefinition, asked: dict[str, Any]) -> Call:
    """Return the call to the evaluator of this name, or to the one executor that reaches evaluators over HTTP."""
    payload = {"timeout_s": definition.timeout_seconds, "body": asked}
    if isinstance(definition.evaluator, WebhookEvaluator):
        return Call("evaluator", {**payload, "url": definition.evaluator.url}, report_to=stream)
    name = definition.evaluator.name if definition.evaluator else ""
    return Call(f"evaluator:{name}", payload, report_to=stream)


# -- polling


def _wake(view: View[SensorState], state: SensorState, policy: AutomationPolicy, now: Instant) -> Decision:
    out = state.in_flight
    if out is not None:
        error = f"no answer within {state.definition.timeout_seconds} s"
        late = EvaluationAttempt(
            evaluation_id=out.evaluation_id,
            cause="poll",
            expected=state.state_version,
            error=error,
            duration_ms=(now - out.started_at) // 1_000,
        )
        return record_evaluation(view, state, late, policy, now)
    evaluation_id = f"sensor_eval:{view.stream.id}:poll:{epoch_down(now)}"
    asked = {"sensor_id": view.stream.id, "cursor": state.cursor, "state_version": state.state_version}
    timeout = state.definition.timeout_seconds
    call = replace(_evaluation_call(view.stream, state.definition, asked), at_most_once=True, lease_s=timeout + 5)
    # The first effect of this very segment, by which its answer is known again.
    effect = EffectId(*view.stream, view.version + 1, 0).handle
    started = EvaluationStarted(evaluation_id, state.state_version, effect, now, now + timeout * SECOND)
    return Decision((started,), effects=(call,))


def _reconsider(state: SensorState, policy: AutomationPolicy) -> Decision:
    """Poll sooner if the backoff after errors is shorter now; nothing else of a sensor depends on the policy."""
    failed_at, next_at, errors = state.last_evaluated_at, state.next_at, state.consecutive_errors
    if not errors or failed_at is None or next_at is None:
        return Decision()
    sooner_at = failed_at + pause_after(errors, state.definition.interval_seconds * SECOND, policy)
    return Decision((PollMoved(sooner_at),)) if sooner_at < next_at else Decision()


def _take_answer(
    view: View[SensorState], state: SensorState, command: Settled, policy: AutomationPolicy, now: Instant
) -> Decision:
    """Record the answer of an evaluator, or that it failed for good."""
    asking_version = _asking_version(view.stream, command)
    if asking_version < state.made:
        return Decision()  # asked for by a sensor of this name that was deleted since
    evaluation, error = None, command.error or command.status
    if command.status == "done":
        evaluation, error = read_answer(command.result, state.definition)
    attempt = EvaluationAttempt(evaluation_id=command.effect, cause="poll", evaluation=evaluation, error=error)
    if state.definition.sensor_type == "push":
        return record_evaluation(view, state, replace(attempt, cause="message", received=asking_version), policy, now)
    out = state.in_flight
    # Another one than is out: its deadline has passed or the sensor was changed, so it counts as stale.
    if out is None or out.effect != command.effect:
        return record_evaluation(view, state, replace(attempt, expected=0, is_open=False), policy, now)
    attempt = replace(
        attempt,
        evaluation_id=out.evaluation_id,
        expected=out.expected_state_version,
        duration_ms=(now - out.started_at) // 1_000,
    )
    return record_evaluation(view, state, attempt, policy, now)


def _asking_version(stream: StreamId, command: Settled) -> int:
    """Return the version of the segment that asked for the call that has ended; 0 if its handle cannot be read."""
    try:
        return parse_effect_handle(stream.tenant, command.effect).version
    except BetimesError:
        return 0


def _take_manual(
    view: View[SensorState], state: SensorState, command: Evaluated, policy: AutomationPolicy, now: Instant
) -> Decision | Refusal:
    if state.definition.sensor_type != "poll":
        return Refusal("NOT_A_POLL_SENSOR", f"the sensor {view.stream.id!r} is a push sensor; it does not poll")
    evaluation, error = None, command.error
    if command.evaluation is not None and not error:
        evaluation, error = read_answer(command.evaluation, state.definition)
    attempt = EvaluationAttempt(
        evaluation_id=command.evaluation_id,
        cause="manual",
        expected=command.expected_state_version,
        evaluation=evaluation,
        error=error,
        duration_ms=command.duration_ms,
    )
    return record_evaluation(view, state, attempt, policy, now)


def _reset_cursor(stream: StreamId, state: SensorState, command: ResetCursor, now: Instant) -> Decision | Refusal:
    if state.definition.sensor_type != "poll":
        return Refusal("NOT_A_POLL_SENSOR", f"the sensor {stream.id!r} is a push sensor; it has no cursor")
    if len(encode(command.cursor)) > CURSOR_CHARS_MAX:
        return Refusal("INVALID", f"the cursor is over {CURSOR_CHARS_MAX:,} characters")
    if command.if_state_version not in (None, state.state_version):
        problem = f"the state of the sensor {stream.id!r} is at version {state.state_version}"
        return Refusal("VERSION_MISMATCH", f"{problem}, not {command.if_state_version}; read it again")
    return Decision((CursorReset(command.cursor, state.state_version + 1, now),))


# -- the decider


def needs(stream: StreamId, command: SensorCommands | Wake | Settled, policy: Policy) -> tuple[StreamId, ...]:
    """Return the runs an evaluation names, so that each is answered at once: requested, duplicate or conflict."""
    match command:
        case ReceiveMessage(message):
            return run_streams(stream.tenant, (message_run_key(stream.id, message.message_id),))
        case Settled(status="done", result=result):
            # One more than may be asked for is enough to refuse them all.
            return run_streams(stream.tenant, run_keys(result)[: RUN_REQUESTS_MAX + 1])
        case Evaluated(evaluation=Evaluation() as evaluation):
            return run_streams(stream.tenant, run_keys(evaluation)[: RUN_REQUESTS_MAX + 1])
        case _:
            return ()


SENSOR = Decider(
    kind="sensor",
    scope="automation:write",
    decide=decide,
    needs=needs,
    tables=(RULES,),
    reasons=EVALUATION_REASONS,
    replies=EvaluationRef | None,
    stops=(ShelveSensor, DisableSensor, DeleteSensor),
    targets=(EnableSensor, DisableSensor),
    heeds=(AutomationPolicy,),
    heeding=("active",),
    fold=fold,
    alarm=alarm,
    index=index,
)
