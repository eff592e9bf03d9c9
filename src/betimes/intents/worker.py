"""The built-in worker: it claims due intents, evaluates their conditions, asks the gate, acts, and fires.

    worker = IntentWorker(engine, name="worker-1", sources={"price": price}, handlers={"briefing": brief})
    await worker.once()            # one bounded pass, for a tick
    await worker.run()             # until cancelled

It takes only what it can carry out to the end: an intent whose type or condition needs a source that it has not, whose
action it has neither a handler nor a channel for, or which is for workers outside, stays in `pending` for whoever can.

Any number of workers may run, in any number of processes. While one works its claim is renewed; if the claim is lost
all the same, because the process was stopped for longer, the work is dropped and nothing is reported. A worker whose
work is quick claims ahead of its places (`claim_stock`). One that dies leaves claims that run out. An error of a
handler is a failed execution; an error of a source is the source's own failure: the intent waits for it, and its
failures do not count it.

A handler may be called twice for one check, when its worker dies or loses its claim after the call and before the
report; its `action_id` is the same both times. A notification is not sent twice: its event id is the action's.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from betimes.core.errors import BetimesError, Refused
from betimes.core.instants import SECOND, Instant
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine, stop_tasks
from betimes.engine.jobs import Submission
from betimes.engine.reports import Report, Reporter, guard_reporter, log_report
from betimes.intents.actions import (
    Acting,
    Handler,
    HasChannel,
    action_of,
    any_channel,
    condition_text,
    elapsed_ms,
    story_of,
)
from betimes.intents.claim_stock import ClaimStock
from betimes.intents.claimer import CLAIMS_MAX, Claimer, ClaimOver, HeldClaim
from betimes.intents.conditions import askable, sources_of
from betimes.intents.due import AT_LEAST, DueIntents
from betimes.intents.expressions import CannotTell
from betimes.intents.lists import statuses
from betimes.intents.model import AwaitSource, ClaimIntent, Definition, FireIntent, ReleaseClaim, RenewClaim
from betimes.intents.sources import Source, SourceFailed, Sources

ERROR_CHARS_MAX = 2_000
SOURCE_ERROR_CHARS_MAX = 500
REPORTS_MAX = 2
"""For each place, how many intents may be worked on and not reported."""
REPORTS_AT_LEAST = 64
"""The same for however few places: quick work is reported while the next is done, and a commit takes many reports."""
PASSES_AHEAD = 4
"""For so many passes one look at what is due suffices."""


class IntentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the built-in worker."""

    worker: Literal["on", "off"] = "on"
    """`off`: workers outside take all of them, those that go by the clock too."""
    source_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=300)] = 10.0
    """How long a source is waited for, whatever it is."""


class Places:
    """Places of a worker. One is free again once its work is done: its report and the next claim go together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.free = most
        self.freed = asyncio.Event()
        """Set when one is given back."""

    @property
    def are_taken(self) -> bool:
        return self.free < self._most

    def take(self) -> Callable[[], None]:
        """Take a place; return how to give it back."""
        self.free -= 1
        return self._give_back

    def _give_back(self) -> None:
        self.free += 1
        self.freed.set()

    async def wait_for_one(self, most_s: float) -> None:
        """Wait until one is given back, but no longer than so many seconds."""
        # Awaited here and by no task in between: whoever waits claims before the queue has taken the report.
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self.freed.wait()


class IntentWorker:
    """Works off due intents of one tenant, or of all."""

    def __init__(
        self,
        engine: Engine,
        *,
        name: str,
        sources: Mapping[str, Source] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        has_channel: HasChannel = any_channel,
        tenant: str | None = None,
        at_once: int = 16,
        lease_s: int | None = None,
        source_timeout_s: float = 10.0,
        poll_s: float = 1.0,
        report: Reporter = log_report,
    ) -> None:
        self._engine = engine
        self._name = name
        self._sources = Sources(engine, sources or {}, source_timeout_s)
        self._acting = Acting(engine, handlers or {}, name, has_channel)
        self._due = DueIntents(
            engine, tenant, self._statuses(), self._carries_out, name=name, ahead=max(AT_LEAST, PASSES_AHEAD * at_once)
        )
        self._at_once = at_once
        self._poll_s = poll_s
        self._report = guard_reporter(report)
        command = ClaimIntent(name, lease_s, among_many=True, builtin=True)
        self._claimer = Claimer(engine, self._due, command, self._report)
        self._stock = ClaimStock(engine, self._claimer, name, self._report)

    async def once(self, limit: int = CLAIMS_MAX, max_s: float | None = None) -> Counter[str]:
        """Claim what is due, up to a limit, finish it, and return how many ended in which way.

        After `max_s` seconds no more is claimed, and what is under way is given back.
        """
        # A pass takes what is due now, not what one before it found.
        self._due.forget_found()
        ends: Counter[str] = Counter()
        loop = asyncio.get_running_loop()
        ends_s = None if max_s is None else loop.time() + max_s
        try:
            while limit > 0 and (ends_s is None or loop.time() < ends_s):
                if not (claimed := await self._claim(min(limit, self._at_once))):
                    break
                limit -= len(claimed)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(ends_s):
                        await self._work_all(claimed, ends)
        except asyncio.CancelledError:
            await self._stock.give_back()
            raise
        return ends

    async def _work_all(self, claimed: list[HeldClaim], ends: Counter[str]) -> None:
        """Work on these at once and count how they end; if cancelled, only those that have ended."""
        tasks = [asyncio.create_task(self._work(held)) for held in claimed]
        try:
            await asyncio.wait(tasks)
        finally:
            await stop_tasks(tasks)
            ends.update(task.result() for task in tasks if not task.cancelled())

    async def run(self) -> None:
        """Work until cancelled; what is under way then is given back."""
        running: set[asyncio.Task[str]] = set()
        places, reports_max = Places(self._at_once), max(REPORTS_MAX * self._at_once, REPORTS_AT_LEAST)
        try:
            while True:
                wanted = places.free
                places.freed.clear()
                claimed = await self._take_or_report(wanted) if wanted else []
                running |= {asyncio.create_task(self._work(held, places.take())) for held in claimed}
                # Whoever got as many as they asked for may find more, and asks again at once.
                if not wanted or (places.are_taken and len(claimed) < wanted):
                    await places.wait_for_one(self._poll_s)
                elif not claimed:
                    await asyncio.sleep(await self._rest_s())
                running = {task for task in running if not task.done()}
                # A place is free once its check is done; those that still report are bounded here.
                if len(running) > reports_max:
                    await asyncio.wait(running, timeout=self._poll_s, return_when=asyncio.FIRST_COMPLETED)
                await self._stock.give_back_lapsed()
        finally:
            await stop_tasks(running)
            await self._stock.give_back()

    async def _take_or_report(self, limit: int) -> list[HeldClaim]:
        self._acting.forget_policies()
        try:
            return await self._stock.take(limit)
        except BetimesError as error:
            self._report(Report("intents_not_claimed", self._name, error))
            return []

    async def _rest_s(self) -> float:
        """Return the seconds until the next intent is due, as far as is known here, but no longer than the poll."""
        try:
            now, due_at = await self._engine.store.now(), await self.next_due_at()
        except BetimesError:
            return self._poll_s
        return self._poll_s if due_at is None else min(max((due_at - now) / SECOND, 0.01), self._poll_s)

    # -- claims

    async def next_due_at(self) -> Instant | None:
        """Return when there is something to do, as far as is known: what is left to others does not count."""
        self._acting.forget_policies()
        return await self._due.next_at()

    def _statuses(self) -> tuple[str, ...]:
        """Return those of intents it may be able to carry out: what needs a source it has not is left out."""
        return statuses(None, True, ("any", "builtin"), self._sources.names)

    async def _carries_out(self, stream: StreamId, definition: Definition) -> bool:
        """Return whether this worker has all that the intent needs."""
        condition = askable(definition)
        if condition is not None and not sources_of(condition.needs) <= self._sources.names:
            return False
        return await self._acting.can_act(stream.tenant, definition)

    async def _claim(self, limit: int) -> list[HeldClaim]:
        self._acting.forget_policies()
        return await self._claimer.claim(limit)

    async def _work(self, held: HeldClaim, give_back: Callable[[], None] = lambda: None) -> str:
        """Work on one claimed intent until it is reported, and return how it ended; give its place back before that."""
        work = asyncio.create_task(self._carry_out(held))
        renewing = asyncio.create_task(self._renew(held))
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            give_back()
            return await self._fire(held, work.result()) if work.done() else "claim_lost"
        except ClaimOver:
            return "claim_lost"
        except asyncio.CancelledError:
            await stop_tasks((work, renewing))  # first, so that nobody takes over what is still being done
            # What is done is reported even so, or the next worker would do it once more.
            if not work.cancelled() and work.exception() is None:
                return await self._fire(held, work.result())
            await self._release(held)
            raise
        finally:
            await stop_tasks((work, renewing))

    async def _renew(self, held: HeldClaim) -> None:
        """Renew the claim until it is lost."""
        while True:
            await asyncio.sleep(held.lease_s / 3)
            # Taken before asking: the renewed claim lasts at least so long from here.
            asked_s = asyncio.get_running_loop().time()
            try:
                await self._submit(held.stream, RenewClaim(held.token, held.lease_s))
                held.renew(asked_s)
            except Refused:
                return
            except BetimesError as error:
                self._report(Report("claim_not_renewed", str(held.stream), error))

    async def _release(self, held: HeldClaim) -> None:
        try:
            await self._submit(held.stream, ReleaseClaim(held.token))
        except BetimesError as error:
            self._report(Report("claim_not_released", str(held.stream), error))

    async def _fire(self, held: HeldClaim, report: FireIntent | AwaitSource) -> str:
        stream, story = held.stream, story_of(held.stream, held.intent, held.segment_id)
        try:
            recorded = await self._submit(stream, report, **story)
        except Refused:
            return "claim_lost"
        except BetimesError as error:
            self._report(Report("fire_failed", str(stream), error))
            return "unreported"
        return "waiting_for_source" if isinstance(report, AwaitSource) else str(recorded.reply.status)

    async def _submit(self, stream: StreamId, command: Any, **story: str) -> Recorded:
        return await self._engine.submit(Submission(stream=stream, command=command, actor=self._name, **story))

    # -- one intent

    async def _carry_out(self, held: HeldClaim) -> FireIntent | AwaitSource:
        try:
            return await self._outcome(held)
        except ClaimOver:
            raise
        except SourceFailed as error:
            self._report(Report("source_failed", f"{error.source} of {held.stream}", error))
            return AwaitSource(held.token, error.source, _describe_error(error)[:SOURCE_ERROR_CHARS_MAX])
        except Exception as error:  # noqa: BLE001 — whatever a handler raises is a failed execution
            self._report(Report("intent_failed", str(held.stream), error))
            return FireIntent(status="failed", claim_token=held.token, error_message=_describe_error(error))

    async def _outcome(self, held: HeldClaim) -> FireIntent:
        """Check the condition, ask the gate and act; return the report."""
        report, holds = await self._evaluate(held)
        if not holds:
            return report
        action = action_of(held.stream, held.intent, report.trigger_data or {})
        # Asked again before each step that others notice: a source may have taken longer than the claim lasts.
        held.demand_alive()
        story = story_of(held.stream, held.intent, held.segment_id)
        gate_result = await self._acting.gate(held.intent.definition, action, story)
        report = replace(report, gate_result=gate_result)
        if gate_result is not None and gate_result["result"] != "ALLOW":
            return replace(report, status="gate_blocked")
        held.demand_alive()
        done = await self._acting.act(action, story)
        seen = action.trigger_data
        return replace(
            report,
            status="success",
            message_id=done.message_id,
            trigger_data=seen if done.outcome is None else {**seen, "notification": done.outcome},
            message_preview=done.message_preview and _storable(done.message_preview),
            generation_ms=done.generation_ms,
            delivery_ms=done.delivery_ms,
        )

    async def _evaluate(self, held: HeldClaim) -> tuple[FireIntent, bool]:
        """Return the report of a condition that is not met, and whether it is met."""
        begun_s = time.perf_counter()
        condition = askable(held.intent.definition)
        needs = condition.needs if condition else ()
        values = await self._sources.values(needs, held.stream, held.intent, held.claimed_at)
        try:
            holds = condition is None or condition.holds(values)
        except CannotTell as error:
            raise SourceFailed(min(sources_of(needs)), str(error)) from error
        seen = {name: _json_number(value) for name, value in values.items()}
        took_ms = elapsed_ms(begun_s)
        report = FireIntent(
            status="condition_not_met",
            claim_token=held.token,
            trigger_data=seen,
            evaluation_ms=took_ms,
            condition=None if holds else condition_text(held.intent.definition),
        )
        return report, holds


def _json_number(value: Decimal) -> float | int:
    return int(value) if value == value.to_integral_value() else float(round(value, 6))


def _describe_error(error: Exception) -> str:
    try:
        told = str(error) if isinstance(error, BetimesError) else repr(error)
    except Exception:  # noqa: BLE001 — an error that cannot say what it is
        told = type(error).__name__
    return _storable(told[:ERROR_CHARS_MAX])


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
