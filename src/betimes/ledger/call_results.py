"""Results of calls: how the handlers, webhooks and deliveries of a decision went, and what those not yet made wait for.

A decision is final when it is committed, the call it asked for is not: it may fail and be tried again, be held with its
domain, or wait for a process that has its executor. Only pending calls cost a further read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from betimes.core.errors import MissingScope
from betimes.domain.derivation import derive
from betimes.domain.hold_view import HoldView
from betimes.domain.json_view import JsonView
from betimes.engine.orphans import spell_start
from betimes.ledger.effects import EffectView
from betimes.ledger.fleet import EXECUTORS_MAX
from betimes.ledger.service import Ledger

ERROR_CHARS_MAX = 300
CALLS = frozenset({"handler", "run_handler", "webhook"})
"""Kinds of effects that call something outside; deliveries are told of with their notifications."""


class ResultView(JsonView, frozen=True, kw_only=True):
    """The result of one thing that was decided on."""

    key: str
    """The event id or key of its request; of a call, the id of its effect."""
    status: str
    """That of the notification, the run or the call; `partly_delivered` where one channel delivered and another did
    not, or not yet."""
    channel: str | None = None
    """Of a delivery that is not made."""
    target: str | None = None
    """Of a call: what is called, such as `handler schedule.morning`."""
    error: str | None = None
    attempts: int = 0
    """Of a call or a delivery that is not made."""
    next_attempt_at: datetime | None = None
    held_until: datetime | None = None
    """When the hold ends that keeps it."""
    held_because: str | None = None
    waits_for: str | None = None
    """The executor that no living process has."""


class Circumstances(msgspec.Struct, frozen=True):
    """The conditions of pending calls: the hold in force, and the executors of running processes."""

    hold: HoldView | None
    executors: frozenset[str] | None
    """`None` where they are not known."""

    def apply_to(self, result: ResultView, effect: EffectView) -> ResultView:
        """Return the result with what its pending call waits for."""
        if self.hold and effect.domain in self.hold.domains:
            return msgspec.structs.replace(result, held_until=self.hold.until, held_because=self.hold.reason)
        if self.executors is not None and effect.executor not in self.executors:
            return msgspec.structs.replace(result, waits_for=effect.executor)
        return result


async def read_circumstances(ledger: Ledger, effects: Sequence[EffectView]) -> Circumstances:
    """Return what the pending ones of these calls depend on; without any, nothing is read."""
    if not any(effect.status == "pending" for effect in effects):
        return Circumstances(None, None)
    return Circumstances((await ledger.backlog()).hold, await _read_executors(ledger))


async def _read_executors(ledger: Ledger) -> frozenset[str] | None:
    with suppress(MissingScope):  # a server tells its processes only to administrators
        alive = [process.executors for process in (await ledger.processes()).items if process.alive]
        # A process tells so many of its executors, and may have more.
        if all(len(executors) < EXECUTORS_MAX for executors in alive):
            return frozenset(name for executors in alive for name in executors)
    return None


def call_result(effect: EffectView, circumstances: Circumstances) -> ResultView:
    """Return how a call went so far."""
    noun = "webhook" if effect.effect_kind == "webhook" else "handler"
    target, error = f"{noun} {effect.target}", effect.last_error
    result = derive(ResultView, effect, key=effect.effect_id, target=target, error=error)
    return circumstances.apply_to(result, effect) if effect.status == "pending" else result


def spell_call(result: ResultView, spell_time: Callable[[datetime], str]) -> str:
    """Return the end of a sentence about a decision: how its call went."""
    called, error = f"its {result.target}", shorten_error(result.error)
    match result.status:
        case "done":
            return f", and {called} succeeded"
        case "dead":
            retried = f"`betimes effects retry {result.key}` tries again"
            return f", but {called} failed {spell_times(result.attempts)} and is a dead letter: {error}; {retried}"
        case "failed":
            return f", but {called} failed: {error}"
        case _:
            pass
    if waiting := spell_waiting(result, spell_time):
        return f", but {called} {waiting}"
    return f", and {called} is being called"


def spell_waiting(result: ResultView, spell_time: Callable[[datetime], str]) -> str:
    """Return why a call is not made yet: how it failed, and the hold, process or instant it waits for."""
    failed = ""
    if result.error:
        last = "last " if result.attempts > 1 else ""
        failed = f"has failed {spell_times(result.attempts)}, {last}with {shorten_error(result.error)}; "
    it = "it " if failed else ""
    if result.held_until:
        return f"{failed}{it}is held until {spell_time(result.held_until)} ({result.held_because})"
    if result.waits_for:
        start = spell_start(result.waits_for)
        return f"{failed}{it}waits for a process that has {result.waits_for} ({start})"
    if failed and result.next_attempt_at:
        return f"{failed}the next attempt is at {spell_time(result.next_attempt_at)}"
    return failed.removesuffix("; ")


def spell_times(count: int) -> str:
    return "once" if count <= 1 else f"{count:,} times"


def shorten_error(error: str | None) -> str:
    """Return an error on one line, without the end of its sentence."""
    return " ".join((error or "no error was given").split())[:ERROR_CHARS_MAX].rstrip(". ")
