"""Intents: definitions, what is pending, claims, fires and what was executed.

A wrong definition is raised as `Invalid` with every problem; a request that cannot be granted as things stand as
`Refused` with its reason (`ALREADY_CLAIMED`, `NOT_DUE`, `DISABLED`, `CLAIM_LOST`, `ALREADY_EXISTS`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Findings, check_value
from betimes.core.checks import problems as problems_in
from betimes.core.datetimes import moment
from betimes.core.deciders import Command, Decision, View
from betimes.core.errors import Invalid, NotFound, Refused, VersionMismatch
from betimes.core.instants import SECOND
from betimes.core.names import Id
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domain.bulk_changes import BulkChanges
from betimes.domain.paging import (
    InstantPlace,
    Page,
    check_filters,
    checked_limit,
    cursor_of,
    list_streams,
    place_of,
    stream_at,
)
from betimes.domain.service import json_of
from betimes.domain.warnings import Remark
from betimes.engine.store import StreamQuery, StreamRow
from betimes.intents.bulk_claims import claim_due
from betimes.intents.check_times import next_checks
from betimes.intents.decide import decide, state_at
from betimes.intents.drafts import definition_of, draft_from, sent_fields
from betimes.intents.lists import executions, pending, state_of, statuses
from betimes.intents.model import (
    INTENTS,
    ChangeIntent,
    Claimed,
    ClaimIntent,
    Defined,
    DefineIntent,
    DefinitionProblem,
    DeleteIntent,
    DisableIntent,
    Draft,
    EnableIntent,
    Fired,
    FireIntent,
    Gate,
    IntentState,
    ReleaseClaim,
    RenewClaim,
    TriggerType,
    owner_stream,
)
from betimes.intents.views import (
    CheckView,
    ClaimsView,
    ClaimView,
    ExecutionView,
    FireRequest,
    FireView,
    IntentClaimRequest,
    IntentClaimsRequest,
    IntentRenewRequest,
    IntentView,
    IntentWritten,
    ReleaseRequest,
    claim_view,
    fire_view,
    intent_view,
    written_view,
)
from betimes.runs.policy import RunsPolicy

Request = TypeVar("Request", bound=msgspec.Struct)
Body = Mapping[str, Any] | Draft
OWNER_TRIES_MAX = 5
CHECKS_SHOWN = 5
_NO_CLAIM, _NO_CLAIMS = IntentClaimRequest(), IntentClaimsRequest()
_log = logging.getLogger("betimes.intents")


class Intents(BulkChanges):
    """Intents for one caller. A replay is answered with the intent as it was recorded."""

    request_type, view_type, written_type = Draft, IntentView, IntentWritten
    read_only = frozenset[str]()
    has_created = False
    """Whether the last write made a new intent, or did when it was recorded."""

    # -- definitions

    async def create(self, body: Body | Examined[Any], *, key: str | None = None) -> IntentWritten:
        """Make an intent; without an id it gets one, the same for the same key."""
        fields = await self._sound_fields(body)
        stream = self._new_stream(fields.get("intent_id"), key)
        command = DefineIntent({name: value for name, value in fields.items() if name != "version"})
        return await self._write(stream, command, key=key, request=self.caller.request or fingerprint(fields))

    async def put(
        self, intent_id: str, body: Body | Examined[Any], *, if_match: int | None = None, only_create: bool = False
    ) -> IntentWritten:
        """Make or replace an intent."""
        fields = await self._sound_fields(body)
        command = DefineIntent(
            fields, replaces=True, expected=_expected_version(fields, if_match), only_new=only_create
        )
        return await self._write(self._stream(intent_id), command)

    async def _sound_fields(self, body: Body | Examined[Any]) -> dict[str, Any]:
        """Return what was sent; of a request that is wrong already, raise what its intent would be told as well."""
        if not isinstance(body, Examined):
            return _fields(body)
        if body.found.total and isinstance(body.value, dict):
            # Without its id, or an intent that is to be replaced would be told that it exists already.
            unnamed = {name: value for name, value in body.value.items() if name not in ("intent_id", "version")}
            told = await self.check(unnamed)
            body.found.extend((remark.path, remark.message) for remark in told.errors)
        return _fields(body.whole())

    async def patch(
        self, intent_id: str, patch: Mapping[str, Any], *, if_match: int | None = None, key: str | None = None
    ) -> IntentWritten:
        """Lay a JSON merge patch over an intent."""
        fields = _fields(patch)
        expected, stream = _expected_version(fields, if_match), self._stream(intent_id)
        changed = {name: value for name, value in fields.items() if name != "version"}
        return await self._of_its_owner(stream, lambda user_id: ChangeIntent(changed, user_id, expected), key, changed)

    async def enable(self, intent_id: str, *, if_match: int | None = None, key: str | None = None) -> IntentWritten:
        stream = self._stream(intent_id)
        return await self._of_its_owner(stream, lambda user_id: EnableIntent(user_id, if_match), key, "enable")

    async def disable(self, intent_id: str, *, if_match: int | None = None, key: str | None = None) -> IntentWritten:
        return await self._write(self._stream(intent_id), DisableIntent(if_match), key=key)

    async def delete(self, intent_id: str, *, if_match: int | None = None) -> None:
        await self._submit(self._stream(intent_id), DeleteIntent(if_match))

    async def get(self, intent_id: str) -> IntentView:
        stream = self._stream(intent_id)
        state, now = await self._state(stream), await self.engine.store.now()
        return intent_view(intent_id, state_at(stream, state, await self._policy(), now), now)

    @check_filters
    async def list(
        self,
        *,
        user_id: str | None = None,
        trigger_type: TriggerType | None = None,
        enabled: bool | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[IntentView]:
        """Return intents, the last created first."""
        filters = ("intents", self.caller.tenant, user_id, trigger_type, enabled)
        wanted = () if trigger_type is None and enabled is None else statuses(trigger_type, enabled)
        query = StreamQuery(
            tenant=self.caller.tenant, kind="intent", owner=user_id, among=wanted if user_id is None else ()
        )
        now, policy = await self.engine.store.now(), await self._policy()

        async def show(row: StreamRow) -> IntentView:
            return intent_view(row.stream.id, state_at(row.stream, state_of(self.engine, row), policy, now), now)

        return await list_streams(
            self.engine.store, query, filters, limit, cursor, show, lambda row: not wanted or row.status in wanted
        )

    async def check(self, body: Body) -> CheckView:
        """Return the answer that making this intent would get, and when it would be checked; nothing is recorded."""
        fields, now = _fields(body), await self.engine.store.now()
        stream = self._new_stream(fields.get("intent_id"), None)
        user_id = fields.get("user_id")
        owner = None if problems_in("user_id", user_id, Id) else owner_stream(self.caller.tenant, str(user_id))
        taken, limits = await self.state(stream), await self.state(owner) if owner else None
        view: View[IntentState] = View(stream, None, 0, {owner: limits} if owner else {})
        policy = await self.engine.policy_of(self.caller.tenant)
        decision = decide(view, DefineIntent(fields), policy, now)
        assert isinstance(decision, Decision)
        problems = [*decision.reply.problems]
        if taken is not None:
            problems.append(DefinitionProblem("intent_id", f"the intent {stream.id!r} exists already"))
        draft = None if problems else draft_from(sent_fields(fields))[0]
        checks = next_checks(definition_of(draft), now, CHECKS_SHOWN) if draft else []
        gate = draft.gate if draft else None
        warnings = [*_remarks_of(decision.reply.warnings), *_unknown_gate(gate, policy)]
        return CheckView(not problems, _remarks_of(problems), warnings, [moment(at) for at in checks])

    # -- what is to be done

    @check_filters
    async def pending(
        self, *, user_id: str | None = None, in_cooldown: bool | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[IntentView]:
        """Return due and unclaimed intents by their next check, cooling ones too, flagged; nothing is changed.

        Without cooling ones they come in the order in which they could be claimed.
        """
        filters = ("pending", self.caller.tenant, user_id, in_cooldown)
        place, now = place_of(cursor, filters, InstantPlace), await self.engine.store.now()
        query = StreamQuery(tenant=self.caller.tenant, kind="intent", owner=user_id, limit=checked_limit(limit) + 1)
        by = "due" if in_cooldown is False and user_id is None else "listed"
        query = replace(query, **{f"{by}_before": now})
        if place is not None:
            after = stream_at(place, self.caller.tenant, "intent")
            query = replace(query, after=after, **{f"after_{by}_at": place.at})
        found, more = await pending(self.engine, await self._policy(), query, in_cooldown, now)
        return found.page(None if more is None else cursor_of(filters, more))

    async def claim(
        self, intent_id: str, request: IntentClaimRequest | Mapping[str, Any] = _NO_CLAIM, *, key: str | None = None
    ) -> ClaimView:
        """Reserve a due intent; `Refused` as ALREADY_CLAIMED, NOT_DUE or DISABLED."""
        asked, stream = _parse_request(request, IntentClaimRequest), self._stream(intent_id)
        try:
            recorded = await self._submit(stream, ClaimIntent(self._worker(asked.worker), asked.lease_s), key=key)
        except Refused as refused:
            raise await self._with_retry(stream, refused) from None
        return claim_view(intent_id, await self.state_after(recorded), recorded.reply)

    async def _with_retry(self, stream: StreamId, refused: Refused) -> Refused:
        """Return the refusal with the seconds until the claim in the way ends."""
        now = await self.engine.store.now()
        claim = (await self._state(stream)).live_claim(now)
        if refused.reason != "ALREADY_CLAIMED" or claim is None:
            return refused
        # Rounded up, so that who waits so long does not come a moment too soon.
        return Refused(refused.reason, str(refused), retry_after_s=-((now - claim.expires_at) // SECOND))

    async def claim_many(
        self, request: IntentClaimsRequest | Mapping[str, Any] = _NO_CLAIMS, *, limit: int = 10
    ) -> ClaimsView:
        """Claim up to so many due intents that are not cooling, the longest due first."""
        asked, limit = _parse_request(request, IntentClaimsRequest), checked_limit(limit)
        command = ClaimIntent(self._worker(asked.worker), asked.lease_s, among_many=True)
        taken = await claim_due(self, command, limit, user_id=asked.user_id, trigger_type=asked.trigger_type)
        granted = {recorded.stream: recorded.reply for recorded in taken if isinstance(recorded.reply, Claimed)}
        # One that was deleted right after it was claimed has no state and is left out below.
        rows = await self.engine.store.load(list(granted))
        kind = self.engine.kinds.of(self._stream("any"))
        states = {stream: kind.state(stream, row.schema, row.state) for stream, row in rows.items()}
        return ClaimsView(
            [claim_view(stream.id, states[stream], reply) for stream, reply in granted.items() if states.get(stream)]
        )

    async def renew(
        self, intent_id: str, request: IntentRenewRequest | Mapping[str, Any], *, key: str | None = None
    ) -> ClaimView:
        asked, stream = _parse_request(request, IntentRenewRequest), self._stream(intent_id)
        recorded = await self._submit(stream, RenewClaim(asked.claim_token, asked.lease_s), key=key)
        return claim_view(intent_id, await self.state_after(recorded), recorded.reply)

    async def release(
        self, intent_id: str, request: ReleaseRequest | Mapping[str, Any], *, key: str | None = None
    ) -> None:
        asked = _parse_request(request, ReleaseRequest)
        await self._submit(self._stream(intent_id), ReleaseClaim(asked.claim_token), key=key)

    async def fire(
        self, intent_id: str, request: FireRequest | Mapping[str, Any], *, key: str | None = None
    ) -> FireView:
        """Report the result of a check; raise `Refused` as CLAIM_LOST or DISABLED."""
        asked = _parse_request(request, FireRequest)
        command = FireIntent(**msgspec.structs.asdict(asked))
        recorded = await self._submit(self._stream(intent_id), command, key=key)
        view = fire_view(recorded)
        if isinstance(recorded.reply, Fired) and view.cooldown_active and not recorded.replayed:
            _log.info(
                "[intents.fire] intent_id=%s cooldown_active=true remaining_hours=%s",
                intent_id,
                view.cooldown_remaining_hours,
            )
        return view

    @check_filters
    async def history(self, intent_id: str, *, limit: int = 50, cursor: str | None = None) -> Page[ExecutionView]:
        """Executions, newest first; also of an intent that was deleted."""
        stream = self._stream(intent_id)
        await self.require_history(stream)
        return await executions(self.engine, stream, ("history", self.caller.tenant, intent_id), limit, cursor)

    # -- how it is done

    def _stream(self, intent_id: str) -> StreamId:
        return self.stream("intent", intent_id)

    def _new_stream(self, intent_id: Any, key: str | None) -> StreamId:
        """Return the stream of the chosen id, or of a new one; a malformed id is reported with the other problems."""
        try:
            if intent_id is not None:
                return self._stream(intent_id)
        except (Invalid, TypeError):
            pass
        name = uuid4().hex if key is None else sha256(f"{self.caller.tenant}|{key}".encode()).hexdigest()[:32]
        return self._stream(f"int_{name}")

    def _worker(self, worker: str | None) -> str:
        return worker or self.caller.actor or "worker"

    async def _policy(self) -> Policy:
        return await self.engine.policy_of(self.caller.tenant)

    async def _state(self, stream: StreamId) -> IntentState:
        state: IntentState = await self.require_state(stream)
        return state

    async def _submit(
        self, stream: StreamId, command: Command, *, key: str | None = None, request: str = ""
    ) -> Recorded:
        return await self.submit(stream, command, key=key, collection=INTENTS, request=request)

    async def _of_its_owner(self, stream: StreamId, command: Any, key: str | None, asked: Any) -> IntentWritten:
        """Submit a command that names the owner of the intent; the owner is read first and may change meanwhile."""
        request = self.caller.request or fingerprint((stream, asked))
        # Before the owner is read: a repeat is answered from the record, also of an intent deleted since.
        if key and (again := await self.find_recorded(key, INTENTS, request)):
            return await self._as_left(again)
        for _ in range(OWNER_TRIES_MAX):
            user_id = (await self._state(stream)).definition.user_id
            try:
                return await self._write(stream, command(user_id), key=key, request=request)
            except Refused as refused:
                if refused.reason != "OWNER_MOVED":
                    raise
        raise VersionMismatch(f"{stream.id!r} changed its owner at every attempt; try again")

    async def _write(self, stream: StreamId, command: Command, **keyed: Any) -> IntentWritten:
        return await self._as_left(await self._submit(stream, command, **keyed))

    async def _as_left(self, recorded: Recorded) -> IntentWritten:
        """Return the intent as a write left it."""
        reply = recorded.reply
        assert isinstance(reply, Defined)
        self.has_created = reply.created
        if reply.problems:
            raise _invalid(reply)
        state: IntentState | None = await self.state_after(recorded)
        if state is None:
            raise NotFound(f"there is no intent {recorded.stream.id!r}")
        policy = await self.engine.policy_of(self.caller.tenant)
        warnings = [*_remarks_of(reply.warnings), *_unknown_gate(state.definition.gate, policy)]
        return written_view(recorded.stream.id, state, recorded.at, warnings, recorded.segment_id)


def _fields(body: Body) -> dict[str, Any]:
    """Return what was sent, as JSON would have it; raise `Invalid` if it is no JSON object."""
    return check_value(json_of(body), dict[str, Any])


def _expected_version(fields: dict[str, Any], if_match: int | None) -> int | None:
    """Return the version a change is conditional on, from the header or the body."""
    given = fields.pop("version", None)
    if given is not None and type(given) is not int:
        raise Invalid("version is a whole number", (("version", "must be a whole number"),))
    if given is not None and if_match is not None and given != if_match:
        raise Invalid("If-Match and version differ", (("version", "differs from If-Match"),))
    return if_match if given is None else given


def _parse_request(request: Any, kind: type[Request]) -> Request:
    return check_value(json_of(request), kind)


def _remarks_of(problems: Any) -> list[Remark]:
    return [Remark(problem.path, problem.message) for problem in problems]


# A warning and no refusal: the type may be registered later, and definitions that were saved before stay valid.
def _unknown_gate(gate: Gate | None, policy: Policy) -> list[Remark]:
    """Return a warning if the policy in force does not know the trigger type of a gate."""
    problem = policy[RunsPolicy].type_problem(gate.trigger_type) if gate else ""
    return [Remark("gate.trigger_type", problem)] if problem else []


def _invalid(reply: Defined) -> Invalid:
    found = Findings((problem.path, problem.message) for problem in reply.problems)
    found.total = max(found.total, reply.problem_count)
    return found.refusal()
