"""The fold of sensors: their state from their events, their alarm, and their index."""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Index
from betimes.core.instants import Instant
from betimes.domain.definition_rules import take_over
from betimes.domain.run_requests import RunRequested
from betimes.sensors.model import (
    SECRET_AUTHS,
    CursorReset,
    EvaluationStarted,
    InFlight,
    MessageReceived,
    PollMoved,
    Secret,
    SecretRotated,
    SecretsResealed,
    SensorDeclared,
    SensorDefined,
    SensorDeleted,
    SensorDisabled,
    SensorEnabled,
    SensorEvaluated,
    SensorEvents,
    SensorState,
)


def fold(state: SensorState | None, event: SensorEvents) -> SensorState | None:
    if isinstance(event, SensorDefined):
        return _define(state, event)
    if state is None:
        return None
    match event:
        case SensorEnabled() | SensorDisabled():
            return _switch(state, event)
        case SensorDeclared(declared_by):
            return replace(state, declared_by=declared_by)
        case SensorDeleted():
            return None
        case SecretsResealed(secrets):
            sealed = zip(secrets, state.secrets, strict=True)
            return replace(state, secrets=tuple(Secret(secret, known.until_at) for secret, known in sealed))
        case SecretRotated(secret, _, old_until_at):
            # Two live at most: the one before the last ends now.
            old = tuple(Secret(known.secret, old_until_at) for known in state.secrets[:1])
            return replace(state, secrets=(Secret(secret), *old))
        case CursorReset(cursor, state_version):
            return replace(state, cursor=cursor, state_version=state_version)
        case EvaluationStarted(evaluation_id, expected, effect, at, deadline_at):
            return replace(state, in_flight=InFlight(evaluation_id, effect, expected, at, deadline_at), next_at=None)
        case SensorEvaluated():
            return _record_evaluation(state, event)
        case PollMoved(next_at):
            return replace(state, next_at=next_at)
        case MessageReceived() | RunRequested():
            return state


def _switch(state: SensorState, event: SensorEnabled | SensorDisabled) -> SensorState:
    definition = replace(state.definition, enabled=isinstance(event, SensorEnabled))
    versions = {"version": event.version, "state_version": event.state_version, "updated_at": event.at}
    if isinstance(event, SensorDisabled):
        paused = replace(state, status="paused", paused_reason=event.reason, next_at=None)
        return replace(paused, definition=definition, in_flight=None, **versions)
    active = replace(take_over(state), status="active", next_at=event.next_at, consecutive_errors=0, last_error="")
    return replace(active, definition=definition, in_flight=None, **versions)


def _define(state: SensorState | None, event: SensorDefined) -> SensorState:
    definition, at = event.definition, event.at
    secrets = (Secret(event.secret),) if event.secret else state.secrets if state else ()
    fresh = SensorState(
        definition,
        event.version,
        state.created_at if state else at,
        at,
        event.made,
        "active" if definition.enabled else "paused",
        event.state_version,
        next_at=event.next_at,
        secrets=secrets if definition.auth in SECRET_AUTHS else (),
        authority=event.authority,
    )
    if state is None:
        return fresh
    owner = take_over(state).declared_by
    # Where the sensor has come to outlives its definition: a change must not read everything once more.
    return replace(fresh, cursor=state.cursor, last_evaluated_at=state.last_evaluated_at, declared_by=owner)


def _record_evaluation(state: SensorState, event: SensorEvaluated) -> SensorState:
    state = replace(state, last_evaluated_at=event.at, last_error=event.error or state.last_error)
    if event.expected_state_version is None:
        return state  # the evaluation of a message: no cursor and no poll depend on it
    out = state.in_flight
    # A late answer of an earlier evaluation leaves the one that is out alone.
    if out and out.evaluation_id == event.evaluation_id:
        state = replace(state, in_flight=None)
    accepted = event.status in ("triggered", "no_change")
    state = replace(
        state,
        cursor=event.cursor,
        state_version=event.state_version or state.state_version,
        consecutive_errors=event.errors,
        last_error="" if accepted else state.last_error,
    )
    if state.status != "active":
        return state
    if event.is_broken:
        return replace(state, status="error", next_at=None, in_flight=None)
    # While another evaluation is out, the end of that one sets the next poll.
    return state if state.in_flight or event.next_at is None else replace(state, next_at=event.next_at)


def alarm(state: SensorState) -> Instant | None:
    if state.status != "active":
        return None
    return state.in_flight.deadline_at if state.in_flight else state.next_at


def index(state: SensorState) -> Index:
    return Index(status=state.status, owner=state.definition.sensor_type)
