"""Runs as callers see them: the status of a trigger, the runs themselves, and claims on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, get_args

import msgspec

from betimes.core.datetimes import moment
from betimes.core.errors import BetimesError, MalformedRow, NewerVersion, NotFound, Refused
from betimes.core.instants import Instant, render
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import KeyId, StreamId, parse_effect_handle, segment_handle
from betimes.domain.derivation import derive
from betimes.domain.paging import Page, check_filters, checked_limit, list_streams
from betimes.domain.service import check_request
from betimes.engine.store import PAGE_MAX, EffectQuery, LedgerQuery, StreamQuery, StreamRow
from betimes.runs.model import (
    TRIGGERS,
    AccountState,
    CancelTrigger,
    ClaimRun,
    CompleteRun,
    RenewRun,
    RequestRun,
    RunAllowed,
    RunEnded,
    RunSkipped,
    RunState,
    TriggerOutcome,
    WouldRun,
    run_id_of,
    run_stream,
)
from betimes.runs.payloads import run_input_of
from betimes.runs.registry import Registry
from betimes.runs.triggers import Triggers
from betimes.runs.views import (
    ClaimManyRequest,
    ClaimRequest,
    CompleteRequest,
    RenewRequest,
    RunClaim,
    RunHandler,
    RunStatus,
    RunView,
    TriggerState,
    TriggerStatus,
    TriggerVerdict,
)
from betimes.schedules.nominal_time import NO_NOMINAL_TIME

RUNS = "runs"
"""The collection of keys under which runs are claimed, renewed and completed."""
CANCELLATIONS = "cancellations"
"""The collection of keys under which triggers are cancelled."""
_ENDINGS = (RunAllowed, RunSkipped, WouldRun)
_ENDED_BY = ('{"type":"Wake"', '{"type":"CancelTrigger"')
PAGES_MAX = 20
"""Pages that one request reads at most; the rest is behind the cursor of its answer."""


class Runs(Triggers, Registry):
    """May this account's expensive decision run now, and what became of it?"""

    # -- the status of a trigger

    async def trigger_status(self, key: str) -> TriggerStatus:
        """Return the request, its verdict, that of its retry, and its run; kept as long as the key."""
        seen = await self.engine.store.seen(KeyId(self.caller.tenant, TRIGGERS, key))
        if seen is None:
            raise await self._unknown_trigger(key)
        segment = seen.segment
        kind = self.engine.kinds.of(segment.stream)
        recorded = kind.recorded(segment)
        request, outcome = kind.command(segment.command or "", segment), recorded.reply
        assert isinstance(request, RequestRun)
        assert isinstance(outcome, TriggerOutcome)
        status, retry, run_id = outcome.status, None, outcome.run_id if outcome.status == "allowed" else None
        if outcome.status in ("deferred", "joined"):
            status, retry, run_id = await self._find_ending(segment, request.trigger_type, outcome, key)
        return derive(
            TriggerStatus,
            request,
            account_id=segment.stream.id,
            idempotency_key=key,
            correlation_id=request.correlation or segment.correlation or None,
            status=status,
            verdict=self.verdict_view(recorded, request.trigger_type, key, trace=True),
            retry=retry,
            run_id=run_id,
        )

    async def _unknown_trigger(self, key: str) -> NotFound:
        """Return what to say of a key that is not in force: what it was, if the ledger still has it."""
        query = LedgerQuery(tenant=self.caller.tenant, kind="account", key=key, backwards=True, limit=1)
        for first in await self.engine.store.ledger(query):
            return NotFound(
                f"the key of the trigger {key!r} of {first.stream.id} has expired; what was decided on "
                f"{render(first.at)} is in the ledger: betimes why {first.handle}, GET /v1/explain/{first.handle}"
            )
        return NotFound(f"there is no trigger {key!r}; it was never sent, or what was recorded of it was pruned")

    async def cancel_trigger(self, key: str, *, request_key: str | None = None) -> TriggerStatus:
        """Drop a trigger that waits, with all that joined it; 409 NOT_WAITING as `Refused` if it does not."""
        seen = await self.engine.store.seen(KeyId(self.caller.tenant, TRIGGERS, key))
        if seen is not None:
            await self.submit(
                seen.segment.stream,
                CancelTrigger(key),
                key=request_key,
                collection=CANCELLATIONS,
            )
        return await self.trigger_status(key)

    async def _find_ending(
        self, first: Segment, trigger_type: str, outcome: TriggerOutcome, key: str
    ) -> tuple[TriggerState, TriggerVerdict | None, str | None]:
        """Return the status of a trigger that had to wait, the verdict that ended its wait, and its run."""
        tenant, run_id = self.caller.tenant, outcome.run_id or ""
        account = await self.state(first.stream) or AccountState()
        if any(run_id_of(tenant, due.key) == run_id for due in account.waiting):
            return outcome.status, None, None
        retry = await self._find_retry(first, trigger_type, run_id, key)
        run: RunState | None = await self.state(run_stream(tenant, run_id))
        if run is None or run.allowed_at is None:
            return "skipped", retry, None
        return "joined" if outcome.status == "joined" else "allowed", retry, run_id

    async def _find_retry(self, first: Segment, trigger_type: str, run_id: str, key: str) -> TriggerVerdict | None:
        """Return the verdict that ended the wait of this trigger, or of the one it joined, if it can be found."""
        async for segment in self._later_segments(first):
            if not segment.command or not segment.command.startswith(_ENDED_BY):
                continue
            kind = self.engine.kinds.of(segment.stream)
            for event in kind.events(segment):
                if isinstance(event, _ENDINGS) and run_id_of(self.caller.tenant, event.key) == run_id:
                    recorded = _with_outcome(kind.recorded(segment), event, run_id)
                    return self.verdict_view(recorded, trigger_type, key, trace=True)
        return None

    async def _later_segments(self, first: Segment) -> AsyncIterator[Segment]:
        """Yield the account's later segments, as far as a list may look."""
        version = first.version
        for _ in range(PAGES_MAX):
            _, page = await self.engine.store.history(first.stream, version, PAGE_MAX)
            for segment in page:
                yield segment
            if len(page) < PAGE_MAX:
                return
            version = page[-1].version

    # -- runs

    async def run(self, run_id: str) -> RunView:
        stream = self.stream("run", run_id)
        row = (await self.engine.store.load([stream])).get(stream)
        state = row and self.engine.kinds.state_in(stream, row)
        if row is None or not isinstance(state, RunState) or state.allowed_at is None:
            raise NotFound(f"there is no run {run_id!r}: {_explain_absence(state)}")
        return await self._view(stream, state, row.version)

    @check_filters
    async def runs(
        self,
        *,
        account_id: str | None = None,
        status: RunStatus | None = None,
        trigger_type: str | None = None,
        handler: RunHandler | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[RunView]:
        """List the runs that the gate admitted, newest first."""
        filters = ("runs", self.caller.tenant, account_id, status, trigger_type, handler)
        statuses: tuple[str, ...] = get_args(RunStatus) if status is None else (status,)
        query = StreamQuery(
            tenant=self.caller.tenant, kind="run", owner=account_id, among=statuses if account_id is None else ()
        )
        wanted = {"trigger_type": trigger_type, "handler": handler}

        async def show(row: StreamRow) -> RunView:
            return await self._view(row.stream, self._run_in(row), row.version)

        def is_wanted(row: StreamRow) -> bool:
            return row.status in statuses and self._fits(row, wanted)

        return await list_streams(self.engine.store, query, filters, limit, cursor, show, is_wanted)

    def _run_in(self, row: StreamRow) -> RunState:
        state: RunState = self.engine.kinds.state_in(row.stream, row)
        return state

    def _fits(self, row: StreamRow, wanted: dict[str, str | None]) -> bool:
        """Return whether the gate admitted it and it is as wanted; one that cannot be read is shown as such."""
        try:
            run = self._run_in(row)
        except BetimesError:
            return True
        fits = all(value is None or getattr(run, name) == value for name, value in wanted.items())
        return fits and run.allowed_at is not None

    async def _view(self, stream: StreamId, run: RunState, version: int) -> RunView:
        given = await run_input_of(self.engine.store, stream.tenant, run)
        nominal = given.nominal
        return derive(
            RunView,
            run,
            nominal,
            run_id=stream.id,
            idempotency_key=run.key,
            payloads=given.payloads,
            lease_expires_at=await self._lease_end(stream, run),
            result=await self._result(stream, run),
            correlation_id=run.correlation or None,
            segment_id=segment_handle(stream, version),
            **({"data_interval_end": nominal.scheduled_for} if nominal else NO_NOMINAL_TIME),
        )

    async def _lease_end(self, stream: StreamId, run: RunState) -> Instant | None:
        """Return when the lease ends: a worker's is in the run, a handler's is that of its call."""
        if run.status != "started" or not run.effect:
            return run.lease_expires_at
        effect = parse_effect_handle(stream.tenant, run.effect)
        rows = await self.engine.store.effects(EffectQuery(source=effect.source, version=effect.version))
        return next((row.next_attempt_at for row in rows if row.id == effect), None)

    async def _result(self, stream: StreamId, run: RunState) -> Any:
        if not run.ended_version:
            return None
        _, page = await self.engine.store.history(stream, run.ended_version - 1, 1)
        events = self.engine.kinds.of(stream).events(page[0]) if page else ()
        return next((event.result for event in events if isinstance(event, RunEnded)), None)

    # -- claims

    async def claim(
        self, run_id: str, request: ClaimRequest | Mapping[str, Any], *, key: str | None = None
    ) -> RunClaim:
        """Take one run that waits for a worker; 409 ALREADY_CLAIMED or NOT_CLAIMABLE as `Refused`."""
        request = check_request(request, ClaimRequest)
        command = ClaimRun(self._worker(request.worker), request.lease_s)
        return await self._claim_view(await self._submit_to_run(self.stream("run", run_id), command, key))

    async def claim_many(self, request: ClaimManyRequest | Mapping[str, Any], *, limit: int = 10) -> list[RunClaim]:
        """Take up to `limit` runs that wait for a worker, the oldest first; those others are taking are left alone."""
        request = check_request(request, ClaimManyRequest)
        checked_limit(limit)
        worker = self._worker(request.worker)
        command = ClaimRun(worker, request.lease_s)
        claims: list[RunClaim] = []
        if self.engine.is_held(self.caller.tenant, "run"):
            return claims
        if not (request.account_id or request.trigger_type):
            failed: list[StreamId] = []
            taken = await self.engine.submit_due(
                ("run",),
                lambda _: command,
                limit,
                tenant=self.caller.tenant,
                actor=self.caller.actor,
                note=self.caller.note,
                failed=lambda stream, error: failed.append(stream),
            )
            claims = [await self._claim_view(recorded) for recorded in taken]
            # A run that failed stays first in line and would fail each call again: the slow way looks behind it.
            if not failed:
                return claims
        return claims + await self._claim_some(request, command, limit - len(claims))

    async def _claim_some(self, wanted: ClaimManyRequest, command: ClaimRun, limit: int) -> list[RunClaim]:
        """Look through the runs that wait in the order they came, and claim those that fit one by one."""
        claims: list[RunClaim] = []
        now = await self.engine.store.now()
        query = StreamQuery(
            tenant=self.caller.tenant, kind="run", listed_before=now, owner=wanted.account_id, limit=200
        )
        for _ in range(PAGES_MAX):
            page = await self.engine.store.streams(query)
            for row in page:
                if len(claims) >= limit:
                    return claims
                with suppress(Refused, MalformedRow, NewerVersion):  # somebody else was faster, or it cannot be read
                    run = self.engine.kinds.state_in(row.stream, row)
                    if wanted.trigger_type in (None, run.trigger_type):
                        claims.append(await self._claim_view(await self._submit_to_run(row.stream, command)))
            if len(page) < query.limit:
                break
            query = msgspec.structs.replace(query, after=page[-1].stream, after_listed_at=page[-1].listed_at)
        return claims

    async def renew(
        self, run_id: str, request: RenewRequest | Mapping[str, Any], *, key: str | None = None
    ) -> RunClaim:
        request = check_request(request, RenewRequest)
        stream = self.stream("run", run_id)
        return await self._claim_view(
            await self._submit_to_run(stream, RenewRun(request.claim_token, request.lease_s), key)
        )

    async def complete(
        self, run_id: str, request: CompleteRequest | Mapping[str, Any], *, key: str | None = None
    ) -> RunView:
        request = check_request(request, CompleteRequest)
        stream = self.stream("run", run_id)
        command = CompleteRun(request.claim_token, request.status, request.result, request.error_message or "")
        recorded = await self._submit_to_run(stream, command, key)
        return await self._view(stream, recorded.reply, recorded.version)

    def _worker(self, name: str | None) -> str:
        return name or self.caller.actor or "worker"

    async def _submit_to_run(self, stream: StreamId, command: Any, key: str | None = None) -> Recorded:
        return await self.submit(stream, command, key=key, collection=RUNS)

    async def _claim_view(self, recorded: Recorded) -> RunClaim:
        run: RunState = recorded.reply
        assert run.started_at is not None
        assert run.lease_expires_at is not None
        view = await self._view(recorded.stream, run, recorded.version)
        return RunClaim(run.claim_token, moment(run.started_at), moment(run.lease_expires_at), view)


def _with_outcome(recorded: Recorded, event: RunAllowed | RunSkipped | WouldRun, run_id: str) -> Recorded:
    outcome = TriggerOutcome("allowed", run_id) if isinstance(event, RunAllowed) else TriggerOutcome("skipped")
    return msgspec.structs.replace(recorded, reply=outcome)


def _explain_absence(state: RunState | None) -> str:
    """Return why there is no run to show under an id: only what the gate let through has one."""
    if state and state.asked_by and state.target != "trigger":
        kind, id = state.asked_by.kind, state.asked_by.id
        return f"the {kind} started a {state.target}, which the gate does not judge; see betimes why {id}"
    return "a trigger that was skipped or is waiting has none; /v1/triggers/{run_key} says why"
