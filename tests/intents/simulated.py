"""Intents under simulation: authors who change their minds, workers that are slow, die, and report too late.

The oracle reads events alone; none of the domain's rules or folds is asked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from betimes.core.deciders import Wake
from betimes.core.errors import BetimesError
from betimes.core.instants import HOUR, Instant
from betimes.core.policies import Body
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.intents.decide import DECIDERS, SECTIONS
from betimes.intents.model import (
    ChangeIntent,
    Claimed,
    ClaimIntent,
    DefineIntent,
    DeleteIntent,
    DisableIntent,
    EnableIntent,
    FireIntent,
    ForgetIntent,
    ReleaseClaim,
    RenewClaim,
)
from betimes.notifications.decide import DECIDERS as NOTIFICATIONS
from betimes.testing.simulator.invariants import command_name, events_of
from betimes.testing.simulator.worker import Lost
from betimes.testing.simulator.workload import Workload
from betimes.testing.simulator.world import World
from tests.intents.stories import body

TENANT = "acme"
USERS = ("ann", "bob")
LIMIT = 3
LEASES_S = (2, 10, 60)


class Author:
    """One person's wishes, made and changed at random."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/author {number}")
        self.user_id = USERS[number]
        self._number = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(4, 9)):
            await self.world.insist(self._wish())
            await self.world.pause(self.random.choice((0.2, 2.0, 8.0)))

    def _wish(self) -> Submission:
        self._number += 1
        intent_id = f"{self.user_id}-{self.random.randrange(5)}"
        kind = self.random.choice(("price", "interval", "once", "silence"))
        fields: dict[str, Any] = {"user_id": self.user_id, "enabled": self.random.random() < 0.9}
        if kind in ("price", "silence"):
            mode = self.random.choice(("recurring", "recurring", "once"))
            fields["condition"] = {"expression": "NVDA < 1", "cooldown_hours": 1, "fire_mode": mode}
        if kind == "once":
            fields["schedule"] = {"trigger_at": "2026-01-05T09:00:20Z"}
        if self.random.random() < 0.2:
            fields["expires_at"] = "2026-01-05T09:01:00Z"
        if self.random.random() < 0.2:
            fields["max_executions"] = 2
        command: Any = self.random.choices(
            (
                DefineIntent(body(kind, **fields), replaces=True),
                EnableIntent(self.user_id),
                DisableIntent(),
                ChangeIntent({"enabled": self.random.random() < 0.6, "metadata": {"n": self._number}}, self.user_id),
                DeleteIntent(),
            ),
            (10, 3, 2, 3, 1),
        )[0]
        key = f"{self.user_id} wish {self._number}" if self.random.random() < 0.7 else None
        return Submission(stream=StreamId(TENANT, "intent", intent_id), command=command, key=key)


class Laborer:
    """One worker outside: it claims, dawdles, and reports, sometimes without a token or with an old one."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/laborer {number}")
        self.name = f"l{number}"
        self._reports = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(5, 12)):
            await self.world.pause(self.random.choices((0.5, 4.0, 12.0, 150.0), (8, 8, 8, 1))[0])
            if self.random.random() < 0.3:
                await self._reported(self._some_intent(), None)
            for stream, token in await self._claimed():
                await self._work(stream, token)

    def _some_intent(self) -> StreamId:
        return StreamId(TENANT, "intent", f"{self.random.choice(USERS)}-{self.random.randrange(5)}")

    async def _claimed(self) -> list[tuple[StreamId, int]]:
        lease_s = self.random.choice(LEASES_S)
        try:
            if self.random.random() < 0.2:
                claim = Submission(stream=self._some_intent(), command=ClaimIntent(self.name, lease_s))
                recorded = [await self.world.ask(claim)]
            else:
                command = ClaimIntent(self.name, lease_s, among_many=True)
                limit = self.random.randint(1, 4)
                worker = self.world.some_worker()
                recorded = await worker.request(
                    lambda engine: engine.submit_due(("intent",), lambda stream: command, limit)
                )
                self.world.swept += recorded
        except (BetimesError, Lost):
            return []
        return [(entry.stream, entry.reply.claim_token) for entry in recorded if _granted(entry)]

    async def _work(self, stream: StreamId, token: int) -> None:
        await self.world.pause(self.random.choices((0.1, 2.0, 15.0), (8, 4, 2))[0])
        if self.random.random() < 0.15:
            return
        if self.random.random() < 0.2:
            await self.world.insist(Submission(stream=stream, command=RenewClaim(token, self.random.choice(LEASES_S))))
        if self.random.random() < 0.1:
            await self.world.insist(Submission(stream=stream, command=ReleaseClaim(token)))
        await self._reported(stream, None if self.random.random() < 0.1 else token)

    async def _reported(self, stream: StreamId, token: int | None) -> None:
        self._reports += 1
        status: Any = self.random.choices(("success", "failed", "gate_blocked", "condition_not_met"), (6, 3, 1, 2))[0]
        report = Submission(
            stream=stream,
            command=FireIntent(status=status, claim_token=token),
            key=f"{self.name} report {self._reports}",
        )
        await self.world.insist(report)
        if self.random.random() < 0.2:
            await self.world.insist(report)


def _granted(recorded: Recorded) -> bool:
    return isinstance(recorded.reply, Claimed) and not recorded.replayed


async def an_hour(world: World) -> None:
    """In a few runs an hour passes, so that cooldowns end."""
    if world.seed % 24 == 0:
        await asyncio.sleep(3_700)
        await Laborer(world, 9).go()


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    for number in range(world.random.randint(1, len(USERS))):
        yield Author(world, number).go()
    for number in range(world.random.randint(1, 3)):
        yield Laborer(world, number).go()
    yield an_hour(world)


def rules(random: Random) -> Body:
    return {
        "intents": {
            "enabled_per_user_max": LIMIT,
            "claim_lease_s": 30,
            "retry_minutes": random.choice((0, 1)),
            "retry_minutes_max": random.choice((1, 5)),
            "failures_max": random.choice((1, 2, 4)),
            "channels": ["in_app"],
        }
    }


# -- what must hold


class Life:
    """One intent, as its events tell."""

    def __init__(self) -> None:
        self.enabled = False
        self.next_check_at: Instant | None = None
        self.claim: tuple[int, Instant] | None = None
        self.last_token = 0
        self.last_fire_at: Instant | None = None
        self.cooldown = 0
        self.failures = 0
        self.expiries = 0


def check_intents(world: World) -> Iterator[str]:
    database = world.server.database
    policies = {name: msgspec.json.decode(text)["intents"] for name, text in database.policies.items()}
    for stream, history in sorted(database.histories.items()):
        if stream.kind == "intent":
            yield from _life(stream, history, policies)
    yield from _limits(world)


def _life(stream: StreamId, history: list[Segment], policies: dict[str, Any]) -> Iterator[str]:
    life = Life()
    for segment in history:
        told = msgspec.json.decode(segment.command or "{}")
        for event in events_of(segment):
            yield from (f"{stream} at {segment.version}: {what}" for what in _happens(life, event, segment, told))
            if life.failures >= policies[segment.policy]["failures_max"] and life.enabled:
                disabled = [later["type"] for later in events_of(segment)]
                if "IntentDisabled" not in disabled:
                    yield f"{stream} failed {life.failures} times in a row and is still enabled"


def _happens(life: Life, event: dict[str, Any], segment: Segment, told: dict[str, Any]) -> Iterator[str]:
    match event["type"]:
        case "IntentDefined":
            definition = event["definition"]
            based = definition["trigger_type"] in ("price", "silence")
            life.cooldown = definition["condition"].get("cooldown_hours", 24) * HOUR if based else 0
            life.enabled = event.get("enabled", True)
            life.next_check_at = event.get("next_check_at")
            life.failures = 0 if event.get("restarted") else life.failures
            life.expiries = 0 if event.get("restarted") else life.expiries
        case "IntentEnabled":
            life.enabled, life.next_check_at, life.failures, life.expiries = True, event["next_check_at"], 0, 0
        case "IntentDisabled":
            life.enabled, life.next_check_at = False, None
        case "IntentDeleted":
            last_token = life.last_token
            life.__init__()  # type: ignore[misc]
            life.last_token = last_token
        case "IntentClaimed":
            yield from _claimed(life, event)
        case "ClaimRenewed":
            yield from _by_holder(life, segment, told)
            life.claim = (told["claim_token"], event["expires_at"])
        case "ClaimReleased":
            yield from _by_holder(life, segment, told)
            life.claim, life.expiries = None, 0
        case "ClaimExpired":
            yield from _expired(life, event, segment)
        case "IntentFired":
            yield from _fired(life, event, segment, told)
        case "FireCooled":
            if life.last_fire_at is None or segment.at - life.last_fire_at >= life.cooldown:
                yield "a report was put off by a cooldown that was over"
            life.claim, life.next_check_at, life.expiries = None, event.get("next_check_at"), 0
        case "RetryMoved":
            if life.next_check_at is None or event["next_check_at"] >= life.next_check_at:
                yield "a retry was moved, and not to be sooner"
            life.next_check_at = event["next_check_at"]
        case other:
            yield f"nobody knows {other}"


def _claimed(life: Life, event: dict[str, Any]) -> Iterator[str]:
    if life.claim is not None:
        yield f"claimed by {event['worker']} while the claim {life.claim} was not over"
    if event["token"] <= life.last_token:
        yield f"the token {event['token']} came after {life.last_token}"
    if not life.enabled or life.next_check_at is None or event["at"] < life.next_check_at:
        yield "claimed though it was not due"
    life.claim, life.last_token = (event["token"], event["expires_at"]), event["token"]


def _by_holder(life: Life, segment: Segment, told: dict[str, Any]) -> Iterator[str]:
    if life.claim is None or told.get("claim_token") != life.claim[0] or segment.at >= life.claim[1]:
        yield f"{told['type']} with the token {told.get('claim_token')} was let through; the claim was {life.claim}"


def _expired(life: Life, event: dict[str, Any], segment: Segment) -> Iterator[str]:
    if life.claim is None or event["at"] != life.claim[1]:
        yield f"the claim {life.claim} ended at {event['at']}"
    if life.enabled and event.get("next_check_at") is None:
        yield "a claim ran out and nothing was planned"
    life.claim, life.next_check_at, life.expiries = None, event.get("next_check_at"), life.expiries + 1
    failed = any(later["type"] == "IntentFired" for later in events_of(segment))
    if failed != (life.expiries > 1):
        yield f"{life.expiries} claims in a row ran out, and that was {'' if failed else 'not '}a failure"


def _fired(life: Life, event: dict[str, Any], segment: Segment, told: dict[str, Any]) -> Iterator[str]:
    if told["type"] == "Wake":
        if life.expiries < 2 or event["error"] != "CLAIM_EXPIRED":
            yield f"an alarm recorded {event} after {life.expiries} claims that ran out"
    elif told.get("claim_token") is not None:
        yield from _by_holder(life, segment, told)
    elif life.claim is not None:
        yield f"fired without a token over the claim {life.claim}"
    if event["status"] == "success" and life.cooldown:
        if life.last_fire_at is not None and event["at"] - life.last_fire_at < life.cooldown:
            yield "fired within its cooldown"
        life.last_fire_at = event["at"]
    life.failures = life.failures + 1 if event["status"] == "failed" else 0
    life.expiries = life.expiries if told["type"] == "Wake" else 0
    life.claim, life.next_check_at = None, event.get("next_check_at")


def _limits(world: World) -> Iterator[str]:
    """At no point of the ledger are too many enabled, and in the end every owner knows which are."""
    enabled: dict[str, set[str]] = defaultdict(set)
    owner_of: dict[str, str] = {}
    for segment in world.server.database.segments:
        if segment.stream.kind != "intent":
            continue
        name = segment.stream.id
        for event in events_of(segment):
            if event["type"] == "IntentDefined":
                owner_of[name] = event["definition"]["user_id"]
            if event["type"] == "IntentEnabled" or (event["type"] == "IntentDefined" and event.get("enabled", True)):
                enabled[owner_of[name]].add(name)
            elif event["type"] in ("IntentDisabled", "IntentDeleted", "IntentDefined"):
                enabled[owner_of[name]].discard(name)
        theirs = enabled[owner_of.get(name, "")]  # a command to an intent that never was has a segment too
        if len(theirs) > LIMIT:
            yield f"{segment.handle} ({command_name(segment)}) left {len(theirs)} enabled"
    for stream, row in sorted(world.server.database.rows.items()):
        if stream.kind == "owner":
            known = set(msgspec.json.decode(row.state or '{"enabled":{}}')["enabled"])
            if known != enabled[stream.id]:
                yield f"{stream} knows {sorted(known)}, enabled are {sorted(enabled[stream.id])}"


INTENTS = Workload(
    name="intents",
    deciders=(*DECIDERS, *NOTIFICATIONS),
    sections=SECTIONS,
    clients=clients,
    check=check_intents,
    policy=rules,
    fails_on=(Wake, ClaimIntent, FireIntent, DefineIntent),
    may_write_nothing=(DefineIntent, ChangeIntent, EnableIntent, DisableIntent, ForgetIntent, ClaimIntent),
)
