"""Admission: judge a trigger, then start its run, let it wait, or skip it.

A verdict charges windows and budgets only when it admits. In shadow mode a new trigger's run starts whatever the
verdict is, and the verdict that was not enforced is recorded and charged as it would have been.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision, Effect, Event
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.runs.admission_request import AdmissionRequest, gate_input
from betimes.runs.counters import QuotaEvents, SlotPromised, SlotReturned, SlotTaken, quota_stream
from betimes.runs.model import (
    RunAdmitted,
    RunAllowed,
    RunDeferred,
    RunRefused,
    RunSkipped,
    TriggerOutcome,
    WaitingTrigger,
    WouldRun,
)
from betimes.runs.policy import RunsPolicy
from betimes.runs.rules import ADMISSION, DecisionCostGateInput, slot_needed, would_pass_at
from betimes.runs.run_effects import (
    decision_hooks,
    deferred_hooks,
    end_notice,
    handler_call,
    handler_kind,
    handler_name,
)

WAITING_MAX = 64


def judge_trigger(request: AdmissionRequest) -> Decision:
    """Judge a trigger against the state before it, and do what the verdict says."""
    case = gate_input(request)
    verdict = ADMISSION.judge(case)
    if (passes_at := would_pass_at(case, verdict)) is not None:
        verdict = replace(verdict, would_pass_at=passes_at)
    # A trigger has one retry, and an account so much room to wait: what waits is bounded whatever the policy says.
    if verdict.answer == "LATER" and (request.stage == "deferred" or _is_full(request)):
        verdict = exhaust_retry(verdict)
    if request.shadow:
        return _judge_in_shadow(request, case, verdict)
    if verdict.answer == "NOW":
        return allow_run(request, verdict, charged=True)
    if verdict.answer == "LATER":
        return _defer_run(request, case, verdict)
    return skip_run(request, verdict)


def exhaust_retry(verdict: Verdict) -> Verdict:
    """Turn a postponement for which there is no retry left, or no room to wait, into a refusal."""
    return replace(verdict, answer="NEVER", reasons=("RETRY_EXHAUSTED", *verdict.reasons), until=None)


def _is_full(request: AdmissionRequest) -> bool:
    return request.stage == "new" and len(request.account.waiting) >= WAITING_MAX


def allow_run(
    request: AdmissionRequest,
    verdict: Verdict,
    *,
    charged: bool,
    and_then: tuple[Event, ...] = (),
    promised: tuple[QuotaEvents, ...] = (),
    promised_at: Instant | None = None,
) -> Decision:
    """Start the run. In shadow mode the verdict is what would have been, and is not enforced."""
    trigger, run, before = request.trigger, request.run, request.run_before
    # Whatever the account still remembers of its keys, the run's own state says that it was admitted once.
    if before is not None and before.status != "asked":
        return skip_run(request, Verdict("NEVER", ("DUPLICATE_IDEMPOTENCY_KEY",), ADMISSION.name, trace=verdict.trace))
    enforced, shadow = (_pass_all(verdict), verdict) if request.shadow else (verdict, None)
    event = RunAllowed(trigger.key, trigger.trigger_type, run.id, request.now, charged, request.retry_key)
    call = handler_call(request.stream, trigger, run, request.entry.handler, request.policy)
    return Decision(
        (event, *and_then),
        also={run: (_admit(request),), **_quota_events(request, charged=charged, promised=promised)},
        effects=(*request_hooks(request), *call),
        verdict=enforced,
        reply=TriggerOutcome("allowed", run.id, shadow),
        promised_at=promised_at,
    )


def _admit(request: AdmissionRequest) -> RunAdmitted:
    """Return the first event of a run that the gate let through."""
    trigger, now, handler = request.trigger, request.now, request.entry.handler
    return RunAdmitted(
        request.stream.id,
        trigger.trigger_type,
        trigger.key,
        handler_kind(handler),
        trigger.segments,
        now + request.policy[RunsPolicy].start_deadline_seconds * SECOND,
        now,
        handler_name(handler),
        trigger.correlation,
    )


def _pass_all(verdict: Verdict) -> Verdict:
    """Return what shadow mode enforces: everything passes, and the trace says which rule would have matched."""
    trace = tuple(replace(step, shadow=step.reason is not None) for step in verdict.trace)
    return Verdict(ADMISSION.otherwise.answer, (ADMISSION.otherwise.reason,), ADMISSION.name, trace=trace)


def _defer_run(request: AdmissionRequest, case: DecisionCostGateInput, verdict: Verdict) -> Decision:
    waiting = _await_retry(request, case, verdict)
    return Decision(
        (RunDeferred(waiting, request.now),),
        also=_quota_events(request, promised=_promise_slot(request, waiting)),
        effects=(*request_hooks(request), *deferred_hooks(request.stream, waiting, request.policy, request.now)),
        verdict=verdict,
        reply=TriggerOutcome("deferred", request.run.id),
        promised_at=waiting.until_at,
    )


def _await_retry(request: AdmissionRequest, case: DecisionCostGateInput, verdict: Verdict) -> WaitingTrigger:
    """Return the trigger as it waits for its one retry."""
    until_at, shadow = verdict.until, request.shadow
    assert until_at is not None
    # A slot is promised only where the tenant is short of them; else the retry takes what is free by then.
    slot_at = None if slot_needed(case) is None else until_at
    reason = verdict.reasons[0]
    return replace(request.trigger, until_at=until_at, reason=reason, held=False, shadow=shadow, slot_at=slot_at)


def _promise_slot(request: AdmissionRequest, waiting: WaitingTrigger) -> tuple[QuotaEvents, ...]:
    return () if waiting.slot_at is None else (SlotPromised(waiting.trigger_type, waiting.slot_at, request.now),)


def skip_run(request: AdmissionRequest, verdict: Verdict) -> Decision:
    """Start nothing, and notify the schedule or sensor that requested the run."""
    trigger, before = request.trigger, request.run_before
    reason, effects = verdict.reasons[0], request_hooks(request)
    also = _quota_events(request)
    # Whoever asked for the run by its id waits for its end, so a run that never starts ends as well.
    if trigger.asked and (before is None or before.status == "asked"):
        run = request.run
        also[run] = (RunRefused(reason, request.now),)
        effects += end_notice(run, before, "skipped", reason)
    event = RunSkipped(trigger.key, trigger.trigger_type, reason, request.now, request.retry_key)
    return Decision((event,), also=also, effects=effects, verdict=verdict, reply=TriggerOutcome("skipped"))


def _judge_in_shadow(request: AdmissionRequest, case: DecisionCostGateInput, verdict: Verdict) -> Decision:
    """Record and charge the verdict as it would have been; a new trigger's run starts whatever it is."""
    trigger, now, charged = request.trigger, request.now, verdict.answer == "NOW"
    if verdict.answer == "LATER":
        return _defer_in_shadow(request, _await_retry(request, case, verdict), verdict)
    if request.stage == "new":
        return allow_run(request, verdict, charged=charged)
    would = WouldRun(trigger.key, trigger.trigger_type, verdict.reasons[0], charged, now, request.retry_key)
    return Decision((would,), also=_quota_events(request, charged=charged), verdict=verdict)


def _defer_in_shadow(request: AdmissionRequest, waiting: WaitingTrigger, verdict: Verdict) -> Decision:
    """Let the trigger wait as it would have; if it is new, its run starts all the same."""
    deferred, promised = (RunDeferred(waiting, request.now),), _promise_slot(request, waiting)
    until_at = waiting.until_at
    if request.stage == "new":
        return allow_run(request, verdict, charged=False, and_then=deferred, promised=promised, promised_at=until_at)
    return Decision(deferred, also=_quota_events(request, promised=promised), verdict=verdict, promised_at=until_at)


def _quota_events(
    request: AdmissionRequest, *, charged: bool = False, promised: tuple[QuotaEvents, ...] = ()
) -> dict[StreamId, tuple[Event, ...]]:
    """Return the changes of the tenant's counters: a promise given back, a slot taken, a new promise."""
    trigger, runs, now = request.trigger, request.policy[RunsPolicy], request.now
    events: list[Event] = []
    # Given back first: a promised slot must not count against the very run it was promised to.
    if trigger.slot_at is not None:
        events.append(SlotReturned(trigger.trigger_type, trigger.slot_at, now))
    if charged and runs.shares_quota:
        capped = runs.counts_for_tenant(request.entry)
        events.append(SlotTaken(trigger.trigger_type, now, capped, request.kept_slot_at))
    events += promised
    return {quota_stream(request.stream.tenant): tuple(events)} if events else {}


def request_hooks(request: AdmissionRequest) -> tuple[Effect, ...]:
    """Return the hooks to call when a schedule or a retry asks for a run, whatever the answer."""
    trigger = request.trigger
    key = request.retry_key or (trigger.key if trigger.asked and request.stage == "new" else None)
    # What waits in shadow mode has had its run, and the hooks of it.
    if key is None or trigger.shadow:
        return ()
    return decision_hooks(request.stream, trigger, key, request.policy, request.now)
