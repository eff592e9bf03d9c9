"""Trailing debounce: hold the triggers of a burst, and judge one of them when the burst is over.

The first of a burst waits until no more come; the others join it and share its run. The hold is not the retry: the
judgement at its end is the trigger's first, and may postpone it once like any other.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from betimes.core.deciders import Decision, Event
from betimes.core.instants import SECOND, Instant
from betimes.core.verdicts import Step, Verdict
from betimes.runs.admission import WAITING_MAX, allow_run, exhaust_retry, request_hooks, skip_run
from betimes.runs.admission_request import AdmissionRequest, gate_input
from betimes.runs.model import (
    AccountState,
    BurstShortened,
    RunDeferred,
    TriggerJoined,
    TriggerOutcome,
    WaitingTrigger,
    run_id_of,
)
from betimes.runs.policy import Entry
from betimes.runs.rules import ADMISSION, would_pass_at
from betimes.runs.run_effects import deferred_hooks

PAYLOADS_KEPT_MAX = 100
"""Payloads that the run after a burst sees at most; the newest are kept."""


def debounce_trigger(request: AdmissionRequest) -> Decision:
    """Hold the first trigger of a burst; let any other join the one that waits."""
    waiting = next((other for other in request.account.waiting if _can_join(request, other)), None)
    return _join_burst(request, waiting) if waiting else _hold_first(request)


def _can_join(request: AdmissionRequest, waiting: WaitingTrigger) -> bool:
    # A trigger that waits in shadow mode has run already and starts nothing, so nobody can share its run.
    return waiting.trigger_type == request.trigger.trigger_type and waiting.shadow == request.shadow


def _hold_first(request: AdmissionRequest) -> Decision:
    now, until_at = request.now, request.now + request.entry.debounce_seconds * SECOND
    held = replace(request.trigger, until_at=until_at, reason="DEBOUNCED", held=True, shadow=request.shadow)
    verdict = _debounce_verdict(request, held)
    if len(request.account.waiting) >= WAITING_MAX:
        full = exhaust_retry(verdict)
        return allow_run(request, full, charged=False) if request.shadow else skip_run(request, full)
    return _wait_in_burst(request, RunDeferred(held, now), held, verdict, "deferred")


def _join_burst(request: AdmissionRequest, waiting: WaitingTrigger) -> Decision:
    """Share the run of the first, which may have to wait a little longer."""
    trigger, entry = request.trigger, request.entry
    # Triggers may come out of order; the run sees the newest, not the last to come.
    is_older = trigger.newest_at < waiting.newest_at
    if entry.debounce_keep == "all":
        segments = (*waiting.segments, *trigger.segments)[-PAYLOADS_KEPT_MAX:]
    else:
        segments = waiting.segments if is_older else trigger.segments
    newest_at = max(waiting.newest_at, trigger.newest_at)
    # What the gate has deferred keeps the instant it was promised; only a burst grows.
    until_at = _burst_end(waiting, entry, request.now) if waiting.held else waiting.until_at
    joined = replace(waiting, segments=segments, newest_at=newest_at, until_at=until_at)
    event = TriggerJoined(trigger.key, waiting.key, joined, request.now)
    return _wait_in_burst(request, event, joined, _debounce_verdict(request, joined), "joined")


def _burst_end(waiting: WaitingTrigger, entry: Entry, now: Instant) -> Instant:
    """Return when a burst ends whose last trigger comes now."""
    until_at = now + entry.debounce_seconds * SECOND
    if entry.debounce_max_wait_seconds is None:
        return until_at
    return min(until_at, waiting.first_at + entry.debounce_max_wait_seconds * SECOND)


def shorten_bursts(account: AccountState | None, registry: dict[str, Entry], now: Instant) -> Decision:
    """After a policy change, end each burst as if its last trigger came now, if that is sooner."""
    shortened = []
    for waiting in account.waiting if account else ():
        entry = registry.get(waiting.trigger_type)
        # A retry stays where it is: it is the only one, and sooner it might be refused where it would have passed.
        if waiting.held and entry and (until_at := max(now, _burst_end(waiting, entry, now))) < waiting.until_at:
            shortened.append(BurstShortened(waiting.key, until_at))
    return Decision(tuple(shortened))


def _debounce_verdict(request: AdmissionRequest, waiting: WaitingTrigger) -> Verdict:
    """Return the verdict on a trigger of a burst: it passes as soon as the gate lets the one that waits pass."""
    step = Step("debounce", "DEBOUNCED", (0, request.entry.debounce_seconds))
    case = gate_input(replace(request, trigger=waiting, now=waiting.until_at))
    judgement = ADMISSION.judge(case)
    passes_at = waiting.until_at if judgement.answer == "NOW" else would_pass_at(case, judgement)
    return Verdict("LATER", (waiting.reason,), ADMISSION.name, waiting.until_at, passes_at, (step,))


def _wait_in_burst(
    request: AdmissionRequest,
    event: Event,
    waiting: WaitingTrigger,
    verdict: Verdict,
    status: Literal["deferred", "joined"],
) -> Decision:
    """Let a trigger wait as part of a burst; in shadow mode its own run starts all the same."""
    until_at = waiting.until_at
    if request.shadow:
        return allow_run(request, verdict, charged=False, and_then=(event,), promised_at=until_at)
    run_id = run_id_of(request.stream.tenant, waiting.key)
    hooks = deferred_hooks(request.stream, replace(request.trigger, until_at=until_at), request.policy, request.now)
    return Decision(
        (event,),
        effects=(*request_hooks(request), *hooks),
        verdict=verdict,
        reply=TriggerOutcome(status, run_id),
        promised_at=until_at,
    )
