"""Notifications: full classifications a second with durable reasons, next to the same by hand and to bare windows.

Every person has a zone, quiet hours and a few deliveries in the past; texts are new ones, so each is hashed and
fingerprinted. `windows` are the three fatigue caps alone, by `limits`' moving windows in memory: no reasons, no record.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from statistics import median
from typing import Any

import apsw
import asyncpg
import msgspec

from benchmarks.domains.notifications_by_hand import Asked, ByHand, by_hand
from benchmarks.measuring import STRIDE
from benchmarks.places import PLACES, TENANT, Place
from betimes.core.canonical import encode
from betimes.core.errors import BetimesError
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.notifications.decide import DECIDERS
from betimes.notifications.fingerprints import exact_hash, fingerprint, normalise_text
from betimes.notifications.model import NOTIFICATIONS, InboxState, Notify, Preferences
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.quiet_hours import QuietHours

ROUNDS = 3
BATCH = 256
SECTIONS: dict[str, type[msgspec.Struct]] = {"notifications": NotificationsPolicy, "hooks": Hooks}
PAST = tuple(1_767_603_600_000_000 + minute * 60_000_000 for minute in range(6))
PERSON = encode(
    InboxState(
        preferences=Preferences("Europe/Berlin", (QuietHours(22 * 60, 7 * 60, (5, 6)),)),
        delivered=PAST,
        used={"push": PAST},
        last_by_type={"MESSAGE": PAST[-1]},
    )
)
PLACES_TOLD = ("Lisbon", "Oslo", "Gera", "Lyon", "Rome", "Peru", "Kenya", "Dublin", "Madrid", "Vienna")
THINGS = ("parcel", "flight", "invoice", "order", "review", "meeting", "login", "backup", "ticket", "payment")
_names = count(1)

_SQLITE = """
WITH RECURSIVE numbers(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM numbers WHERE x + 1 < :people)
INSERT INTO stream (tenant, kind, id, version, schema, owner, status, created_at, at, digest, state)
SELECT :tenant, 'inbox', 'u' || x, 1, 1, '', '', 1767603600000000, 1767603600000000, hex(randomblob(32)), :state
FROM numbers
"""
_POSTGRES = """
INSERT INTO {schema}.stream (tenant, kind, id, version, schema, created_at, at, digest, state)
SELECT $1, 'inbox', 'u' || x, 1, 1, 1767603600000000, 1767603600000000, encode(sha256(x::text::bytea), 'hex'), $2
FROM generate_series(0, $3::bigint - 1) x
"""


async def fill(place: Place, people: int) -> None:
    """So many inboxes, each with a past."""
    if place.kind == "sqlite":
        connection = apsw.Connection(place.path)
        connection.pragma("synchronous", "OFF")
        with connection:
            connection.execute(_SQLITE, {"people": people, "tenant": TENANT, "state": PERSON})
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()
        return
    server = await asyncpg.connect(place.path)
    await server.execute(_POSTGRES.format(schema=place.schema), TENANT, PERSON, people)
    await server.execute(f"VACUUM ANALYZE {place.schema}.stream")
    await server.execute("CHECKPOINT")
    await server.close()


def notifications(prefix: str, people: int) -> Iterator[Asked]:
    """Endless notifications, each with a new id and a new text, to people in an order no page keeps together."""
    for n in count():
        thing, where = THINGS[n % 10], PLACES_TOLD[n // 10 % 10]
        text = f"Your {thing} number {n} from {where} was changed today, please look at it before the evening"
        note = Notify("MESSAGE", f"News about your {thing}", text, "bench", ("push", "email"), "HIGH")
        yield f"u{n * STRIDE % people}", f"{prefix}-{n}", note


async def through_engine(engine: Engine, source: Iterator[Asked], total: int) -> float:
    started = time.perf_counter()
    for _ in range(total // BATCH):
        for answer in await engine.submit_many([_submission(*next(source)) for _ in range(BATCH)]):
            if isinstance(answer, BetimesError):
                raise answer
    return total // BATCH * BATCH / (time.perf_counter() - started)


def _submission(person: str, key: str, command: Notify) -> Submission:
    stream = StreamId(TENANT, "inbox", person)
    return Submission(stream=stream, command=command, key=key, collection=NOTIFICATIONS, request=person)


async def through_hands(loop: ByHand, source: Iterator[Asked], total: int) -> float:
    started = time.perf_counter()
    for _ in range(total // BATCH):
        await loop.run([next(source) for _ in range(BATCH)])
    return total // BATCH * BATCH / (time.perf_counter() - started)


def through_windows(people: int, total: int) -> float:
    """Only the three caps, in memory."""
    from limits import RateLimitItemPerDay, RateLimitItemPerHour, RateLimitItemPerMinute
    from limits.storage import MemoryStorage
    from limits.strategies import MovingWindowRateLimiter

    limiter = MovingWindowRateLimiter(MemoryStorage())
    caps = (RateLimitItemPerDay(30), RateLimitItemPerHour(10), RateLimitItemPerMinute(3, 5))
    started = time.perf_counter()
    for n in range(total):
        person = f"u{n * STRIDE % people}"
        if all(limiter.test(cap, person) for cap in caps):
            for cap in caps:
                limiter.hit(cap, person)
    return total / (time.perf_counter() - started)


def fingerprinting_us(source: Iterator[Asked], total: int) -> float:
    """What hashing and fingerprinting one text costs, by itself."""
    notes = [next(source)[2] for _ in range(total)]
    started = time.perf_counter()
    for note in notes:
        title, message = normalise_text(note.title), normalise_text(note.message)
        exact_hash("u1", note.event_type, note.source, title, message)
        fingerprint(f"{title} {message}", 4, 3)
    return (time.perf_counter() - started) * 1e6 / total


async def classifications(kind: str, scale: float) -> list[dict[str, Any]]:
    """Classifications a second at 10k and 1M people, next to the same by hand and to three moving windows alone."""
    return [await _measured(kind, max(1_000, int(people * min(scale, 1))), scale) for people in (10_000, 1_000_000)]


async def _measured(kind: str, people: int, scale: float) -> dict[str, Any]:
    total = max(BATCH * 4, int(10_000 * scale) // BATCH * BATCH)
    policy = PolicyBook(SECTIONS).effective({})
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(PLACES[kind]())
        await fill(place, people)
        name = f"bench-notifications{next(_names)}"
        engine = await stack.enter_async_context(Engine(place.store(), DECIDERS, name=name, sections=SECTIONS))
        loop = await by_hand(place, policy)
        source = notifications("n", people)
        contestants: dict[str, Callable[[], Awaitable[float]]] = {
            "engine_per_s": lambda: through_engine(engine, source, total),
            "by_hand_per_s": lambda: through_hands(loop, source, total),
        }
        rates: dict[str, list[float]] = {"engine_per_s": [], "by_hand_per_s": [], "windows_per_s": []}
        shares = []
        await through_engine(engine, source, BATCH * 2)
        for _ in range(ROUNDS):
            for contestant, run in contestants.items():
                rates[contestant].append(await run())
            rates["windows_per_s"].append(through_windows(people, total))
            shares.append(fingerprinting_us(source, 2_000) * rates["engine_per_s"][-1] / 1e6)
        await loop.close()
    return _row(kind, people, rates, shares)


def _row(kind: str, people: int, rates: dict[str, list[float]], shares: list[float]) -> dict[str, Any]:
    ours = rates["engine_per_s"]
    row: dict[str, Any] = {"store": kind, "people": people} | {name: median(runs) for name, runs in rates.items()}
    for other in ("by_hand", "windows"):
        row[f"engine_over_{other}"] = median(a / b for a, b in zip(ours, rates[f"{other}_per_s"], strict=True))
    return row | {"fingerprinting_share": median(shares)}


SUITES = {"notifications": classifications}
