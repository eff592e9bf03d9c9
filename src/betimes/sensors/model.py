"""The stream `sensor`: commands, events, state.

A push sensor takes messages; a poll sensor asks its evaluator. Either way an evaluation and the runs it asks for
are one segment. Secrets are in fields called `secret` or `secrets` and in nothing else, so that whoever shows commands,
events or states to people can leave them out (`betimes.core.secret_fields`).
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from betimes.core.instants import Instant
from betimes.core.names import HandlerName, Id, Url
from betimes.core.stored_message import StoredMessage
from betimes.domain.definition_rules import (
    ChangeIfVersion,
    DefinitionDeleted,
    OwnerDeclared,
    PausedReason,
    PauseIfVersion,
)
from betimes.domain.run_requests import RunRequested, Selection
from betimes.domain.struct_forms import LEFT_OUT, stored
from betimes.domain.targets import Target

Absent = TypeVar("Absent")

RUN_REQUESTS_MAX = 1_000
ALLOWED_TARGETS_MAX = 16
MESSAGE_ID_CHARS_MAX = 256
MessageId: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_ID_CHARS_MAX)]
MESSAGE_CHARS_MAX = 128 * 1024
"""Encoded size of a message; it goes into the run it asks for."""
CURSOR_CHARS_MAX = 64 * 1024
EVALUATIONS = "sensor_evaluations"
"""The collection in which messages are keys; a repeat of a message id is the same message."""

EvaluationStatus: TypeAlias = Literal["triggered", "no_change", "error", "skipped_stale_cursor"]
EvaluationCause: TypeAlias = Literal["message", "poll", "manual"]
Auth: TypeAlias = Literal["key", "signature", "token", "oidc"]
SECRET_AUTHS = ("signature", "token")
"""Those for which the sensor has a secret."""


def message_key(sensor_id: str, message_id: str) -> str:
    return f"sensor_eval:{sensor_id}:msg:{message_id}"


def message_run_key(sensor_id: str, message_id: str) -> str:
    return f"sensor:{sensor_id}:msg:{message_id}"


# -- definitions


class HandlerEvaluator(
    msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="handler", forbid_unknown_fields=True
):
    """A Python callable, by the name it was registered under."""

    name: HandlerName


class WebhookEvaluator(
    msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="webhook", forbid_unknown_fields=True
):
    url: Url


Evaluator: TypeAlias = HandlerEvaluator | WebhookEvaluator


class OidcProof(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The identity tokens (OpenID Connect) to accept."""

    audience: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    """The required audience of the token."""
    issuer: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] = "https://accounts.google.com"
    """The issuer of the token; the configuration lists the trusted ones."""
    email: Annotated[str, msgspec.Meta(min_length=3, max_length=320)] | None = None
    """The sender's account, such as a service account; by default any for which the issuer signs tokens for the
    audience."""


class SensorFields(msgspec.Struct, Generic[Absent], frozen=True, kw_only=True):
    """The fields of a sensor that its author decides, each once; a new one is one line at the end.

    A new field is absent where it is not set (`| Absent = LEFT_OUT`), so that older states are replayed to the byte.
    """

    sensor_type: Literal["push", "poll"]
    target: Target
    payload: dict[str, Any] = {}
    asset_selection: Selection = ()
    partition_selection: Selection | None = None
    enabled: bool = True
    auth: Auth = "key"
    evaluator: Evaluator | None = None
    interval_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 30
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=300)] = 10
    max_run_requests: Annotated[int, msgspec.Meta(ge=1, le=RUN_REQUESTS_MAX)] = RUN_REQUESTS_MAX
    max_errors: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    allowed_targets: Annotated[tuple[Target, ...], msgspec.Meta(max_length=ALLOWED_TARGETS_MAX)] = ()
    """Targets that an evaluator may choose besides `target`; an omitted account or user allows any."""
    oidc: OidcProof | Absent = LEFT_OUT
    """The identity tokens to accept, with `auth: oidc`."""


@stored(allowed_targets="max_errors")
class SensorDefinition(SensorFields[UnsetType], frozen=True, gc=False, kw_only=True):
    """A sensor as it is kept, apart from its id and its progress."""

    # Callers always see a tuple; it is left out where it is stored, as every field that came later.
    allowed_targets: tuple[Target, ...] | UnsetType = UNSET  # type: ignore[assignment]


class RunRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run that an evaluator asks for; what it leaves out is the sensor's."""

    run_key: Id
    asset_selection: Selection | None = None
    partition_selection: Selection | None = None
    payload: dict[str, Any] | None = None
    target: Target | None = None


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The answer of an evaluator. A cursor that is left out stays as it is."""

    run_requests: tuple[RunRequest, ...] = ()
    cursor: Any = msgspec.UNSET
    status: str | None = None
    """A word of the evaluator's own, for people."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    message_id: str
    data: Any = None
    attributes: dict[str, Any] = {}
    data_base64: str | None = None
    """The bytes, where they are neither JSON nor text in UTF-8; `data` is `None` then."""
    publish_time: str | None = None
    """This and the following as Pub/Sub gives them."""
    ordering_key: str | None = None
    subscription: str | None = None


# -- commands


class _SensorCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    definition: SensorDefinition
    if_version: int | None = None
    secret: str = ""
    """For a sensor that needs one and has none yet: to verify signatures with, or the digest of its token."""
    declared_by: str = ""
    """The application whose code says so; empty: keep whose it is."""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defines it; `None` is everything, for callers within the process."""


class DefineSensor(_SensorCommand, frozen=True, tag=True): ...


class ShelveSensor(_SensorCommand, frozen=True, tag=True):
    """The same with a definition that is not enabled."""


class EnableSensor(ChangeIfVersion, frozen=True, tag=True): ...


class DisableSensor(PauseIfVersion, frozen=True, tag=True): ...


class DeleteSensor(ChangeIfVersion, frozen=True, tag=True): ...


class RotateSecret(StoredMessage):
    secret: str


class ResealSecrets(StoredMessage):
    """Store the same secrets in another form; signatures stay the same."""

    secrets: tuple[str, ...]
    was: str
    """The fingerprint of the form they had, which must still be theirs."""


class ResetCursor(StoredMessage, omit_defaults=False):
    cursor: Any = None
    if_state_version: int | None = None


class ReceiveMessage(StoredMessage):
    message: Message


class Evaluated(StoredMessage):
    """An evaluation by hand, against the state version it started from."""

    evaluation_id: str
    expected_state_version: int
    evaluation: Evaluation | None = None
    error: str = ""
    duration_ms: int = 0


# -- events


class SensorDefined(StoredMessage):
    definition: SensorDefinition
    version: int
    at: Instant
    state_version: int
    made: int
    """The version of the stream at which a sensor of this name was made last."""
    next_at: Instant | None = None
    secret: str = ""
    authority: tuple[str, ...] | None = None


class SensorEnabled(StoredMessage):
    version: int
    at: Instant
    state_version: int
    next_at: Instant | None = None


class SensorDisabled(StoredMessage):
    version: int
    at: Instant
    state_version: int
    reason: PausedReason = ""


class SensorDeclared(OwnerDeclared, frozen=True, tag=True): ...


class SensorDeleted(DefinitionDeleted, frozen=True, tag=True): ...


class SecretsResealed(StoredMessage):
    secrets: tuple[str, ...]


class SecretRotated(StoredMessage):
    secret: str
    at: Instant
    old_until_at: Instant


class CursorReset(StoredMessage):
    cursor: Any
    state_version: int
    at: Instant


class MessageReceived(StoredMessage):
    """Accepted, and to be evaluated by an effect; the message is in the command of this segment."""

    message_id: str
    at: Instant


class EvaluationStarted(StoredMessage):
    evaluation_id: str
    expected_state_version: int
    effect: str
    at: Instant
    deadline_at: Instant


class RunDefaults(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of the sensor's definition, for runs that leave them out."""

    target: Target
    payload: dict[str, Any] = {}
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] | None = None


class SensorEvaluated(StoredMessage):
    """One evaluation; the runs it requests follow in this segment. A stale one requests nothing."""

    evaluation_id: str
    cause: EvaluationCause
    status: EvaluationStatus
    at: Instant
    definition_version: int
    message_id: str = ""
    received: int = 0
    """The version of the segment that accepted the message, if that was an earlier one."""
    duration_ms: int = 0
    expected_state_version: int | None = None
    state_version: int | None = None
    cursor_before: Any = None
    cursor: Any = None
    error: str = ""
    note: str = ""
    """The evaluator's own word."""
    next_at: Instant | None = None
    errors: int = 0
    is_broken: bool = False
    """The last of too many errors in a row."""
    defaults: RunDefaults | None = None


class PollMoved(StoredMessage):
    """The policy has a shorter pause after errors now, and the next poll comes sooner."""

    next_at: Instant


class Secret(msgspec.Struct, frozen=True, gc=False, array_like=True):
    secret: str
    until_at: Instant | None = None


class InFlight(msgspec.Struct, frozen=True, gc=False):
    evaluation_id: str
    effect: str
    expected_state_version: int
    started_at: Instant
    deadline_at: Instant


class SensorState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    definition: SensorDefinition
    version: int
    created_at: Instant
    updated_at: Instant
    made: int
    status: Literal["active", "paused", "error"] = "active"
    state_version: int = 1
    cursor: Any = None
    next_at: Instant | None = None
    in_flight: InFlight | None = None
    last_evaluated_at: Instant | None = None
    consecutive_errors: int = 0
    last_error: str = ""
    secrets: tuple[Secret, ...] = ()
    declared_by: str = ""
    paused_reason: PausedReason = ""
    authority: tuple[str, ...] | None = None
    """The scopes of the key that defined its targets."""


class EvaluationRef(msgspec.Struct, frozen=True):
    """The reply to a message or an evaluation: the version of the segment that holds it."""

    segment: int


SensorCommands: TypeAlias = (
    DefineSensor
    | ShelveSensor
    | EnableSensor
    | DisableSensor
    | DeleteSensor
    | RotateSecret
    | ResetCursor
    | ResealSecrets
    | ReceiveMessage
    | Evaluated
)
SensorEvents: TypeAlias = (
    SensorDefined
    | SensorEnabled
    | SensorDisabled
    | SensorDeleted
    | SecretRotated
    | SecretsResealed
    | CursorReset
    | MessageReceived
    | EvaluationStarted
    | SensorEvaluated
    | RunRequested
    | PollMoved
    | SensorDeclared
)
