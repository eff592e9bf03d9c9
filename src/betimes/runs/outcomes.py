"""What a judgement leads to: the run starts, its trigger waits, or nothing comes of it.

A verdict charges windows and budgets only when it admits. In shadow mode a new trigger's run starts whatever the
verdict, and what would have been is recorded and charged as it would be.
"""

from __future__ import annotations

from msgspec.structs import replace

from betimes.core.deciders import Decision, Effect, Event
from betimes.core.instants import SECOND, Instant
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.runs.admission_request import Asking, case_of
from betimes.runs.counters import QuotaEvents, SlotPromised, SlotReturned, SlotTaken, quota_stream
from betimes.runs.gate import ADMISSION, DecisionCostGateInput, slot_needed, would_pass_at
from betimes.runs.model import Due, Outcome, RunAdmitted, RunAllowed, RunDeferred, RunRefused, RunSkipped, WouldRun
from betimes.runs.policy import RunsPolicy, counts_for_tenant, shares_quota
from betimes.runs.run_effects import (
    decision_hooks,
    deferred_hooks,
    handler_call,
    handler_kind,
    handler_name,
    refusal_news,
)

WAITING_MAX = 64


def judged(asking: Asking) -> Decision:
    """Judge a trigger against the state before it, and do what the verdict says."""
    case = case_of(asking)
    verdict = ADMISSION.judge(case)
    verdict = replace(verdict, would_pass_at=would_pass_at(case, verdict))
    if verdict.answer == "LATER" and (asking.stage == "deferred" or _is_full(asking)):
        verdict = exhausted(verdict)
    if asking.shadow:
        return _shadowed(asking, case, verdict)
    if verdict.answer == "NOW":
        return allowed(asking, verdict, charged=True)
    if verdict.answer == "LATER":
        return _deferred(asking, case, verdict)
    return refused(asking, verdict)


def exhausted(verdict: Verdict) -> Verdict:
    """A postponement for which there is no retry left, or no room to wait."""
    return replace(verdict, answer="NEVER", reasons=("RETRY_EXHAUSTED", *verdict.reasons), until=None)


def _is_full(asking: Asking) -> bool:
    return asking.stage == "new" and len(asking.account.waiting) >= WAITING_MAX


def allowed(
    asking: Asking,
    verdict: Verdict,
    *,
    charged: bool,
    and_then: tuple[Event, ...] = (),
    promised: tuple[QuotaEvents, ...] = (),
    promised_at: Instant | None = None,
) -> Decision:
    """The run starts. In shadow mode the verdict is what would have been, and whatever it says is not enforced."""
    due, now, run, policy = asking.due, asking.now, asking.run, asking.policy
    before = asking.run_before
    if before is not None and before.status != "asked":
        return refused(asking, Verdict("NEVER", ("DUPLICATE_IDEMPOTENCY_KEY",), ADMISSION.name, trace=verdict.trace))
    handler = asking.entry.handler
    start_by_at = now + policy[RunsPolicy].start_deadline_seconds * SECOND
    admitted = RunAdmitted(
        asking.stream.id,
        due.trigger_type,
        due.key,
        handler_kind(handler),
        due.segments,
        start_by_at,
        now,
        handler_name(handler),
        due.correlation,
    )
    effects = (*asked_hooks(asking), *handler_call(asking.stream, due, run, handler, policy))
    enforced, shadow = (_enforced(verdict), verdict) if asking.shadow else (verdict, None)
    return Decision(
        (RunAllowed(due.key, due.trigger_type, run.id, now, charged, asking.retry_key), *and_then),
        also={run: (admitted,), **_quota(asking, charged=charged, promised=promised)},
        effects=effects,
        verdict=enforced,
        reply=Outcome("allowed", run.id, shadow),
        promised_at=promised_at,
    )


def _enforced(verdict: Verdict) -> Verdict:
    """What shadow mode does instead: everything passes, and the trace says which rule would have matched."""
    trace = tuple(replace(step, shadow=step.reason is not None) for step in verdict.trace)
    return Verdict(ADMISSION.otherwise.answer, (ADMISSION.otherwise.reason,), ADMISSION.name, trace=trace)


def _deferred(asking: Asking, case: DecisionCostGateInput, verdict: Verdict) -> Decision:
    due = _postponed(asking, case, verdict)
    return Decision(
        (RunDeferred(due, asking.now),),
        also=_quota(asking, promised=_promise(asking, due)),
        effects=(*asked_hooks(asking), *deferred_hooks(asking.stream, due, asking.policy, asking.now)),
        verdict=verdict,
        reply=Outcome("deferred", asking.run.id),
        promised_at=due.until_at,
    )


def _postponed(asking: Asking, case: DecisionCostGateInput, verdict: Verdict) -> Due:
    assert verdict.until is not None
    slot_at = None if slot_needed(case) is None else verdict.until
    return replace(
        asking.due, until_at=verdict.until, reason=verdict.reasons[0], held=False, shadow=asking.shadow, slot_at=slot_at
    )


def _promise(asking: Asking, due: Due) -> tuple[QuotaEvents, ...]:
    return () if due.slot_at is None else (SlotPromised(due.trigger_type, due.slot_at, asking.now),)


def refused(asking: Asking, verdict: Verdict) -> Decision:
    """Nothing comes of it; whoever asked for the run is told."""
    due, run, before, now, reason = asking.due, asking.run, asking.run_before, asking.now, verdict.reasons[0]
    also, news = _quota(asking), []
    if due.asked and (before is None or before.status == "asked"):
        also[run] = (RunRefused(reason, now),)
        news = refusal_news(run, before, reason)
    event = RunSkipped(due.key, due.trigger_type, reason, now, asking.retry_key)
    effects = (*asked_hooks(asking), *news)
    return Decision((event,), also=also, effects=effects, verdict=verdict, reply=Outcome("skipped"))


def _shadowed(asking: Asking, case: DecisionCostGateInput, verdict: Verdict) -> Decision:
    """Judged, recorded and charged as it would be; a new trigger's run starts whatever the verdict."""
    due, now, charged = asking.due, asking.now, verdict.answer == "NOW"
    postponed = _postponed(asking, case, verdict) if verdict.answer == "LATER" else None
    if asking.stage == "new":
        if postponed is None:
            return allowed(asking, verdict, charged=charged)
        return allowed(
            asking,
            verdict,
            charged=False,
            and_then=(RunDeferred(postponed, now),),
            promised=_promise(asking, postponed),
            promised_at=postponed.until_at,
        )
    if postponed is not None:
        also = _quota(asking, promised=_promise(asking, postponed))
        return Decision((RunDeferred(postponed, now),), also=also, verdict=verdict, promised_at=postponed.until_at)
    would = WouldRun(due.key, due.trigger_type, verdict.reasons[0], charged, now, asking.retry_key)
    return Decision((would,), also=_quota(asking, charged=charged), verdict=verdict)


def _quota(
    asking: Asking, *, charged: bool = False, promised: tuple[QuotaEvents, ...] = ()
) -> dict[StreamId, tuple[Event, ...]]:
    """What changes in the tenant's counters: a promise kept or given back, a slot taken, a new promise."""
    due, now, type = asking.due, asking.now, asking.due.trigger_type
    events: list[Event] = []
    if due.slot_at is not None:
        events.append(SlotReturned(type, due.slot_at, now))
    if charged and shares_quota(asking.policy[RunsPolicy]):
        capped = counts_for_tenant(asking.policy[RunsPolicy], asking.entry)
        events.append(SlotTaken(type, now, capped, asking.kept_slot_at))
    events += promised
    return {quota_stream(asking.stream.tenant): tuple(events)} if events else {}


def asked_hooks(asking: Asking) -> tuple[Effect, ...]:
    """Told when a schedule or a retry asks, whatever the answer."""
    key = asking.retry_key or (asking.due.key if asking.due.asked and asking.stage == "new" else None)
    if key is None or asking.due.shadow:
        return ()
    return decision_hooks(asking.stream, asking.due, key, asking.policy, asking.now)
