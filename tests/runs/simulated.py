"""Runs under simulation: accounts that trigger again and again, workers that claim, limits that change.

The oracle reads the ledger alone; none of the domain's rules or folds is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import EffectCall, Wake
from betimes.core.instants import DAY, SECOND, Instant
from betimes.core.policies import Body
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.runs.decide import DECIDERS
from betimes.runs.model import (
    TRIGGERS,
    CancelTrigger,
    ClaimRun,
    CompleteRun,
    RequestRun,
    account_stream,
    agreed_request,
    run_stream,
)
from betimes.testing.simulator import Workload, World
from betimes.testing.simulator.invariants import events_of
from betimes.testing.simulator.workload import nothing_due
from tests.runs.scenes import SECTIONS

TENANT = "acme"
TYPES = ("LEADING", "TRAILING", "CALLED", "SHADOWED")
HOUR = 3_600 * SECOND


class Clients:
    """One client: a few errands, one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/client {number}")
        self.number = number
        self._errands = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(4, 9)):
            await self.world.pause(self.random.choice((0.2, 2.0, 8.0)))
            await self.random.choice((self.trigger, self.trigger, self.twice, self.burst, self.work, self.cancel))()

    def _trigger(self) -> Submission:
        self._errands += 1
        account, type = f"a{self.random.randrange(1 + self.world.seed % 3)}", self.random.choice(TYPES)
        return Submission(
            stream=account_stream(TENANT, account),
            command=RequestRun(type, payload={"n": self._errands}),
            key=f"c{self.number}.{self._errands}",
            collection=TRIGGERS,
            request=agreed_request(account, type),
        )

    async def trigger(self) -> None:
        asked = self._trigger()
        await self.world.insist(asked)
        if self.random.random() < 0.2:
            await self.world.insist(asked)

    async def twice(self) -> None:
        """The same trigger at two workers at once."""
        asked = self._trigger()
        await asyncio.gather(self.world.insist(asked), self.world.insist(asked))

    async def burst(self) -> None:
        asked = self._trigger()
        more = [replace(asked, key=f"{asked.key}.{place}") for place in range(4)]
        await asyncio.gather(*(self.world.insist(one) for one in more))

    async def cancel(self) -> None:
        """Change one's mind about a trigger, which may wait or not."""
        key = f"c{self.number}.{self.random.randint(1, self._errands + 1)}"
        stream = account_stream(TENANT, f"a{self.random.randrange(1 + self.world.seed % 3)}")
        await self.world.insist(Submission(stream=stream, command=CancelTrigger(key)))

    async def work(self) -> None:
        """Claim a run that waits for a worker, and report, perhaps too late."""
        waiting = [
            stream
            for stream, row in self.world.server.database.rows.items()
            if stream.kind == "run" and row.due_at is not None
        ]
        if not waiting:
            return
        run = self.random.choice(sorted(waiting))
        claimed = await self.world.insist(Submission(stream=run, command=ClaimRun(f"w{self.number}", 10)))
        if isinstance(claimed, Recorded) and claimed.reply:
            await self.world.pause(self.random.choice((1.0, 15.0)))
            await self.world.insist(Submission(stream=run, command=CompleteRun(claimed.reply.claim_token, "succeeded")))


async def administration(world: World) -> None:
    random = Random(f"{world.seed}/administration")
    for _ in range(random.randint(0, 3)):
        await world.pause(8.0)
        await world.insist(Submission(stream=tenant_stream(TENANT), command=SetPolicy(dict(limits(random)))))


def limits(random: Random) -> Body:
    entry = {
        "debounce_seconds": random.choice((0, 2, 10)),
        "cooldown_seconds": random.choice((0, 3, 20)),
        "max_per_account_per_hour": random.choice((None, 3, 8)),
        "max_per_tenant_per_hour": random.choice((4, 9, 100)),
    }
    return {
        "runs": {
            "registry": {
                "LEADING": entry,
                "TRAILING": {
                    **entry,
                    "debounce_seconds": 5,
                    "debounce_mode": "trailing",
                    "debounce_keep": random.choice(("last", "all")),
                    "debounce_max_wait_seconds": 12,
                },
                "CALLED": {**entry, "handler": {"kind": "python", "name": "brief"}},
                "SHADOWED": {**entry, "mode": "shadow"},
            },
            "tenant_daily_run_budget": random.choice((6, 40, 1_000)),
        }
    }


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    yield administration(world)
    for number in range(world.random.randint(1, 3)):
        yield Clients(world, number).go()


async def brief(call: EffectCall) -> str:
    return call.payload["run_id"]  # type: ignore[no-any-return]


def nobody_waits(world: World) -> bool:
    rows = world.server.database.rows.items()
    return nothing_due(world) and all(row.alarm_at is None for stream, row in rows if stream.kind == "account")


# -- the oracle


class Charge(NamedTuple):
    """A run that counts, with the limits it was admitted under."""

    account: StreamId
    type: str
    at: Instant
    limits: dict[str, Any]
    slot_at: Instant | None = None
    """The tenant's slot it was promised, if it came less than an hour late for it."""

    @property
    def counts_at(self) -> Instant:
        """From when it counts for the tenant."""
        return self.at if self.slot_at is None else self.slot_at

    @property
    def entry(self) -> dict[str, Any]:
        return self.limits["registry"][self.type]  # type: ignore[no-any-return]


def check(world: World) -> Iterator[str]:
    limits = {name: msgspec.json.decode(body)["runs"] for name, body in world.server.database.policies.items()}
    histories = world.server.database.histories
    charges = [
        charge
        for stream, history in histories.items()
        if stream.kind == "account"
        for charge in _charges(stream, history, limits)
    ]
    yield from _cooldowns(charges)
    yield from _caps(charges)
    yield from _budgets(charges)
    for stream, history in sorted(histories.items()):
        if stream.kind == "account":
            yield from _waiting(stream, history)
        elif stream.kind == "run":
            yield from _lives(stream, history)
    yield from _runs_exist(histories)
    yield from _called_once(world)


def _charges(stream: StreamId, history: list[Segment], limits: dict[str, Any]) -> Iterator[Charge]:
    slots: dict[str, Instant | None] = {}
    for segment in history:
        for event in events_of(segment):
            if event["type"] == "RunDeferred":
                slots[event["due"]["key"]] = event["due"].get("slot_at")
            elif event["type"] in ("RunAllowed", "WouldRun") and event.get("charged", True):
                slot_at = slots.get(event["key"])
                kept = slot_at if slot_at is not None and event["at"] < slot_at + HOUR else None
                yield Charge(stream, event["trigger_type"], event["at"], limits[segment.policy], kept)


def _cooldowns(charges: list[Charge]) -> Iterator[str]:
    last: dict[StreamId, Instant] = {}
    last_of_type: dict[tuple[StreamId, str], Instant] = {}
    for charge in charges:
        if charge.at - last.get(charge.account, -DAY) < charge.entry["cooldown_seconds"] * SECOND:
            yield f"{charge.account} ran at {charge.at} within its cooldown"
        place = (charge.account, charge.type)
        if charge.type != "TRAILING" and charge.at - last_of_type.get(place, -DAY) < _debounce(charge):
            yield f"{charge.account} ran for {charge.type} at {charge.at} within its debounce"
        last[charge.account] = last_of_type[place] = charge.at


def _debounce(charge: Charge) -> int:
    return int(charge.entry["debounce_seconds"]) * SECOND


def _caps(charges: list[Charge]) -> Iterator[str]:
    for charge in charges:
        inside = [other for other in charges if other.type == charge.type and charge.at - HOUR < other.at <= charge.at]
        own = [other for other in inside if other.account == charge.account]
        cap = charge.entry["max_per_account_per_hour"]
        if cap is not None and len(own) > cap and own[-1] is charge:
            yield f"{charge.account} had {len(own)} runs of {charge.type} within an hour, at most {cap}"
        yield from _tenant_cap(charge, [other for other in charges if other.type == charge.type])


def _tenant_cap(charge: Charge, charges: list[Charge]) -> Iterator[str]:
    """Promised runs count from the instant they were promised, under the limits in force when that was."""
    inside = [other for other in charges if charge.counts_at - HOUR < other.counts_at <= charge.counts_at]
    bound = inside if charge.slot_at else [other for other in inside if other.at == charge.at]
    cap = max(other.entry["max_per_tenant_per_hour"] for other in bound)
    if len(inside) > cap:
        yield f"the tenant had {len(inside)} runs of {charge.type} within an hour, at most {cap}"


def _budgets(charges: list[Charge]) -> Iterator[str]:
    days: dict[int, int] = Counter()
    for charge in sorted(charges, key=lambda charge: charge.at):
        days[charge.at // DAY] += 1
    for day, count in days.items():
        largest = max(charge.limits["tenant_daily_run_budget"] for charge in charges if charge.at // DAY == day)
        if count > largest:
            yield f"{count} runs on day {day}, at most {largest}"


def _waiting(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    """Every deferral is resolved exactly once, and nothing is postponed twice."""
    deferred: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    started: Counter[str] = Counter()
    for segment in history:
        resolves = (segment.command or "").startswith(('{"type":"Wake"', '{"type":"CancelTrigger"'))
        for event in events_of(segment):
            if event["type"] == "RunDeferred" and not event["due"].get("held"):
                deferred[event["due"]["key"]] += 1
            elif event["type"] == "RunDeferred":
                deferred.setdefault(event["due"]["key"], 0)
            elif resolves and event["type"] in ("RunAllowed", "RunSkipped", "WouldRun"):
                ended[event["key"]] += 1
            if event["type"] == "RunAllowed":
                started[event["key"]] += 1
    for key, times in deferred.items():
        if times > 1:
            yield f"{key} of {stream} was deferred {times} times"
        if ended[key] != 1:
            yield f"{key} of {stream} waited and was resolved {ended[key]} times"
    yield from (f"{key} of {stream} waited for nothing" for key in ended if key not in deferred)
    yield from (f"{key} of {stream} ran {times} times" for key, times in started.items() if times > 1)


def _lives(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    counts = Counter(event["type"] for segment in history for event in events_of(segment))
    for type in ("RunAdmitted", "RunStarted", "RunEnded"):
        if counts[type] > 1:
            yield f"{stream} has {counts[type]} times {type}"


def _runs_exist(histories: dict[StreamId, list[Segment]]) -> Iterator[str]:
    for stream, history in sorted(histories.items()):
        for segment in history if stream.kind == "account" else ():
            for event in events_of(segment):
                if event["type"] == "RunAllowed" and run_stream(TENANT, event["run_id"]) not in histories:
                    yield f"{event['key']} of {stream} was allowed and has no run"


def _called_once(world: World) -> Iterator[str]:
    calls: dict[Any, int] = defaultdict(int)
    for call in world.calls:
        calls[call.call.id] += 1
    yield from (f"{id.handle} was called {times} times" for id, times in calls.items() if times > 1)


RUNS = Workload(
    name="runs",
    deciders=DECIDERS,
    sections=SECTIONS,
    clients=clients,
    check=check,
    policy=limits,
    executors={"handler:brief": brief},
    is_settled=nobody_waits,
    settle_s=40 * 3_600,
    fails_on=(Wake, RequestRun),
)
