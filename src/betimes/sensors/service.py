"""Sensors as people work with them: definitions, messages, evaluations by hand, secrets.

An evaluation by hand calls the evaluator in this process and records its answer against the state it began with. A
message without an API key is checked against the sensor's own secret; an unknown sensor is answered like a bad one.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlencode
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import fingerprint
from betimes.core.datetimes import Moment, instant
from betimes.core.errors import BetimesError, Invalid, NotFound, Refused
from betimes.core.names import Id
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import EffectId, StreamId
from betimes.domain.definitions import Definitions, raise_problems, targets_of
from betimes.domain.deployment import Deployment
from betimes.domain.outside_calls import handler_problems
from betimes.domain.paging import Page, check_filters
from betimes.domain.segment_lists import list_rows
from betimes.domain.service import Caller, read_off_loop
from betimes.engine.engine import Engine
from betimes.engine.store import EffectQuery, LedgerQuery, StreamQuery
from betimes.sensors.checks import SENSOR_RULES, sensor_problems
from betimes.sensors.evaluations import read_answer
from betimes.sensors.messages import parse_batch, parse_message
from betimes.sensors.model import (
    EVALUATIONS,
    SECRET_AUTHS,
    Auth,
    DefineSensor,
    DeleteSensor,
    DisableSensor,
    EnableSensor,
    Evaluated,
    Evaluation,
    Evaluator,
    Message,
    MessageId,
    ReceiveMessage,
    ResetCursor,
    RotateSecret,
    SensorDefinition,
    SensorState,
    ShelveSensor,
    message_key,
)
from betimes.sensors.proof import Proof, fresh_secret, is_proven, stored_secret
from betimes.sensors.views import (
    SENSOR_READ_ONLY,
    EvaluationView,
    EvaluationViewStatus,
    SecretView,
    SensorRequest,
    SensorStatus,
    SensorType,
    SensorView,
    SensorWritten,
    dry_run_view,
    evaluation_in,
    evaluation_rows,
)

Evaluate: TypeAlias = Callable[[str, Evaluator, Mapping[str, Any], int], Awaitable[Any]]
"""Calls an evaluator for a tenant with a body, within so many seconds."""
OUTCOME_PAGES = 5
UNPROVEN = "the message is not authenticated: no such sensor, or its proof is wrong"


class Sensors(Definitions[SensorRequest, SensorView, SensorWritten]):
    """The sensors of a tenant."""

    kind = "sensor"
    read_only = SENSOR_READ_ONLY
    request_type = SensorRequest
    id_prefix = "sen"
    view_type, written_type = SensorView, SensorWritten
    disable_command = DisableSensor
    rules = SENSOR_RULES

    def __init__(
        self, engine: Engine, caller: Caller, *, evaluate: Evaluate | None = None, deployment: Deployment | None = None
    ) -> None:
        super().__init__(engine, caller, deployment=deployment)
        self._evaluate = evaluate

    # -- definitions

    @check_filters
    async def list(
        self,
        *,
        status: SensorStatus | None = None,
        sensor_type: SensorType | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SensorView]:
        """List sensors, the last created first."""
        among = () if status is None or sensor_type is not None else (status,)
        query = StreamQuery(tenant=self.caller.tenant, kind="sensor", owner=sensor_type, among=among)
        filters = ["sensors", self.caller.tenant, status, sensor_type]
        return await self._list(query, filters, limit, cursor, self._view, lambda row: status in (None, row.status))

    async def delete(self, sensor_id: str, *, if_match: int | None = None) -> None:
        await self.change(self.stream("sensor", sensor_id), DeleteSensor(if_match))

    async def enable(self, sensor_id: str, *, if_match: int | None = None, key: str | None = None) -> SensorWritten:
        return await self._change_definition(self.stream("sensor", sensor_id), EnableSensor(if_match), key)

    async def disable(self, sensor_id: str, *, if_match: int | None = None, key: str | None = None) -> SensorWritten:
        return await self._change_definition(self.stream("sensor", sensor_id), DisableSensor(if_match), key)

    async def reset_cursor(
        self, sensor_id: str, cursor: Any = None, *, state_version: int, key: str | None = None
    ) -> SensorWritten:
        """Move the cursor of a poll sensor, if its state is still at that version."""
        command = ResetCursor(cursor, state_version)
        return await self._change_definition(self.stream("sensor", sensor_id), command, key)

    async def rotate_secret(self, sensor_id: str, *, key: str | None = None) -> SecretView:
        """Make a new secret; a replay has none.

        Shown once, with its `push_url`; the old one stays valid for `secret_overlap_s`, by default 24 h.
        """
        stream = self.stream("sensor", sensor_id)
        state: SensorState = await self.require_state(stream)
        if state.definition.auth not in SECRET_AUTHS:
            raise Refused("NO_SECRET", f"the sensor {sensor_id!r} has auth: {state.definition.auth}; it has no secret")
        secret = fresh_secret(state.definition.auth)
        command = RotateSecret(stored_secret(state.definition.auth, secret, stream, self.deployment.box))
        recorded = await self.change(stream, command, key=key, request=fingerprint((stream, "secret")))
        if recorded.replayed:
            return SecretView(None, None, recorded.segment_id)
        return SecretView(secret, self._push_url(sensor_id, state.definition, secret), recorded.segment_id)

    async def _define(
        self, id: str, asked: SensorRequest, if_version: int | None, key: str | None, request: str
    ) -> SensorWritten:
        definition, stream = asked.definition(), self.stream("sensor", id)
        before: SensorState | None = await self.state(stream)
        is_other = before is not None and before.definition.sensor_type != definition.sensor_type
        fixed = (("sensor_type", "cannot be changed; delete the sensor and make another"),) if is_other else ()
        found = [*sensor_problems(id, definition), *(fixed if if_version != 0 else ())]
        if definition.oidc and not self.deployment.tokens.trusts(definition.oidc.issuer):
            found.append(("oidc.issuer", "is not trusted; [oidc] of the configuration lists issuers and their keys"))
        await self.demand_scopes(stream, definition)
        await self.demand_sound(stream, definition, tuple(found))
        for target in targets_of(definition):
            self.demand_readable(target)
        secret = None
        if definition.auth in SECRET_AUTHS and (before is None or before.definition.auth != definition.auth):
            secret = fresh_secret(definition.auth)
        kind = DefineSensor if definition.enabled else ShelveSensor
        kept = stored_secret(definition.auth, secret, stream, self.deployment.box) if secret else ""
        # A secret is made anew each time, so a repeat of the key must agree in everything but the secret.
        agreed = request or self.caller.request or fingerprint((stream, definition))
        command = kind(definition, if_version, kept, self.caller.application, self.caller.scopes)
        recorded = await self.change(stream, command, key=key, request=agreed)
        view = await self._view_after(recorded)
        if secret is None or recorded.replayed:
            return view
        return replace(view, secret=secret, push_url=self._push_url(id, definition, secret))

    def _push_url(self, sensor_id: str, definition: SensorDefinition, secret: str) -> str:
        """Return the path to push to, below the address of the service."""
        query = {"tenant": self.caller.tenant} | ({"token": secret} if definition.auth == "token" else {})
        return f"/v1/sensors/{sensor_id}/messages?{urlencode(query)}"

    # -- messages

    async def receive(
        self, sensor_id: str, headers: Mapping[str, str], body: bytes, *, key: str | None = None
    ) -> EvaluationView:
        """Accept a message with a valid API key; the idempotency key is the id of a message that has none."""
        message = await read_off_loop(body, partial(parse_message, headers, body, key))
        if key not in (None, message.message_id):
            problem = "differs from the message's own id"
            raise Invalid(f"the header Idempotency-Key {problem}", (("header.idempotency-key", problem),))
        return await self.message(sensor_id, message)

    async def receive_batch(
        self, sensor_id: str, body: bytes, *, key: str | None = None
    ) -> builtins.list[EvaluationView | BetimesError]:
        """Take a batch of CloudEvents in its order; each has its evaluation, or the error it would have had alone."""
        if key is not None:
            problem = "each event of a batch has its own id"
            raise Invalid(problem, (("header.idempotency-key", problem),))
        messages = await read_off_loop(body, partial(parse_batch, body))
        return await asyncio.gather(*(self._receive_one(sensor_id, one) for one in messages))

    async def _receive_one(self, sensor_id: str, message: Message | BetimesError) -> EvaluationView | BetimesError:
        if isinstance(message, BetimesError):
            return message
        try:
            return await self.message(sensor_id, message)
        except BetimesError as error:
            return error

    async def receive_from_outside(
        self, sensor_id: str, headers: Mapping[str, str], body: bytes, *, token: str | None = None
    ) -> EvaluationView:
        """Take a message that brings the sensor's own proof: a signature in its headers, or a token."""
        auth = await self.demand_proof(sensor_id, headers, body, token=token)
        low = {name.lower(): value for name, value in headers.items()}
        fallback = low.get("webhook-id") if auth == "signature" else None
        message = await read_off_loop(body, partial(parse_message, headers, body, fallback))
        return await self.message(sensor_id, message)

    async def demand_proof(
        self, sensor_id: str, headers: Mapping[str, str], body: bytes, *, token: str | None = None
    ) -> Auth:
        """Return how a request proved that it comes from the sensor's sender; raise `Refused` if it did not."""
        stream = self.stream("sensor", sensor_id)
        state: SensorState | None = await self.state(stream)
        now = await self.engine.store.now()
        if state is None or not await is_proven(state, stream, Proof(headers, body, token), now, self.deployment):
            raise Refused("UNAUTHENTICATED", UNPROVEN)
        return state.definition.auth

    async def message(self, sensor_id: str, message: Message | Mapping[str, Any]) -> EvaluationView:
        """Take a message once; a repeat of its id is answered with the first outcome."""
        if isinstance(message, Mapping):
            message = parse_message({}, msgspec.json.encode(message))
        stream = self.stream("sensor", sensor_id)
        key = message_key(sensor_id, message.message_id)
        recorded = await self.submit(
            stream, ReceiveMessage(message), key=key, collection=EVALUATIONS, request=sensor_id
        )
        return await self._recorded_view(stream, recorded)

    # -- evaluations

    async def evaluate(self, sensor_id: str, *, dry_run: bool = False, key: str | None = None) -> EvaluationView:
        """Ask the evaluator now, in any status; a dry run records nothing."""
        stream = self.stream("sensor", sensor_id)
        state: SensorState = await self.require_state(stream)
        definition = state.definition
        if definition.sensor_type != "poll" or definition.evaluator is None:
            raise Refused("NOT_A_POLL_SENSOR", f"the sensor {sensor_id!r} is a push sensor; it does not poll")
        calls = {"evaluator": definition.evaluator}
        raise_problems(tuple(await handler_problems(self.engine, self.deployment, stream.tenant, calls)))
        evaluation_id, request = f"sensor_eval:{sensor_id}:manual:{key or uuid4().hex}", f"{sensor_id}|manual"
        if key and not dry_run and (again := await self.find_recorded(evaluation_id, EVALUATIONS, request)):
            return await self._recorded_view(stream, again)
        started_at = await self.engine.store.now()
        evaluation, error = await self._call_evaluator(sensor_id, state)
        ended_at = await self.engine.store.now()
        duration_ms = (ended_at - started_at) // 1_000
        if dry_run:
            return dry_run_view(self.caller.tenant, sensor_id, state, evaluation, error, (ended_at, duration_ms))
        command = Evaluated(evaluation_id, state.state_version, evaluation, error, duration_ms)
        recorded = await self.submit(stream, command, key=evaluation_id, collection=EVALUATIONS, request=request)
        return await self._recorded_view(stream, recorded)

    async def _call_evaluator(self, sensor_id: str, state: SensorState) -> tuple[Evaluation | None, str]:
        evaluator = state.definition.evaluator
        if self._evaluate is None or evaluator is None:
            raise Refused("EVALUATOR_NOT_HERE", f"this process has no evaluators; {sensor_id!r} is polled by another")
        body = {"sensor_id": sensor_id, "cursor": state.cursor, "state_version": state.state_version}
        try:
            result = await self._evaluate(self.caller.tenant, evaluator, body, state.definition.timeout_seconds)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 — whatever an evaluator raises is recorded
            return None, repr(error)[:2_000]
        return read_answer(result, state.definition)

    @check_filters
    async def evaluations(
        self,
        sensor_id: str,
        *,
        status: EvaluationViewStatus | None = None,
        message_id: MessageId | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[EvaluationView]:
        """List evaluations, newest first. A message is there once: pending, and then with its outcome."""
        stream = self.stream("sensor", sensor_id)
        await self.require_history(stream)
        if message_id is not None:
            views = await self._views_of_message(stream, message_id)
            return Page([view for view in views if status in (None, view.status)])
        filters = ["evaluations", self.caller.tenant, sensor_id, status]
        return await self._read_evaluations(stream, filters, status, limit, cursor)

    @check_filters
    async def all_evaluations(
        self,
        *,
        sensor_id: Id | None = None,
        status: EvaluationViewStatus | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[EvaluationView]:
        """List the evaluations of all sensors, or of one, newest first.

        Recorded from `since` on, before `until`.
        """
        filters = ["all evaluations", self.caller.tenant, sensor_id, status, since, until]
        query = LedgerQuery(
            tenant=self.caller.tenant, kind="sensor", id=sensor_id, since_at=instant(since), until_at=instant(until)
        )
        return await self._read_evaluations(query, filters, status, limit, cursor)

    async def _read_evaluations(
        self, source: StreamId | LedgerQuery, filters: Any, status: str | None, limit: int, cursor: str | None
    ) -> Page[EvaluationView]:
        found, more = await list_rows(
            self.engine, source, evaluation_rows, filters, limit, cursor, lambda view: status in (None, view.status)
        )
        views, found.items = found.items, []
        for view in views:
            with found.reading(view.segment_id or view.evaluation_id):
                found.items += await self._complete_views(self.stream("sensor", view.sensor_id), view)
        found.items = await self._with_runs(found.items)
        return found.page(more)

    async def _views_of_message(self, stream: StreamId, message_id: str) -> builtins.list[EvaluationView]:
        """Return the evaluations of a message, newest first: several if it was sent again after its key expired."""
        query = LedgerQuery(tenant=stream.tenant, key=message_key(stream.id, message_id), backwards=True)
        found: builtins.list[EvaluationView] = []
        for accepted in await self.engine.store.ledger(query):
            if accepted.stream == stream and (view := evaluation_in(accepted, self.events_in(accepted))):
                outcome = await self._outcome_view(stream, accepted) if view.status == "pending" else None
                found.append(outcome or view)
        return await self._with_runs(found)

    async def _recorded_view(self, stream: StreamId, recorded: Recorded) -> EvaluationView:
        segment = await self.segment(stream, recorded.reply.segment)
        view = evaluation_in(segment, self.events_in(segment)) if segment else None
        if segment is None or view is None:
            raise NotFound(f"the evaluation {recorded.segment_id} was pruned")
        if view.status == "pending" and recorded.replayed:
            view = await self._outcome_view(stream, segment) or view
        return replace((await self._with_runs([view]))[0], is_replay=recorded.replayed)

    async def _outcome_view(self, stream: StreamId, received: Segment) -> EvaluationView | None:
        """Return the outcome of a message that was evaluated later, looking through a bounded number of segments."""
        after = received.version
        for _ in range(OUTCOME_PAGES):
            _, segments = await self.engine.store.history(stream, after, 200)
            for segment in segments:
                view = evaluation_in(segment, self.events_in(segment))
                if view and view.evaluation_id == EffectId(*stream, received.version, 0).handle:
                    return await self._with_message_id(stream, view)
            if len(segments) < 200:
                return None
            after = segments[-1].version
        return None

    async def _complete_views(self, stream: StreamId, view: EvaluationView) -> builtins.list[EvaluationView]:
        """Return the view with its message id; none for a message whose outcome is a row of its own."""
        if view.status == "pending" and not await self._is_pending(stream, view):
            return []
        return [await self._with_message_id(stream, view)]

    async def _is_pending(self, stream: StreamId, view: EvaluationView) -> bool:
        version = int(view.evaluation_id.rsplit(":", 2)[1])
        effects = await self.engine.store.effects(EffectQuery(source=stream, version=version, limit=1))
        return bool(effects) and effects[0].status in ("pending", "leased")

    async def _with_message_id(self, stream: StreamId, view: EvaluationView) -> EvaluationView:
        """Return the view with the id of its message, which is in the segment that accepted it."""
        if view.cause != "message" or view.message_id is not None:
            return view
        version = int(view.evaluation_id.rsplit(":", 2)[1])
        received = await self.segment(stream, version)
        accepted = evaluation_in(received, self.events_in(received)) if received else None
        return replace(view, message_id=accepted.message_id) if accepted else view

    async def _with_runs(self, views: Sequence[EvaluationView]) -> builtins.list[EvaluationView]:
        runs = await self.runs([asked.run_id for view in views for asked in view.run_requests])
        return [replace(v, run_requests=[replace(r, run=runs.get(r.run_id)) for r in v.run_requests]) for v in views]
