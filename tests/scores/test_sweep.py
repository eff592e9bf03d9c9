"""Sweeps on every store: all that is due, once, by any number of sweepers, past whatever fails."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from betimes.core.deciders import EffectCall
from betimes.core.streams import StreamId
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery, LedgerQuery
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.engine.transactions import SweepPosition
from betimes.scores.model import SweepScore
from betimes.scores.service import Interaction, NewScore, Scores
from betimes.scores.sweep import SweepRequest, SweepResult, sweeper
from tests.engine.worlds import World
from tests.scores.test_service import overdue
from tests.scores.worlds import ACME, scores_world
from tests.stores.backends import Backend


async def decays(w: World) -> list[tuple[str, int]]:
    """Who decayed, and at which version."""
    segments = await w.store.ledger(LedgerQuery(kind="score", limit=1_000))
    return [(segment.stream.id, segment.version) for segment in segments if '"Decayed"' in segment.events]


async def test_an_hourly_sweep_checks_everybody_who_is_overdue(backend: Backend, tmp_path: Path) -> None:
    """AC-FR004-001, AC-T5.1, AC-T5.4, AC-T5.5, AC-T8.4"""
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"o{n}", n + 1) for n in range(5)])
        await scores.create_many([NewScore(user_id=f"f{n}") for n in range(5)])
        await scores.create(overdue("last", 10, score=Decimal(3)))
        told: list[SweepResult] = []
        assert await scores.sweep(progress=told.append) == SweepResult(6, 6, 0, 1, 0, 0, complete=True)
        assert told[-1].processed == 6
        assert await scores.sweep() == SweepResult()
        left = [(await scores.get(f"o{n}")).score for n in range(5)]
        assert left == [Decimal(50) - Decimal("0.8") * (n + 1) for n in range(5)]
        w.clock.advance(3600)
        assert (await scores.sweep()).decayed == 5
        assert (await scores.get("f0")).score == 50
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_1000_overdue_users_are_swept_in_batches_each_correctly(backend: Backend, tmp_path: Path) -> None:
    """AC-FR004-002, AC-T5.3"""
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"u{n}", n / 60) for n in range(1, 1001)])
        told: list[SweepResult] = []
        assert await scores.sweep(batch=64, progress=told.append) == SweepResult(1000, 1000, 0, 0, 0, 0, complete=True)
        assert [result.processed for result in told[:3]] == [64, 128, 192]
        page = await scores.list(limit=200)
        for score in page.items:
            minutes = int(score.user_id[1:])
            assert score.score == Decimal(50) - _lost(minutes)
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_what_becomes_due_behind_a_sweep_is_taken_by_the_same_sweep(backend: Backend, tmp_path: Path) -> None:
    """A batch goes on where the last one stopped; at the end whatever lies behind is looked for once more."""
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 10 - n) for n in range(4)])
        position, until_at = SweepPosition(), await w.store.now()

        async def batch(size: int) -> list[str]:
            done = await w.engine.submit_due(
                ("score",), lambda stream: SweepScore(until_at), size, until_at=until_at, position=position
            )
            return [recorded.stream.id for recorded in done]

        assert await batch(3) == ["u0", "u1", "u2"]
        await scores.create(overdue("older", 20))
        assert sorted([*await batch(3), *await batch(3)]) == ["older", "u3"], "which comes first is the store's to say"
        await scores.create_many([overdue("newer", 1), overdue("oldest", 30)])
        assert await scores.sweep(batch=1) == SweepResult(2, 2, 0, 0, 0, 0, complete=True)


def _lost(minutes: int) -> Decimal:
    """Chapter 1 by hand: 0.8 points an hour, at most 15 a day, rounded down to 6 decimals."""
    whole, rest = divmod(Decimal(minutes), 1440)
    part = (rest * Decimal("0.8") / 60).quantize(Decimal("0.000001"), "ROUND_DOWN")
    return min(whole * 15 + min(part, Decimal(15)), Decimal(20))


async def test_paused_scores_are_not_even_read(backend: Backend, tmp_path: Path) -> None:
    """AC-T5.2, AC-T7.2, AC-FR009-001"""
    async with scores_world(backend, tmp_path) as (_, scores):
        for status in ("boss_fight", "game_over", "won"):
            await scores.create(overdue(status, 500, game_status=status))
        assert await scores.sweep() == SweepResult()


async def test_two_sweepers_share_the_work_and_apply_each_period_once(backend: Backend, tmp_path: Path) -> None:
    """AC-T6.4"""
    async with scores_world(backend, tmp_path) as (w, scores):
        other = Scores(w.other, ACME)
        await scores.create_many([overdue(f"u{n}", 5) for n in range(200)])
        both = await asyncio.gather(scores.sweep(batch=10), other.sweep(batch=10))
        assert sum(result.decayed for result in both) == 200
        assert sorted(await decays(w)) == sorted((f"u{n}", 2) for n in range(200))


async def test_a_sweep_that_was_cut_off_is_gone_on_with_and_nothing_is_done_twice(
    backend: Backend, tmp_path: Path
) -> None:
    """AC-FR004-003"""
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(30)])
        first = await scores.sweep(SweepRequest(limit=10))
        assert first == SweepResult(10, 10, 0, 0, 0, 0, complete=False)
        assert await Scores(w.other, ACME).sweep() == SweepResult(20, 20, 0, 0, 0, 0, complete=True)
        assert len(set(await decays(w))) == len(await decays(w)) == 30


async def test_a_tenants_sweep_is_its_own_and_a_deployments_is_everybodys(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        for tenant in ("acme", "bolt", "cola"):
            await Scores(w.engine, Caller(tenant)).create(overdue("u", 5))
        assert (await scores.sweep()).decayed == 1
        assert (await Scores(w.engine, Caller("*")).sweep()).decayed == 2


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(7)])
        await scores.create(overdue("last", 10, score=Decimal(3)))
        expected = SweepResult(8, 8, 0, 1, 0, 0, complete=True)
        assert await scores.sweep(SweepRequest(dry_run=True)) == expected
        assert await decays(w) == []
        limited = await scores.sweep(SweepRequest(dry_run=True, limit=3))
        assert (limited.processed, limited.complete) == (3, False)
        assert await scores.sweep() == expected


async def test_a_score_that_fails_is_counted_and_left_and_the_others_go_on(backend: Backend, tmp_path: Path) -> None:
    """AC-T8.5"""
    async with scores_world(backend, tmp_path, settings=EngineSettings(batch_max=4)) as (w, scores):
        await scores.create_many([overdue(f"bad{n}", 300, chapter=5) for n in range(9)])
        await scores.create_many([overdue(f"ok{n}", 5) for n in range(9)])
        stages = [{"name": 1, "grace_hours": 24, "rate": 0.8, "daily_cap": 15}]
        await w.submit(SetPolicy({"scores": {"stages": stages}}), tenant_stream("acme"))
        assert await scores.sweep() == SweepResult(18, 9, 0, 0, 0, 9, complete=True)
        assert {user for user, _ in await decays(w)} == {f"ok{n}" for n in range(9)}
        assert "job_failed" in w.reported()
        assert (await w.state(StreamId("acme", "score", "bad0"))).score == 50_000_000


async def test_scores_that_fail_do_not_stand_before_the_others_in_a_limited_sweep(
    backend: Backend, tmp_path: Path
) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"bad{n}", 300, chapter=5) for n in range(5)])
        await scores.create_many([overdue(f"ok{n}", 5) for n in range(3)])
        stages = [{"name": 1, "grace_hours": 24, "rate": 0.8, "daily_cap": 15}]
        await w.submit(SetPolicy({"scores": {"stages": stages}}), tenant_stream("acme"))
        first = await scores.sweep(SweepRequest(limit=2))
        assert (first.decayed, first.complete) == (2, False)
        second = await scores.sweep(SweepRequest(limit=2))
        assert (second.decayed, second.complete) == (1, True)


async def test_a_full_queue_is_not_a_failure_of_a_score(backend: Backend, tmp_path: Path) -> None:
    settings = EngineSettings(batch_max=4, queue_max=8)
    async with scores_world(backend, tmp_path, settings=settings) as (w, scores):
        await scores.create(overdue("bad", 300, chapter=5))
        await scores.create_many([overdue(f"ok{n}", 5) for n in range(30)])
        stages = [{"name": 1, "grace_hours": 24, "rate": 0.8, "daily_cap": 15}]
        await w.submit(SetPolicy({"scores": {"stages": stages}}), tenant_stream("acme"))
        assert await scores.sweep() == SweepResult(31, 30, 0, 0, 0, 1, complete=True)


async def test_a_score_at_0_in_a_status_that_is_not_a_pause_any_more_does_not_keep_a_sweep_going(
    backend: Backend, tmp_path: Path
) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create(NewScore(user_id="ann", score=Decimal(0), game_status="game_over"))
        section = {"paused_statuses": ["over"], "game_over_status": "over"}
        await w.submit(SetPolicy({"scores": section}), tenant_stream("acme"))
        await scores.interact("ann", Interaction(type="text"))
        w.clock.advance(30 * 3600)
        assert await scores.sweep() == SweepResult()


async def test_scores_that_are_not_due_under_a_new_policy_are_skipped_once(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        await scores.create_many([overdue(f"u{n}", 5) for n in range(3)])
        stages = [{"name": 1, "grace_hours": 100, "rate": 0.8, "daily_cap": 15}]
        await w.submit(SetPolicy({"scores": {"stages": stages}}), tenant_stream("acme"))
        assert await scores.sweep() == SweepResult(3, 0, 0, 0, 3, 0, complete=True)
        assert await scores.sweep() == SweepResult()


async def test_decays_that_reach_the_cap_per_cycle_are_counted_and_warned_of_once_a_sweep(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scores_world(backend, tmp_path) as (_, scores):
        await scores.create_many([overdue(f"u{n}", 24 * 7) for n in range(5)])
        await scores.create(overdue("ann", 2))
        with caplog.at_level(logging.WARNING):
            dry = await scores.sweep(SweepRequest(dry_run=True))
            assert await scores.sweep(batch=2) == SweepResult(6, 6, 5, 0, 0, 0, complete=True) == dry
        [line] = [record.getMessage() for record in caplog.records if "cap per cycle" in record.getMessage()]
        assert "5 scores" in line
        assert (await scores.get("u0")).score == 30


async def test_sweeping_every_minute_of_an_hour_equals_sweeping_once(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (w, scores):
        often, once = scores, Scores(w.other, Caller("bolt"))
        for service in (often, once):
            await service.create_many([overdue(f"u{n}", n) for n in range(1, 20)])
        for _ in range(60):
            await often.sweep()
            w.clock.advance(60)
        for service in (often, once):
            await service.sweep()
        left = [[score.score for score in (await service.list()).items] for service in (often, once)]
        assert left[0] == left[1]


async def test_an_interaction_between_two_batches_is_not_swept_over(backend: Backend, tmp_path: Path) -> None:
    async with scores_world(backend, tmp_path) as (_, scores):
        await scores.create_many([overdue("a", 6), overdue("b", 5)])
        await scores.sweep(SweepRequest(limit=1))
        await scores.interact("b", Interaction(type="voice"))
        assert (await scores.sweep()).processed == 0
        assert (await scores.get("b")).score == Decimal(46)


async def test_a_hook_on_a_threshold_reaches_its_handler_once(backend: Backend, tmp_path: Path) -> None:
    heard: list[Any] = []

    async def tell(call: EffectCall) -> None:
        heard.append(call.payload)

    body = {"hooks": [{"on": ["SCORE_THRESHOLD", "GAME_OVER"], "target": {"kind": "handler", "name": "tell"}}]}
    async with scores_world(backend, tmp_path, body=body, executors={"handler:tell": tell}) as (w, scores):
        await scores.create(overdue("ann", 5, score=Decimal(41)))
        await scores.create(overdue("bob", 5, score=Decimal(1)))
        await scores.sweep()
        await scores.sweep()
        await w.engine.tick()
        told = [(said["detail-type"], said["detail"]["user_id"]) for said in heard]
        assert sorted(told) == [("GAME_OVER", "bob"), ("SCORE_THRESHOLD", "ann")]


async def test_the_target_sweep_is_carried_out_by_its_executor(backend: Backend, tmp_path: Path) -> None:
    engines: list[Engine] = []
    body = {"hooks": [{"on": ["GAME_OVER"], "target": {"kind": "sweep"}}]}
    executors = {"sweep": sweeper(lambda: engines[0])}
    async with scores_world(backend, tmp_path, body=body, executors=executors) as (w, scores):
        engines.append(w.engine)
        await scores.create(overdue("first", 500, score=Decimal(1)))
        await scores.create_many([overdue(f"u{n}", 5) for n in range(5)])
        await scores.sweep(SweepRequest(limit=1))
        assert (await w.engine.tick()).effects == {"done": 1}
        assert len(await decays(w)) == 6
        [effect] = await w.store.effects(EffectQuery(executor="sweep"))
        assert effect.status == "done"


async def written(w: World, tenant: str) -> list[tuple[Any, ...]]:
    """What the ledger says of a tenant's scores, without what differs between any two turns."""
    segments = await w.store.ledger(LedgerQuery(tenant=tenant, kind="score", limit=1_000))
    return sorted((s.stream.id, s.version, s.command, s.events, s.reply, s.verdict, s.policy) for s in segments)


async def test_a_sweep_writes_what_deciding_one_by_one_writes(backend: Backend, tmp_path: Path) -> None:
    """The plain path of a pass and the path of a single command differ in nothing but the turn's name."""
    async with scores_world(backend, tmp_path) as (w, scores):
        other = Scores(w.engine, Caller("bolt", actor="test"))
        for service in (scores, other):
            await service.create_many([overdue(f"u{n}", n * 7, score=Decimal(n)) for n in range(1, 40)])
        now = await w.store.now()
        await scores.sweep()
        for n in range(1, 40):
            await w.submit(SweepScore(now), StreamId("bolt", "score", f"u{n}"))
        assert await written(w, "acme") == await written(w, "bolt")
        assert (await verify(w.store, w.engine.kinds)).is_sound


async def test_the_scores_of_one_tenant_delay_anothers_by_a_few_batches(backend: Backend, tmp_path: Path) -> None:
    swept: list[str] = []
    settings = EngineSettings(batch_max=8)
    async with scores_world(backend, tmp_path, settings=settings) as (w, loud):
        await loud.create_many([overdue(f"u{n}", 20 + n / 60) for n in range(80)])
        await Scores(w.engine, Caller("quiet")).create(overdue("ann", 1))
        w.engine._queue.observe = lambda written: swept.extend(segment.stream.tenant for segment, _, _ in written)
        assert (await Scores(w.engine, Caller("*")).sweep()).decayed == 81
    behind = swept.index("quiet")
    assert behind <= 2 * settings.batch_max, f"{behind} of 80 scores of the other tenant were swept first"
