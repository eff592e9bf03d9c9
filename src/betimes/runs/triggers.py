"""Triggers as callers send them, dry runs, and the counters of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from betimes.core import windows
from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Problem, Rule, examine, refusal
from betimes.core.datetimes import instant, moment
from betimes.core.deciders import Refusal, View
from betimes.core.errors import BetimesError, Invalid, Refused
from betimes.core.instants import SECOND, Instant, epoch_down, epoch_up
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.domain.derivation import derive, deriver
from betimes.domain.service import Service, check_request, examine_request, in_slices, require_batch, trace_of
from betimes.engine.jobs import Submission
from betimes.runs.admission_request import saturation_of
from betimes.runs.counters import quota_stream
from betimes.runs.decide import ACCOUNT, tier_problem
from betimes.runs.model import (
    HOUR_S,
    TRIGGERS,
    AccountState,
    First,
    ReportActions,
    RequestRun,
    TriggerOutcome,
    account_stream,
    agreed_request,
)
from betimes.runs.policy import Entry, RunLimits, RunsPolicy, limits_of
from betimes.runs.rules import RESULTS, next_day
from betimes.runs.sentences import sentence
from betimes.runs.views import (
    BATCH_MAX,
    ActionsRequest,
    ActionsView,
    BudgetView,
    DeferredView,
    EvaluateRequest,
    RunStateView,
    ShadowVerdict,
    TriggerRequest,
    TriggerVerdict,
)

Request = TypeVar("Request", TriggerRequest, EvaluateRequest)
TriggerSource: TypeAlias = TriggerRequest | Mapping[str, Any] | Examined[TriggerRequest]
"""A trigger as callers may give it."""
KEY_BUCKET_MIN_S = 60
_NO_KEY = "-"
"""Stands for the key of a dry run, which has none; no id starts with a dash."""


def examined_trigger(body: Any) -> Examined[TriggerRequest]:
    """Return the trigger a body asks for, as far as it is valid, with the problems found so far.

    The body has our own form, or is the envelope of a RUN_DECISION event; one examined already keeps its problems.
    """
    if isinstance(body, Examined) and isinstance(body.value, TriggerRequest):
        return body
    if isinstance(body, Examined):
        examined = examined_trigger(body.value)
        examined.found.extend(body.found.first)
        return examined
    if isinstance(body, dict) and "detail-type" in body:
        examined = examine(body.get("detail"), TriggerRequest, "detail")
        if body["detail-type"] != "RUN_DECISION":
            examined.found.add("detail-type", "must be RUN_DECISION")
        return examined
    return examine(body, TriggerRequest)


def _name_field(error: BetimesError) -> BetimesError:
    """Return the refusal of an unknown tier as one of its field, and any other error as it is."""
    if not isinstance(error, Refused) or error.reason != "UNKNOWN_TIER":
        return error
    return Invalid(f"tenant_tier: {error}", (("tenant_tier", str(error)),))


def tenant_rule(tenant: str) -> Rule[Any]:
    """Return the rule that a request names its caller's tenant, or none."""

    def judge(request: Any) -> Iterator[Problem]:
        if request.tenant_id not in (None, tenant):
            yield "tenant_id", "not your tenant"

    return judge


def _type_rule(policy: Policy) -> Rule[Any]:
    def judge(request: Any) -> Iterator[Problem]:
        if message := policy[RunsPolicy].type_problem(request.trigger_type):
            yield "trigger_type", message

    return judge


def _tier_rule(policy: Policy) -> Rule[Any]:
    def judge(request: Any) -> Iterator[Problem]:
        if message := tier_problem(request.tenant_tier, policy[RunsPolicy]):
            yield "tenant_tier", message

    return judge


ACTIONS = "actions"
"""The collection of keys under which actions are reported."""


class Triggers(Service):
    """Triggers and the accounts they are for."""

    # -- triggers

    async def trigger(self, request: TriggerSource, *, trace: bool = True) -> TriggerVerdict:
        """Ask for a run; the verdict is durable. A type that is not registered is refused."""
        asked = await self._checked_request(request, TriggerRequest)
        try:
            self.last = await self.engine.submit(self._trigger_submission(asked))
        except Refused as refused:
            raise _name_field(refused) from None
        return self.verdict_view(self.last, asked.trigger_type, asked.idempotency_key, trace=trace)

    async def trigger_many(
        self, requests: Sequence[TriggerSource], *, trace: bool = False
    ) -> list[TriggerVerdict | BetimesError]:
        """Trigger each as if it came alone, those of an account in order; an error stands where a verdict would."""
        require_batch(requests, "items", BATCH_MAX)
        checked = [await self._check_or_error(request) async for request in in_slices(requests)]
        valid = [request for request in checked if isinstance(request, TriggerRequest)]
        recorded = iter(await self.engine.submit_many([self._trigger_submission(request) for request in valid]))
        return [
            one if isinstance(one, BetimesError) else self._view_or_error(next(recorded), one, trace)
            async for one in in_slices(checked)
        ]

    async def _check_or_error(self, request: TriggerSource) -> TriggerRequest | BetimesError:
        try:
            return await self._checked_request(request, TriggerRequest)
        except BetimesError as error:
            return error

    def _trigger_submission(self, request: TriggerRequest) -> Submission:
        correlation = request.correlation_id or self.caller.correlation
        return self.submission(
            account_stream(self.caller.tenant, request.account_id),
            _run_command(request, correlation),
            key=request.idempotency_key,
            collection=TRIGGERS,
            request=agreed_request(request.account_id, request.trigger_type),
            correlation=correlation,
        )

    def _view_or_error(
        self, answer: Recorded | BetimesError, request: TriggerRequest, trace: bool
    ) -> TriggerVerdict | BetimesError:
        if isinstance(answer, BetimesError):
            return _name_field(answer)
        return self.verdict_view(answer, request.trigger_type, request.idempotency_key, trace=trace)

    async def _checked_request(self, request: Any, kind: type[Request]) -> Request:
        """Return the request as its type; raise `Invalid` with all that is wrong, the tenant it names included."""
        examined: Examined[Request] = examine_request(request, kind)
        if examined.found.total:
            policy = await self.engine.policy_of(self.caller.tenant)
            examined.judge((tenant_rule(self.caller.tenant), _type_rule(policy), _tier_rule(policy)))
        whole = examined.whole()
        for problem in tenant_rule(self.caller.tenant)(whole) if whole.tenant_id is not None else ():
            raise refusal("field", [problem])
        return whole

    def verdict_view(
        self, recorded: Recorded, trigger_type: str, key: str | None, *, trace: bool, dry: bool = False
    ) -> TriggerVerdict:
        """Return a recorded verdict as callers see it."""
        verdict, outcome, account_id = recorded.verdict, recorded.reply, recorded.stream.id
        assert verdict is not None
        assert isinstance(outcome, TriggerOutcome)
        until = verdict.until
        return TriggerVerdict(
            result=RESULTS[verdict.answer],
            reason=verdict.reasons[0],
            explanation=sentence(account_id, verdict, recorded.at),
            evaluated_at=moment(recorded.at),
            defer_until=moment(until),
            defer_until_epoch=None if until is None else epoch_up(until),
            retry_after_seconds=None if until is None else epoch_up(until - recorded.at),
            would_pass_at=moment(verdict.would_pass_at),
            account_id=account_id,
            trigger_type=trigger_type,
            idempotency_key=key,
            run_id=outcome.run_id if outcome.status == "allowed" else None,
            first=self._first_view(outcome.first, recorded.stream, trigger_type, key) if outcome.first else None,
            is_replay=outcome.first is not None,
            shadow=_shadow_view(outcome.shadow),
            policy=recorded.policy,
            segment_id=None if dry else recorded.segment_id,
            trace=trace_of(self.engine.kinds, verdict) if trace else None,
        )

    def _first_view(self, first: First, stream: StreamId, trigger_type: str, key: str | None) -> TriggerVerdict:
        version = int(first.segment.rpartition(":")[2])
        outcome = TriggerOutcome("allowed" if first.run_id else "skipped", first.run_id, first.shadow)
        recorded = Recorded(stream, version, first.at, first.policy, first.verdict, outcome)
        return self.verdict_view(recorded, trigger_type, key, trace=False)

    async def evaluate(
        self, request: EvaluateRequest | Mapping[str, Any] | Examined[EvaluateRequest], *, trace: bool = True
    ) -> TriggerVerdict:
        """Answer a trigger without a run, now or as of another instant.

        A dry run: nothing is changed or recorded.
        """
        request = await self._checked_request(request, EvaluateRequest)
        stream = account_stream(self.caller.tenant, request.account_id)
        account, quota, policy = await self._account_and_policy(stream)
        now = instant(request.at) if request.at else await self.engine.store.now()
        if request.recency_last_run_epoch is not None:
            account = replace(account, last_allowed_at=request.recency_last_run_epoch * SECOND)
        view = View(stream, account, 0, {quota_stream(stream.tenant): quota}, key=_NO_KEY)
        decision = ACCOUNT.decide(view, _run_command(request), policy, now)
        if isinstance(decision, Refusal):
            raise _name_field(Refused(decision.reason, decision.message))
        outcome = TriggerOutcome("skipped", shadow=decision.reply.shadow)
        recorded = Recorded(stream, 0, now, policy.fingerprint, decision.verdict, outcome)
        return self.verdict_view(recorded, request.trigger_type, None, trace=trace, dry=True)

    async def idempotency_key(self, account_id: str, trigger_type: str, at: Instant) -> str:
        """Return a key for callers who have none of their own: one per account, type and debounce window."""
        policy = await self.engine.policy_of(self.caller.tenant)
        entry = policy[RunsPolicy].registry.get(trigger_type)
        if entry is None:
            raise Refused("UNKNOWN_TRIGGER_TYPE", policy[RunsPolicy].type_problem(trigger_type))
        if entry.debounce_mode == "trailing":
            raise Invalid(
                f"{trigger_type} has a trailing debounce, so each of its triggers needs an idempotency key; give one"
            )
        bucket = epoch_down(at) // max(KEY_BUCKET_MIN_S, entry.debounce_seconds)
        return sha256(f"{self.caller.tenant}|{account_id}|{trigger_type}|{bucket}".encode()).hexdigest()

    # -- accounts

    async def run_state(self, account_id: str) -> RunStateView:
        """Return an account's counters and the triggers that wait; an unknown account has none."""
        stream = self.stream("account", account_id)
        account, _, policy = await self._account_and_policy(stream)
        now = await self.engine.store.now()
        limits = _general_limits(policy)
        used, budget = account.allowed_today.on(now), limits.account_budget
        return RunStateView(
            account_id=account_id,
            last_allowed_at_epoch=_epoch(account.last_allowed_at),
            last_deferred_at_epoch=_epoch(account.last_deferred_at),
            last_trigger_at_by_type={name: epoch_down(at) for name, at in account.last_allowed_at_by_type.items()},
            run_count_this_hour=sum(windows.count(window, now, HOUR_S) for window in account.allowed_by_type.values()),
            cooldown_until=moment(_cooldown_until(account, policy[RunsPolicy], now)),
            budget=BudgetView(budget, used, None if budget is None else max(0, budget - used), moment(next_day(now))),
            action_saturation_score=_saturation(account.actions_today.on(now), limits.action_cap),
            deferred=[
                derive(DeferredView, due) for due in sorted(account.waiting, key=lambda due: (due.until_at, due.key))
            ],
            updated_at=moment(account.updated_at),
        )

    async def report_actions(
        self, account_id: str, request: ActionsRequest | Mapping[str, Any], *, key: str | None = None
    ) -> ActionsView:
        """Count actions taken for the account, against the day's cap."""
        request = check_request(request, ActionsRequest)
        stream = self.stream("account", account_id)
        now = await self.engine.store.now()
        at = instant(request.timestamp) if request.timestamp else now
        if at > now:
            raise Invalid("timestamp is in the future", (("timestamp", "must not be in the future"),))
        recorded = await self.submit(
            stream,
            ReportActions(request.count, at),
            key=key,
            collection=ACTIONS,
            request=self.caller.request or fingerprint((stream, request)),
        )
        account: AccountState = await self.state_after(recorded) or AccountState()
        now, policy = recorded.at, await self.engine.policy_of(stream.tenant)
        count, cap = account.actions_today.on(now), _general_limits(policy).action_cap
        return ActionsView(account_id, count, cap, _saturation(count, cap), moment(next_day(now)))

    async def _account_and_policy(self, stream: StreamId) -> tuple[AccountState, Any, Policy]:
        account = await self.state(stream) or AccountState()
        quota = await self.state(quota_stream(stream.tenant))
        return account, quota, await self.engine.policy_of(stream.tenant)


def _run_command(request: TriggerRequest | EvaluateRequest, correlation: str = "") -> RequestRun:
    """Return the command of a request, with every field that both have."""
    return _COMMANDS[type(request)](request, correlation=correlation, strict=True)


# Compiled beforehand, because every trigger needs one. The correlation may be the caller's.
_COMMANDS = {
    kind: deriver(RequestRun, kind, given=("correlation", "strict")) for kind in (TriggerRequest, EvaluateRequest)
}


def _shadow_view(verdict: Verdict | None) -> ShadowVerdict | None:
    return None if verdict is None else ShadowVerdict(RESULTS[verdict.answer], verdict.reasons, moment(verdict.until))


def _general_limits(policy: Policy) -> RunLimits:
    """Return the limits of an account, whatever the trigger type."""
    return limits_of(policy[RunsPolicy], Entry(debounce_seconds=0, cooldown_seconds=0), None)


def _epoch(at: Instant | None) -> int | None:
    return None if at is None else epoch_down(at)


def _cooldown_until(account: AccountState, policy: RunsPolicy, now: Instant) -> Instant | None:
    """Return when the longest cooldown of any type ends, if it has not passed."""
    longest_s = max((entry.cooldown_seconds for entry in policy.registry.values()), default=0)
    ends_at = None if account.last_allowed_at is None else account.last_allowed_at + longest_s * SECOND
    return ends_at if ends_at is not None and ends_at > now else None


def _saturation(count: int, cap: int | None) -> Decimal | None:
    return None if cap is None else saturation_of(count, cap)
