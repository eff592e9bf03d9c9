"""Scores under simulation: users who act, pause and are forgotten, while several sweepers sweep and die.

Grace is seconds here, so that a run of minutes sees whole lives. The oracle reads the ledger alone, with fractions;
none of the domain's rules, folds or arithmetic is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from fractions import Fraction
from random import Random
from typing import Any

import msgspec

from betimes.core.deciders import Wake
from betimes.core.instants import DAY, HOUR, Instant
from betimes.core.policies import Body
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.scores.decide import DECIDERS
from betimes.scores.model import AdjustScore, CreateScore, Interact, SetStatus, SweepScore
from betimes.testing.simulator import Workload, World
from betimes.testing.simulator.invariants import events_of
from tests.scores.scene import SECTIONS

TENANTS = ("acme", "bolt")
POINT = 1_000_000
PAUSED = ("boss_fight", "game_over", "won")


class Users:
    """One client: a few errands, one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/client {number}")
        self.number = number
        self._errands = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(5, 10)):
            await self.world.pause(self.random.choice((0.5, 4.0, 20.0)))
            errand = self.random.choices((self.act, self.status, self.adjust, self.sweep, self.both), (4, 3, 1, 6, 2))[
                0
            ]
            await errand()

    def _asks(self, command: Any) -> Submission:
        self._errands += 1
        tenant = self.random.choice(TENANTS[: 1 + self.world.seed % 2])
        stream = StreamId(tenant, "score", f"u{self.random.randrange(2 + self.world.seed % 4)}")
        return Submission(stream=stream, command=command, key=f"{self.number}.{self._errands}")

    async def act(self) -> None:
        at = self.world.now() - self.random.choice((0, 0, 2, 30)) * POINT
        await self.world.insist(self._asks(Interact(self.random.choice(("text", "portal")), at)))

    async def status(self) -> None:
        status = self.random.choice(("active", "active", "boss_fight", "won"))
        timeout_s = self.random.choice((None, 5, 60)) if status != "active" else None
        chapter = self.random.choice((None, None, 1, 2))
        await self.world.insist(self._asks(SetStatus(status, "why", chapter, timeout_s)))

    async def adjust(self) -> None:
        await self.world.insist(self._asks(AdjustScore("why", delta=self.random.randint(-60, 60) * POINT)))

    async def sweep(self) -> None:
        await self.world.sweep(("score",), lambda stream: SweepScore())

    async def both(self) -> None:
        """Two sweepers and one command at the same time."""
        at = self.world.now()
        await asyncio.gather(
            self.world.sweep(("score",), lambda stream: SweepScore(at)),
            self.world.sweep(("score",), lambda stream: SweepScore(at)),
            self.world.insist(self._asks(SweepScore())),
        )


async def import_scores(world: World) -> None:
    """Scores made by hand, some long neglected."""
    random = Random(f"{world.seed}/import")
    for number in range(4):
        at = world.now() - random.choice((0, 10, 5_000)) * POINT
        made = CreateScore(random.choice((POINT, 50 * POINT)), random.choice((1, 2)), created_at=at, interacted_at=at)
        stream = StreamId(TENANTS[0], "score", f"u{number}")
        await world.insist(Submission(stream=stream, command=made, key=f"import {number}"))


async def administration(world: World) -> None:
    """Terms change while users act."""
    random = Random(f"{world.seed}/administration")
    for _ in range(random.randint(0, 2)):
        await world.pause(15.0)
        stream = tenant_stream(random.choice(TENANTS))
        await world.insist(Submission(stream=stream, command=SetPolicy(dict(terms(random)))))


def terms(random: Random) -> Body:
    stages = [
        {
            "name": name,
            "grace_hours": random.choice(("0", "0.001", "0.005")),
            "rate": random.choice((20, 100)),
            "daily_cap": random.choice((1, 100)),
        }
        for name in (1, 2)
    ]
    hook = {"on": ["SCORE_THRESHOLD", "GAME_OVER"], "target": {"kind": "handler", "name": "tell"}}
    section = {
        "stages": stages,
        "max_decay_per_cycle": 100,
        "sweep_interval_s": random.choice((1, 10)),
        "pause_timeouts_s": random.choice(({}, {"boss_fight": 7})),
    }
    return {"scores": section, "hooks": [hook]}


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    yield import_scores(world)
    yield administration(world)
    for number in range(world.random.randint(1, 3)):
        yield Users(world, number).go()


# -- what must hold, read from the ledger alone


def check(world: World) -> Iterator[str]:
    policies = {name: msgspec.json.decode(body)["scores"] for name, body in world.server.database.policies.items()}
    for stream, history in sorted(world.server.database.histories.items()):
        if stream.kind == "score":
            yield from Life(stream).told(history, policies)
    yield from _hooks(world)


class Life:
    """One score, followed through its events."""

    def __init__(self, stream: StreamId) -> None:
        self.stream = stream
        self.score = 0
        self.chapter: Any = None
        self.status = ""
        self.base_at: Instant = 0
        self.applied_at: Instant = 0
        self.over_since = False
        self.until_at: Instant | None = None

    def told(self, history: list[Segment], policies: dict[str, Any]) -> Iterator[str]:
        for segment in history:
            for event in events_of(segment):
                for problem in getattr(self, f"on_{event['type'].lower()}")(
                    event, segment, policies.get(segment.policy, {})
                ):
                    yield f"{self.stream} at version {segment.version}: {problem}"
            if self.score < 0 or self.score > 100 * POINT:
                yield f"{self.stream} has {self.score}"
            if self.score == 0 and self.status not in PAUSED:
                yield f"{self.stream} is at 0 and {self.status}"

    def on_scorecreated(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        self.score, self.chapter, self.status = event["score"], event["chapter"], event["status"]
        self.base_at = event.get("interacted_at") or event["created_at"]
        yield from ()

    def on_interacted(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        if event["score"] != self.score:
            yield "an interaction changed the score"
        if event.get("counted", True):
            if event["interacted_at"] < self.base_at:
                yield "an interaction went backwards"
            self.base_at = event["interacted_at"]

    def on_decayed(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        stage = next(stage for stage in policy["stages"] if stage["name"] == self.chapter)
        grace_ends_at = self.base_at + int(Fraction(stage["grace_hours"]) * HOUR)
        from_at, to_at = event["from_at"], event["to_at"]
        if self.status in PAUSED:
            yield "it decayed while it was paused"
        if from_at < max(self.applied_at, grace_ends_at) or to_at <= from_at or to_at > segment.at:
            yield f"the period {from_at}–{to_at} was applied before, is within grace or has not passed"
        owed = _lost(stage, to_at - grace_ends_at) - _lost(stage, from_at - grace_ends_at)
        if event["amount"] != min(owed, self.score) or event["score"] != self.score - event["amount"]:
            yield f"it lost {event['amount']} of {self.score}, and owed {owed}"
        self.score, self.applied_at = event["score"], to_at

    def on_thresholdcrossed(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        if event["threshold"] < self.score:
            yield f"{event['name']} was said to be crossed at {self.score}"

    def on_gameover(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        if self.score != 0 or self.over_since:
            yield f"it was over at {self.score}, or twice"
        self.status, self.over_since, self.until_at = event["status"], True, None

    def on_statuschanged(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        if self.status in PAUSED and event["status"] not in PAUSED:
            if event.get("interacted_at", 0) < self.base_at or event.get("interacted_at", 0) > segment.at:
                yield "leaving a pause did not start grace afresh"
            self.base_at = event.get("interacted_at", 0)
        elif self.status not in PAUSED and self.chapter != event["chapter"]:
            self.applied_at = segment.at  # whatever came before is not charged at the new terms
        if self.score == 0 and event["status"] != "game_over":
            yield f"it was over, and became {event['status']}"
        asked = msgspec.json.decode(segment.command or "{}")
        if event.get("paused_until_at") != self._pause_end(event, asked, segment.at, policy):
            yield f"its pause ends at {event.get('paused_until_at')}"
        self.until_at = event.get("paused_until_at")
        self.status, self.chapter = event["status"], event["chapter"]

    def _pause_end(self, event: Any, asked: Any, at: Instant, policy: Any) -> Instant | None:
        """As asked, else as it was set for the same pause, else by policy."""
        if asked["type"] != "SetStatus" or event["status"] not in PAUSED:
            return None
        if "timeout_s" not in asked and event["status"] == self.status and self.until_at is not None:
            return self.until_at
        timeout_s = asked.get("timeout_s") or policy["pause_timeouts_s"].get(event["status"])
        return at + timeout_s * POINT if timeout_s else None

    def on_scoreadjusted(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        if event["before"] != self.score:
            yield f"it was adjusted from {event['before']}, and was {self.score}"
        self.score = event["score"]
        if self.score:
            self.over_since = False

    def on_rescheduled(self, event: Any, segment: Segment, policy: Any) -> Iterator[str]:
        yield from ()


def _lost(stage: Any, x: int) -> int:
    """What is lost so many microseconds after the grace end, day by day, rounded down at the end."""
    total = Fraction(0)
    while x > 0:
        total += min(Fraction(stage["daily_cap"]), Fraction(stage["rate"]) * Fraction(min(x, DAY), HOUR))
        x -= DAY
    return int(total * POINT)


def _hooks(world: World) -> Iterator[str]:
    """Each threshold and each game over was told to the handler, once."""
    database = world.server.database
    expected = sum(
        event["type"] in ("ThresholdCrossed", "GameOver")
        for stream, history in database.histories.items()
        if stream.kind == "score"
        for segment in history
        for event in events_of(segment)
    )
    asked = sum(effect.write.executor == "handler:tell" for effect in database.effects.values())
    if asked != expected:
        yield f"{expected} thresholds and game overs, and {asked} calls"


async def tell(call: Any) -> None:
    return None


SCORES = Workload(
    name="scores",
    deciders=DECIDERS,
    sections=SECTIONS,
    clients=clients,
    check=check,
    policy=terms,
    executors={"handler:tell": tell},
    fails_on=(Wake, Interact, SetStatus, AdjustScore, SweepScore),
    may_write_nothing=(SetPolicy, SweepScore),
    settles=(SweepScore,),
)
