"""Dry runs against the writes that follow them: the same answer, segments, states, keys and effects, byte for byte.

Every random request that writes is sent twice: first as a dry run, which must leave the database as it is, then for
real. What the second commits is what the first said.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from betimes.app.dry_run import DryRun
from betimes.core.segments import Segment
from betimes.engine.batch import Batch
from betimes.engine.store import Changes, StreamWrite
from tests.http.isolation import KINDS, VOLATILE, Asked, difference, later, stable
from tests.http.populated import declare
from tests.http.served import Reply, Site, site
from tests.postgres import raw_connection

Mark = Callable[[], Awaitable[Any]]
"""Returns something that is another as soon as anything was written to the database."""
SECRETIVE = ("/v1/keys",)
"""What they write holds the digest of a secret that is made by chance."""
PASSES = ("/v1/tick", "/v1/scores/sweep")


def _id(random: Random) -> str:
    return f"x{random.randrange(4)}"


def _patch(random: Random, number: int) -> Asked:
    kind, field = random.choice((("schedules", "payload"), ("sensors", "payload"), ("intents", "action_context")))
    return Asked(
        "PATCH", f"/v1/{kind}/{_id(random)}", {field: {"n": number} if field == "payload" else f"Do {number}."}
    )


def _switch(random: Random, number: int) -> Asked:
    kind, verb = random.choice(("schedules", "sensors", "intents")), random.choice(("enable", "disable"))
    return Asked("POST", f"/v1/{kind}/{_id(random)}/{verb}")


def _worked(random: Random, number: int) -> Asked:
    one = f"/v1/intents/{_id(random)}"
    return random.choice(
        (
            Asked("POST", f"{one}/claim", {"worker": "w"}),
            Asked("POST", f"{one}/fire", {"status": random.choice(("success", "failed", "condition_not_met"))}),
            Asked("POST", f"/v1/runs/claim?limit={random.randrange(1, 4)}", {"worker": "w"}),
            Asked("POST", f"/v1/schedules/{_id(random)}/trigger", {}),
        )
    )


def _told(random: Random, number: int) -> Asked:
    user = f"/v1/users/{_id(random)}"
    return random.choice(
        (
            Asked("PUT", f"{user}/ban", {"reason": "spam"}),
            Asked("DELETE", f"{user}/ban"),
            Asked("POST", f"{user}/inbox/read", {"all": True}),
            Asked("PATCH", f"{user}/preferences", {"opt_out": {"event_types": random.choice(([], ["PROMO"]))}}),
            Asked("POST", f"/v1/notifications/e{random.randrange(number + 1)}/{random.choice(('cancel', 'release'))}"),
            Asked("POST", f"/v1/triggers/k{random.randrange(number + 1)}/cancel"),
            Asked("POST", "/v1/incidents", {"incident_id": f"i{random.randrange(3)}", "user_id": _id(random)}),
            Asked("DELETE", f"/v1/incidents/i{random.randrange(3)}"),
        )
    )


def _scored(random: Random, number: int) -> Asked:
    one = f"/v1/scores/{_id(random)}"
    return random.choice(
        (
            Asked("POST", "/v1/scores", {"user_id": _id(random), "score": random.randrange(1, 100)}),
            Asked("POST", f"{one}/adjust", {"delta": random.randrange(-20, 20), "reason": "test"}),
            Asked("POST", f"{one}/status", {"game_status": random.choice(("active", "boss_fight"))}),
            Asked("POST", f"/v1/accounts/{_id(random)}/actions", {"count": random.randrange(1, 5)}),
        )
    )


def _batch(random: Random, number: int) -> Asked:
    items = [random.choice(KINDS[:1])(random, number + place).body for place in range(random.randrange(1, 6))]
    return Asked("POST", "/v1/triggers", {"items": items})


def _ruled(random: Random, number: int) -> Asked:
    overrides = {"runs": {"daily_run_budget": random.randrange(1, 9)}, "notifications": {"jitter_s": number % 60}}
    entry = {"trigger_type": "SIGNAL_ARRIVED", "debounce_seconds": number % 90, "cooldown_seconds": number % 300}
    return random.choice(
        (
            Asked("PUT", "/v1/policy", {"overrides": overrides}),
            Asked("PUT", "/v1/registry", {"entries": [entry]}),
            Asked("POST", "/v1/keys", {"name": f"key {number}", "scopes": ["runs:read"]}),
        )
    )


MORE = (*KINDS, _patch, _switch, _worked, _worked, _told, _told, _scored, _batch, _ruled)


class Tried(NamedTuple):
    """How dry runs compared with the writes that followed."""

    answered: int
    """Writes that were answered 2xx."""
    written: int
    """Segments that were compared."""
    differences: list[str]


def writes(random: Random, count: int) -> Iterator[Asked]:
    """Make requests that write, of every domain."""
    while count:
        asked = random.choice(MORE)(random, random.randrange(10_000))
        if asked.method != "GET" and asked.target not in PASSES:
            count -= 1
            yield asked


async def compare_dry_runs(seed: int, count: int, url: str = "memory://", *, marked_every: int = 1) -> Tried:
    """Send every request as a dry run and then for real; return what differs.

    Before and after each `marked_every`th dry run every row of the database is read, except in memory.
    """
    random, mark = Random(seed), None if url.startswith("memory") else mark_of(url)
    tried = Tried(0, 0, [])
    async with site(url=url, declare=declare) as s:
        watch = Watch(s)
        for number, asked in enumerate(writes(random, count)):
            looks = mark if number % marked_every == 0 else None
            before = await looks() if looks else None
            dry = await watch.send(asked, number, betimes_dry_run="true")
            if looks and await looks() != before:
                tried.differences.append(f"{asked}: the dry run changed the database")
            trial = watch.trial
            real = await watch.send(asked, number)
            found = [*_compare_answers(asked, dry, real)]
            if trial and asked.target not in SECRETIVE:
                found += _compare_writes(trial, watch.commits)
            tried.differences.extend(f"{asked} (request {number}): {one}" for one in found)
            written = len(trial.engine.trial.segments) if trial else 0  # type: ignore[attr-defined]
            tried = Tried(tried.answered + (real.status < 300), tried.written + written, tried.differences)
            await later(s, random.choice((0, 0, 1, 30, 600)))
    return tried


class Watch:
    """A site whose dry runs and commits are seen."""

    def __init__(self, s: Site) -> None:
        self._site = s
        self.trial: DryRun | None = None
        self.commits: list[Changes] = []
        opened, transactions = s.bt.dry_run, s.bt.engine._queue._transactions
        handed_on = transactions.on_commit

        def dry_run(*args: Any, **kwargs: Any) -> DryRun:
            self.trial = opened(*args, **kwargs)
            return self.trial

        def on_commit(batch: Batch) -> None:
            self.commits.append(batch.changes)
            handed_on(batch)

        s.bt.dry_run = dry_run  # type: ignore[method-assign]
        transactions.on_commit = on_commit

    async def send(self, asked: Asked, number: int, **headers: str) -> Reply:
        if headers:
            self.trial = None
        self.commits.clear()
        return await self._site.client(asked.method, asked.target, asked.body, x_correlation_id=f"c{number}", **headers)


def _compare_answers(asked: Asked, dry: Reply, real: Reply) -> Iterator[str]:
    # The run that a tick asks for is read while it still changes: its command is applied after the tick's commit.
    without = VOLATILE | ({"run"} if asked.target.endswith("/trigger") else set())
    if dry.status >= 400 or real.status >= 400:
        if (dry.status, stable(dry.json)) != (real.status, stable(real.json) if real.raw else None):
            yield f"dry {dry.status} {dry.raw[:300]!r}, then {real.status} {real.raw[:300]!r}"
        return
    said, told = stable(dry.json["body"], without), stable(real.json, without) if real.raw else None
    if (dry.json["status"], said) != (real.status, told):
        yield f"dry {dry.json['status']}, then {real.status}: {difference(said, told)}"


def _compare_writes(trial: DryRun, commits: list[Changes]) -> Iterator[str]:
    """Compare what was kept by the dry run with the commits of the write; what followed from those is not of it."""
    store = trial.engine.trial  # type: ignore[attr-defined]
    segments = {(one.stream, one.version): _plain(one) for commit in commits for one in commit.segments}
    effects = {write.id: write for commit in commits for write in commit.effects}
    rows = {(row.stream, row.version): row for commit in commits for row in commit.streams}
    for segment in store.segments:
        written = segments.pop((segment.stream, segment.version), None)
        if written != _plain(segment):
            yield f"segment {segment.handle}: {_plain(segment)} and {written}"
    yield from (f"not in the dry run: {one.handle}" for one in segments.values() if not one.cause)
    sources = {(one.stream, one.version) for one in store.segments}
    for write in store.effects_written:
        if effects.pop(write.id, None) != write:
            yield f"effect {write.id.handle} differs"
    yield from (f"no effect of the dry run: {id.handle}" for id in effects if (id.source, id.version) in sources)
    for row in store.rows.values():
        if _without_chain(rows.get((row.stream, row.version))) != _without_chain(row):
            yield f"the row of {row.stream} differs"


def _plain(segment: Segment) -> Segment:
    """Leave out what is of the process that wrote it, and the digests that hold it."""
    return replace(segment, turn="", digest="", prev="", seq=0)


def _without_chain(row: StreamWrite | None) -> StreamWrite | None:
    """Leave out the digest, and how many versions the commit spans: the writes of a batch share one."""
    return row and replace(row, digest="", expected=0)


# -- marks


def mark_of(url: str) -> Mark:
    """Return every row of every table of a database, in a hash."""
    return _sqlite_mark(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else _postgres_mark(url)


def _sqlite_mark(path: str) -> Mark:
    async def mark() -> str:
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            rows = [connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables]
        return sha256(repr(rows).encode()).hexdigest()

    return mark


def _postgres_mark(dsn: str) -> Mark:
    async def mark() -> str:
        async with raw_connection(dsn) as connection:
            names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            rows = [
                await connection.fetch(f"SELECT t::text FROM {name} t ORDER BY 1")
                for name in sorted(row["tablename"] for row in names)
            ]
        return sha256(repr(rows).encode()).hexdigest()

    return mark
