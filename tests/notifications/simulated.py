"""Notifications under simulation: senders that repeat themselves, people who change their minds, channels that fail.

The oracle reads events alone; none of the domain's rules or folds is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from betimes.core.deciders import EffectCall, Wake
from betimes.core.instants import DAY, MINUTE, SECOND, Instant
from betimes.core.policies import Body
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.notifications.decide import DECIDERS
from betimes.notifications.feed_model import feed_stream
from betimes.notifications.model import (
    NOTIFICATIONS,
    BanPerson,
    CloseIncident,
    Notify,
    OpenIncident,
    OptOut,
    Preferences,
    SetPreferences,
    UnbanPerson,
    inbox_stream,
    incident_stream,
)
from betimes.notifications.quiet_hours import QuietHours
from betimes.testing.simulator.invariants import command_name, events_of
from betimes.testing.simulator.workload import Workload
from betimes.testing.simulator.world import World
from tests.notifications.inboxes import SECTIONS

TENANT = "acme"
USERS = ("ann", "bob", "cid")
TEXTS = tuple(f"Text number {number} of those that senders repeat now and then" for number in range(3))
QUIET = QuietHours(9 * 60 + 1, 9 * 60 + 3)
QUIET_FROM, QUIET_TO = 9 * 60 * MINUTE + MINUTE, 9 * 60 * MINUTE + 3 * MINUTE
BURST_CAP, BURST_S = 3, 20


class Sender:
    """One source of notifications."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/sender {number}")
        self.number = number
        self._sent = 0

    async def go(self) -> None:
        for _ in range(self.random.randint(5, 10)):
            await self.world.pause(self.random.choice((0.2, 2.0, 15.0)))
            submission = self._notification()
            if self.random.random() < 0.2:
                await asyncio.gather(self.world.insist(submission), self.world.insist(submission))
            else:
                await self.world.insist(submission)

    def _notification(self) -> Submission:
        self._sent += 1
        user, key = self.random.choice(USERS), f"n{self.number}.{self._sent}"
        lists = (("push",), ("push", "email"), ("in_app",), ("sms", "in_app"))
        fresh = f"Something new under the sun, told by sender {self.number} as message {self._sent}"
        system = self.random.random() < 0.15
        news: Any = {"incident": True} if self.random.random() < 0.5 else {"recovery": True}
        command = Notify(
            "SYSTEM" if system else self.random.choice(("MESSAGE", "UPDATE", "PROMO", "DIGEST", "SECURITY")),
            "News",
            self.random.choice((*TEXTS, fresh, fresh)),
            "simulated",
            self.random.choice(lists),
            self.random.choice(("CRITICAL", "HIGH", "HIGH", "MEDIUM", "LOW", None)),
            expires_at=self.world.now() + 30 * SECOND if self.random.random() < 0.1 else None,
            metadata=(news | {"scope": self.random.choice(("user", "global"))}) if system else {},
            ai_score=self.random.choice((None, 10_000)),
        )
        stream = inbox_stream(TENANT, user)
        return Submission(stream=stream, command=command, key=key, collection=NOTIFICATIONS, request=user)


async def minds_change(world: World) -> None:
    random = Random(f"{world.seed}/minds")
    for _ in range(random.randint(2, 8)):
        await world.pause(8.0)
        stream = inbox_stream(TENANT, random.choice(USERS))
        out = OptOut(channels=random.choice(((), ("push",))), event_types=random.choice(((), ("PROMO",))))
        chosen = Preferences(quiet_hours=random.choice(((), (QUIET,))), opt_out=out)
        command: Any = random.choice(
            (SetPreferences(chosen), SetPreferences(chosen), BanPerson("x"), UnbanPerson(), OpenIncident(60))
        )
        if random.random() < 0.2:
            stream, command = incident_stream(TENANT), random.choice((OpenIncident(60), CloseIncident()))
        await world.insist(Submission(stream=stream, command=command))


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    yield minds_change(world)
    for number in range(world.random.randint(1, 3)):
        yield Sender(world, number).go()


def orders(random: Random) -> Body:
    return {
        "notifications": {
            "score_defer_s": 60,
            "jitter_s": random.choice((0, 10)),
            "digest_windows": ["*/5 * * * *"],
            "fatigue": {"burst": {"cap": BURST_CAP, "span_s": BURST_S}, "burst_pause_s": random.choice((5, 60))},
            "max_deferrals": random.choice((1, 2)),
            "after_deferrals": random.choice(("digest", "drop", "deliver")),
            "delivery_attempts": random.choice((1, 3)),
            "incident_ttl_s": 60,
        }
    }


async def deliver(call: EffectCall) -> dict[str, str]:
    return {"channel": call.payload["channel"]}


def nothing_waits(world: World) -> bool:
    return not world.effects_open() and all(row.alarm_at is None for row in world.server.database.rows.values())


# -- the oracle


class Life:
    """What the ledger says became of one notification."""

    def __init__(self, segment: Segment, command: dict[str, Any]) -> None:
        self.segment = segment
        self.command = command
        self.name = segment.key.key if segment.key else segment.handle
        self.endings: list[tuple[str, Segment, tuple[str, ...]]] = []
        self.delivered = False
        self.failed = False

    @property
    def is_critical(self) -> bool:
        return self.command.get("priority_hint") == "CRITICAL" or self.command["event_type"] == "SECURITY"

    @property
    def text(self) -> tuple[str, str]:
        return self.command["event_type"], self.command["message"]


def check_notifications(world: World) -> Iterator[str]:
    for stream, history in sorted(world.server.database.histories.items()):
        if stream.kind == "inbox":
            lives = _lives(history)
            yield from _each_ends_once(stream, lives)
            yield from _critical(lives)
            yield from _bursts(stream, history)
            yield from _nights(stream, history, lives)
            yield from _repeats(stream, lives)
            yield from _feeds(world, stream, history)


def _lives(history: list[Segment]) -> dict[int, Life]:
    lives: dict[int, Life] = {}
    calls: dict[tuple[int, int | None], list[Life]] = defaultdict(list)
    gathered: list[Life] = []
    for segment in history:
        if command_name(segment) == "Notify":
            assert segment.command
            lives[segment.version] = Life(segment, msgspec.json.decode(segment.command))
        for event in events_of(segment):
            match event["type"]:
                case "Released" | "Suppressed" | "Digested" as ending:
                    life = lives[event["item"]]
                    life.endings.append((ending, segment, tuple(event["reasons"])))
                    gathered = [*gathered, life] if ending == "Digested" else gathered
                    if ending == "Released":
                        calls[segment.version, None].append(life)
                case "DigestReleased":
                    calls[segment.version, None] += gathered
                    gathered = []
                case "Rerouted":
                    calls[segment.version, None] += [lives[item] for item in event["items"]]
                case "Delivered":
                    for life in calls[event["version"], None]:
                        life.delivered = True
                case "DeliveryFailed":
                    for item in event["items"]:
                        lives[item].failed = True
                case _:
                    pass
    return lives


def _each_ends_once(stream: StreamId, lives: dict[int, Life]) -> Iterator[str]:
    for life in lives.values():
        if len(life.endings) != 1:
            yield f"{life.name} of {stream} ended {len(life.endings)} times: {[what for what, _, _ in life.endings]}"
        elif life.endings[0][0] != "Suppressed" and life.delivered == life.failed:
            yield f"{life.name} of {stream} went out, and was delivered: {life.delivered}, failed: {life.failed}"


def _critical(lives: dict[int, Life]) -> Iterator[str]:
    for life in lives.values():
        for what, segment, reasons in life.endings if life.is_critical else ():
            if what != "Released" and reasons[-1] not in ("EXPIRED", "ACCOUNT_BANNED"):
                yield f"{life.name} is critical and ended as {reasons}"
            if segment.version != life.segment.version:
                yield f"{life.name} is critical and had to wait"
        if life.is_critical and life.failed:
            yield f"{life.name} is critical and arrived nowhere"


def _bursts(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    times: list[Instant] = []
    for segment in history:
        for event in events_of(segment):
            if event["type"] == "Released":
                recent = sum(segment.at - at < BURST_S * SECOND for at in times)
                if event["reasons"][-1] == "DEFAULT_PASS" and recent >= BURST_CAP:
                    yield f"{event['event_id']} went out at {stream} as one too many"
            if event["type"] in ("Released", "DigestReleased"):
                times.append(segment.at)


def _nights(stream: StreamId, history: list[Segment], lives: dict[int, Life]) -> Iterator[str]:
    """What is not critical does not go out in quiet hours that were in force."""
    is_quiet = False
    for segment in history:
        night = is_quiet and QUIET_FROM <= segment.at % DAY < QUIET_TO
        for event in events_of(segment):
            if event["type"] == "PreferencesSet":
                is_quiet = bool(event["preferences"].get("quiet_hours"))
            if night and event["type"] == "DigestReleased":
                yield f"a digest went out at {stream} in the night"
            if night and event["type"] == "Released" and not lives[event["item"]].is_critical:
                yield f"{event['event_id']} went out at {stream} in the night"


def _repeats(stream: StreamId, lives: dict[int, Life]) -> Iterator[str]:
    arrived = Counter(life.text for life in lives.values() if life.delivered and not life.is_critical)
    for text, count in arrived.items():
        if count > 1:
            yield f"{text} was told {count} times at {stream} within a day"


def _feeds(world: World, stream: StreamId, history: list[Segment]) -> Iterator[str]:
    """What was delivered in-app is in the feed, once."""
    at_once = [
        event
        for segment in history
        for event in events_of(segment)
        if event["type"] == "Delivered" and event.get("place") is None
    ]
    feed = world.server.database.histories.get(feed_stream(stream.tenant, stream.id), [])
    ids = [event["item"]["id"] for segment in feed for event in events_of(segment) if event["type"] == "MessageAdded"]
    if sorted(ids) != sorted(f"m{event['version']}" for event in at_once):
        yield f"the feed of {stream} has {ids} and was sent {[event['version'] for event in at_once]}"


NOTIFYING = Workload(
    name="notifications",
    deciders=DECIDERS,
    sections=SECTIONS,
    clients=clients,
    check=check_notifications,
    policy=orders,
    executors={f"deliver:{channel}": deliver for channel in ("push", "email", "sms")},
    is_settled=nothing_waits,
    fails_on=(Wake, Notify),
    may_write_nothing=(BanPerson, UnbanPerson, OpenIncident, CloseIncident),
)
