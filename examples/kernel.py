"""A timing rule of one's own on the betimes kernel, start to end: `python examples/kernel.py`.

An assistant may nudge a person at most once in two hours. A nudge that comes too soon is not dropped: it waits for its
time, survives restarts, and is never sent twice. Everything runs on an embedded SQLite file, in virtual time.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TypeAlias

import apsw
import msgspec

from betimes import (
    MINUTE,
    Call,
    Decider,
    Decision,
    EffectCall,
    Engine,
    Finding,
    Hit,
    Instant,
    Policy,
    Rule,
    RuleTable,
    Settled,
    StreamId,
    Submission,
    View,
    VirtualClock,
    Wake,
    explain,
    render,
    verify,
)
from betimes.stores.sqlite import SqliteStore

# What can be asked, what can happen, and what is remembered.


class Nudge(msgspec.Struct, frozen=True, tag=True):
    text: str


class Sent(msgspec.Struct, frozen=True, tag=True):
    text: str
    at: Instant


class Postponed(msgspec.Struct, frozen=True, tag=True):
    text: str
    until_at: Instant


class Delivered(msgspec.Struct, frozen=True, tag=True):
    status: str


Waiting: TypeAlias = tuple[tuple[Instant, str], ...]


class Person(msgspec.Struct, frozen=True):
    last_sent_at: Instant | None = None
    waiting: Waiting = ()
    delivered_count: int = 0


Events: TypeAlias = Sent | Postponed | Delivered


class NudgePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pause_minutes: int = 120


# The rule, and what follows from it. Nothing here knows the time: it is given.


class Case(msgspec.Struct, frozen=True):
    person: Person
    policy: NudgePolicy
    now: Instant


def pause(case: Case) -> Finding:
    """Counted from the last nudge, or from the last one that is already waiting for its time."""
    waiting, pause_minutes = case.person.waiting, case.policy.pause_minutes
    last = waiting[-1][0] if waiting else case.person.last_sent_at
    if last is None:
        return Finding((None, pause_minutes))
    ends_at = last + pause_minutes * MINUTE
    hit = Hit("LATER", "PAUSE", ends_at) if case.now < ends_at else None
    return Finding(((case.now - last) // MINUTE, pause_minutes), hit)


RULES: RuleTable[Case] = RuleTable(
    "nudges",
    (
        Rule(
            "pause",
            pause,
            ("elapsed", "pause"),
            "the last nudge was {elapsed} of {pause} minutes ago",
            passes="the last nudge was {elapsed} minutes ago; the pause is {pause}",
            absent="there was no nudge before",
        ),
    ),
    otherwise=Hit("NOW", "CLEAR"),
)


def decide(view: View[Person], command: Nudge | Wake | Settled, policy: Policy, now: Instant) -> Decision:
    person = view.state or Person()
    match command:
        case Nudge(text):
            verdict = RULES.judge(Case(person, policy[NudgePolicy], now))
            if verdict.answer == "LATER" and verdict.until is not None:
                return Decision((Postponed(text, verdict.until),), verdict=verdict, promised_at=verdict.until)
            return Decision((Sent(text, now),), verdict=verdict, effects=(deliver(view.stream, text),))
        case Wake():
            text = person.waiting[0][1]
            return Decision((Sent(text, now),), effects=(deliver(view.stream, text),))
        case Settled(status=status):
            return Decision((Delivered(status),))


def deliver(person: StreamId, text: str) -> Call:
    return Call("channel:console", {"text": text}, report_to=person)


def fold(state: Person | None, event: Events) -> Person:
    person = state or Person()
    match event:
        case Sent(text, at):
            return Person(at, without_first(text, person.waiting), person.delivered_count)
        case Postponed(text, until_at):
            return Person(person.last_sent_at, (*person.waiting, (until_at, text)), person.delivered_count)
        case Delivered():
            return Person(person.last_sent_at, person.waiting, person.delivered_count + 1)


def without_first(text: str, waiting: Waiting) -> Waiting:
    """Two nudges may say the same; one that is sent leaves the other waiting."""
    for place, item in enumerate(waiting):
        if item[1] == text:
            return waiting[:place] + waiting[place + 1 :]
    return waiting


def alarm(person: Person) -> Instant | None:
    return min((until_at for until_at, _ in person.waiting), default=None)


NUDGES: Decider[Person] = Decider(
    kind="person", state=Person, commands=Nudge, events=Events, decide=decide, fold=fold, alarm=alarm, tables=(RULES,)
)

# A day with it.

ANN = StreamId("demo", "person", "ann")


def engine_on(path: Path, clock: VirtualClock, name: str) -> Engine:
    async def console(call: EffectCall) -> None:
        print(f"    {render(clock())}  → ann hears: {call.payload['text']!r}")

    store = SqliteStore(path, clock=clock)
    return Engine(store, [NUDGES], name=name, sections={"nudges": NudgePolicy}, executors={"channel:console": console})


async def nudge(engine: Engine, text: str, key: str) -> None:
    recorded = await engine.submit(Submission(stream=ANN, command=Nudge(text), key=key))
    verdict = recorded.verdict
    assert verdict is not None
    until = f" until {render(verdict.until)}" if verdict.until else ""
    again = "  (answered from the record)" if recorded.replayed else ""
    print(f"    {render(recorded.at)}  {text!r}: {verdict.answer} · {', '.join(verdict.reasons)}{until}{again}")
    await engine.tick()


async def main() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    with tempfile.TemporaryDirectory(prefix="betimes-") as folder:
        path = Path(folder) / "betimes.db"
        async with engine_on(path, clock, "first") as engine:
            print("Two nudges, half an hour apart, and the second one again after a time-out:")
            await nudge(engine, "water the plants", "n1")
            clock.advance(30 * 60)
            await nudge(engine, "call Bob", "n2")
            await nudge(engine, "call Bob", "n2")
        print("\nThe process stops. Another one starts after the second nudge is due:")
        clock.advance(100 * 60)
        async with engine_on(path, clock, "second") as engine:
            result = await engine.tick()
            print(f"    alarms rung: {result.fired}, effects: {result.effects}")
            print("\nWhy was it not sent at once?")
            why = await explain(engine.store, engine.kinds, ANN, 3)
            print(f"    {why.summary}")
            print("\nDoes the ledger give the state, byte for byte?")
            print(f"    {await sentence(engine)}")
            print("\nAnd after somebody edits one row of the history by hand?")
            connection = apsw.Connection(str(path))
            connection.execute("UPDATE ledger SET events = replace(events, 'Bob', 'Eve') WHERE version = 3")
            connection.close()
            print(f"    {await sentence(engine)}")


async def sentence(engine: Engine) -> str:
    report = await verify(engine.store, engine.kinds)
    findings = [f"\n    {finding}" for finding in report.findings]
    return f"{report.streams} stream, {report.segments} segments: {''.join(findings) or 'sound'}"


if __name__ == "__main__":
    asyncio.run(main())
