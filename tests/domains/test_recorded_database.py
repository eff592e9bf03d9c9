"""A database that older code filled opens, replays byte for byte, reads, and goes on.

`recordings/all_domains_at_schema_1.dump` is the dump of a SQLite database that was made through the Python API when the
schema had one migration. Everything was in use and much of it waiting: deferred and capped triggers, a claimed run,
notifications held by quiet hours and digests, open incidents, cooling and claimed intents, schedules, a running and a
paused backfill, sensors, scores, hooks, policies, keys, a dead letter. It is never made again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from betimes.app.betimes import Betimes
from betimes.app.settings import Settings
from betimes.backtest.plan import Candidate, Plan
from betimes.catalogue import readable_areas
from betimes.core.instants import parse
from betimes.core.segments import Segment
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.effects import EffectFilters, Effects
from betimes.ledger.service import Ledger, LedgerFilters
from betimes.outbound.channels import ChannelSettings, LogChannel
from tests.backtest.recordings import POLICY

EVERY_DOMAIN = readable_areas(("admin",))

DUMP = Path(__file__).with_name("recordings") / "all_domains_at_schema_1.dump"
RECORDED_UNTIL = "2026-03-27T21:05:13Z"
WEEK_S = 7 * 86_400
SAME = (Candidate("same", POLICY),)


def restore(path: Path) -> None:
    """Make the recorded database at a path."""
    connection = sqlite3.connect(path)
    connection.executescript(DUMP.read_text(encoding="utf-8"))
    connection.close()


def states(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT tenant, kind, id, version, state FROM stream ORDER BY 1, 2, 3").fetchall()
    connection.close()
    return found


@asynccontextmanager
async def reopened(folder: Path) -> AsyncIterator[Betimes]:
    """The application that left the database, by today's code."""
    path = folder / "betimes.db"
    restore(path)
    channels = {name: LogChannel() for name in ("push", "email", "sms")}
    bt = Betimes(
        f"sqlite:///{path}",
        clock=VirtualClock(RECORDED_UNTIL),
        policy=POLICY,
        settings=Settings(channels=ChannelSettings(channels=channels)),
        report=lambda report: None,
    )
    bt.handler("think")(lambda call: {"thought": 1})
    bt.handler("note")(lambda call: None)
    bt.source("price")(lambda ticker: Decimal(128))
    bt.declared.evaluators.evaluator("look")(_look)
    async with bt:
        yield bt


async def _look(asked: Any, context: Any) -> dict[str, Any]:
    return {"run_requests": [], "cursor": "seen"}


async def assert_sound(bt: Betimes) -> None:
    report = await verify(bt.engine.store, bt.engine.kinds)
    assert report.is_sound, report.findings
    assert report.streams >= 74


async def pages(read: Callable[..., Awaitable[Any]], *args: Any) -> list[Any]:
    """Everything on a list, page by page."""
    page = await read(*args, limit=20)
    found = list(page.items)
    while page.next_cursor:
        page = await read(*args, limit=20, cursor=page.next_cursor)
        found += page.items
    return found


async def segments(bt: Betimes) -> list[Segment]:
    found: list[Segment] = []
    while page := await bt.engine.store.ledger(LedgerQuery(after=found[-1].seq if found else 0, limit=500)):
        found += page
    return found


async def read_everything(bt: Betimes) -> Counter[str]:
    """Read each list to its end and each thing on it; how many of each there are."""
    caller, seen = Caller("default"), Counter[str]()
    effects, ledger = Effects(bt.engine, caller, EVERY_DOMAIN), Ledger(bt.engine, caller, EVERY_DOMAIN)
    details: list[tuple[str, Any, Any, Any, list[Any]]] = [
        ("run", bt.runs.runs, "run_id", bt.runs.run, []),
        ("intent", bt.intents.list, "intent_id", bt.intents.get, [bt.intents.history]),
        ("schedule", bt.schedules.list, "schedule_id", bt.schedules.get, [bt.schedules.ticks, bt.schedules.backfills]),
        ("sensor", bt.sensors.list, "sensor_id", bt.sensors.get, [bt.sensors.evaluations]),
        ("score", bt.scores.list, "user_id", bt.scores.get, [bt.scores.history]),
    ]
    for name, read, id_field, get, below in details:
        for item in await pages(read):
            seen[name] += 1
            await get(getattr(item, id_field))
            for inner in below:
                seen[inner.__name__] += len(await pages(inner, getattr(item, id_field)))
    for effect in await pages(effects.effects, EffectFilters()):
        seen[effect.status] += 1
        await effects.effect(effect.effect_id)
    seen["segment"] = len(await pages(ledger.segments, LedgerFilters()))
    seen["pending"] = len(await pages(bt.intents.pending))
    seen["incident"] = len(await pages(bt.notifications.incidents))
    seen["key"] = len(await bt.mine.tenants.keys())
    for stream in {segment.stream for segment in await segments(bt)}:
        if stream.kind == "inbox":
            await bt.notifications.preferences(stream.id)
            await bt.notifications.inbox(stream.id)
            seen["waiting"] += len((await bt.notifications.notification_state(stream.id)).waiting)
        if stream.kind == "account":
            seen["deferred"] += len((await bt.runs.run_state(stream.id)).deferred)
    return seen


async def test_opening_changes_no_state_and_replays_byte_for_byte(tmp_path: Path) -> None:
    async with reopened(tmp_path) as bt:
        await assert_sound(bt)
    restore(tmp_path / "recorded.db")
    assert states(tmp_path / "betimes.db") == states(tmp_path / "recorded.db")


async def test_every_list_reads_before_and_after_a_week(tmp_path: Path) -> None:
    async with reopened(tmp_path) as bt:
        before = await read_everything(bt)
        assert min(before[name] for name in ("run", "schedule", "sensor", "intent", "score", "key", "dead")) > 0
        assert min(before[name] for name in ("waiting", "deferred", "incident", "backfills", "ticks")) > 0
        assert (await bt.advance(by_s=WEEK_S)).complete
        await assert_sound(bt)
        after = await read_everything(bt)
    passing = {"waiting", "deferred", "incident", "pending"}
    assert all(after[name] >= count for name, count in before.items() if name not in passing)
    assert (after["deferred"], after["incident"]) == (0, 0), "what waited had its turn"


async def test_every_recorded_verdict_explains_itself(tmp_path: Path) -> None:
    async with reopened(tmp_path) as bt:
        ledger = Ledger(bt.engine, Caller("default"), EVERY_DOMAIN)
        for segment in await segments(bt):
            if segment.stream.tenant == "default":
                told = await ledger.explain(segment.handle)
                assert told.summary
                assert "?" not in told.summary
                assert all(step.rule for step in told.trace)
            if segment.key and segment.key.collection == "notifications":
                assert (await bt.notifications.notification(segment.key.key)).judgements
            if segment.key and segment.key.collection == "triggers":
                assert (await bt.runs.trigger_status(segment.key.key)).verdict


async def test_what_waited_is_heard_once_at_the_promised_time(tmp_path: Path) -> None:
    async with reopened(tmp_path) as bt:
        held = await bt.notifications.notification("last-1")
        assert (held.status, held.reasons) == ("waiting", ("QUIET_HOURS",))
        await bt.advance(by_s=86_400)
        heard = await bt.notifications.notification("last-1")
        assert (heard.status, heard.reasons) == ("delivered", ("QUIET_HOURS", "DEFAULT_PASS"))
        assert [judged.outcome for judged in heard.judgements] == ["LATER", "NOW"]


async def test_a_backtest_runs_over_old_and_new_history_and_reproduces_the_new(tmp_path: Path) -> None:
    async with reopened(tmp_path) as bt:
        await bt.advance(by_s=86_400)
        whole = await bt.backtest(Plan(candidates=SAME))
        since = await bt.backtest(Plan(candidates=SAME, since_at=parse(RECORDED_UNTIL)))
    assert whole.control.segments > since.control.segments > 0
    assert (whole.control.refused, whole.candidates[0].refused) == ({}, {})
    assert since.control.reproduced
    assert since.candidates[0].flip_count == 0
