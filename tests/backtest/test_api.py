"""Backtests over HTTP: asked for, carried out by a worker, kept; in virtual time, or by a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.admin.service import PolicyRequest
from betimes.app import backtests
from betimes.app.betimes import Betimes
from betimes.app.routes import ROUTES
from betimes.app.settings import Settings
from betimes.backtest import jobs
from betimes.backtest import speed as speed_module
from betimes.backtest.executor import BACKTESTS_MAX, backtester, fitting
from betimes.backtest.jobs import BacktestRequest, Backtests
from betimes.backtest.model import EXECUTOR, KEPT_MAX, LEASE_S
from betimes.backtest.plan import Plan, planned
from betimes.backtest.report import BacktestReport
from betimes.backtest.speed import DECISIONS_PER_S, BacktestSpeed
from betimes.core.canonical import encode
from betimes.core.errors import TooLarge
from betimes.domain.service import Caller
from betimes.engine.pruning import Retention, prune
from betimes.engine.replay import verify
from betimes.engine.settings import EngineSettings
from betimes.http.server import serve
from tests.backtest.recordings import Live, notifications, recorded, runs
from tests.cli.running import Server, serving
from tests.http.served import Client
from tests.http.test_auth import made
from tests.patience import HANGS_S

STRICT = {"runs": {"daily_run_budget": 1}}
ASKED = {"policy": STRICT}


class Office:
    """A recording, served."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.bt = live.bt
        self.application = serve(live.bt, ROUTES, dev=True)
        self.client = Client(self.application)

    async def asked(self, body: Any = ASKED, client: Client | None = None) -> str:
        reply = await (client or self.client)("POST", "/v1/backtests", body)
        assert reply.status == 202, reply.raw
        return str(reply.json["backtest_id"])

    async def made(self, body: Any = ASKED) -> Any:
        backtest_id = await self.asked(body)
        await self.bt.tick()
        return (await self.client("GET", f"/v1/backtests/{backtest_id}")).json


@asynccontextmanager
async def office(steps: int = 12, **more: Any) -> AsyncIterator[Office]:
    async with recorded(runs, notifications, steps=steps, **more) as live:
        yield Office(live)


async def test_an_estimate_goes_by_the_speed_of_the_backtests_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = BacktestSpeed()
    for module in (jobs, backtests):
        monkeypatch.setattr(module, "SPEED", speed)
    monkeypatch.setattr(speed_module, "DECISIONS_MIN", 10)
    async with office() as o:
        first = (await o.client("POST", "/v1/backtests/estimate", ASKED)).json
        assert (first["measured"], first["decisions_per_s"]) == (False, DECISIONS_PER_S)
        await o.made()
        then = (await o.client("POST", "/v1/backtests/estimate", ASKED)).json
        assert (then["measured"], then["decisions_per_s"]) == (True, round(speed.decisions_per_s))


def test_the_speed_is_a_running_mean_without_what_reading_took() -> None:
    speed = BacktestSpeed()
    speed.note(0, 10, 1.0)
    assert (speed.is_measured, speed.decisions_per_s) == (False, DECISIONS_PER_S), "too few to say anything"
    speed.note(20_000, 4_000, 3.0)
    assert speed.decisions_per_s == 2_000
    speed.note(0, 10_000, 2.5)
    assert speed.decisions_per_s == pytest.approx(2_000 + 0.3 * 2_000)
    assert speed.estimate_s(20_000, 5_200) == pytest.approx(3.0)


async def test_a_backtest_is_queued_then_made_by_a_worker_then_kept_with_its_report() -> None:
    async with office(25) as o:
        reply = await o.client("POST", "/v1/backtests", ASKED)
        assert (reply.status, reply.json["status"], reply.json["progress"]) == (202, "queued", 0)
        where = reply.headers["location"]
        assert (await o.client("GET", where)).json["result"] is None
        await o.bt.tick()
        told = (await o.client("GET", where)).json
        assert (told["status"], told["progress"], told["error"]) == ("done", 1, None)
        assert told["result"]["control"]["reproduced"] is True
        [candidate] = told["result"]["candidates"]
        assert (candidate["name"], candidate["tenant"], candidate["policy"]) == ("policy", "default", STRICT)
        assert candidate["cost"]["runs_allowed"]["after"] < candidate["cost"]["runs_allowed"]["before"]
        assert any(flip["before"] == "ALLOW" for flip in candidate["flips"])
        assert told["summary"]["control"].startswith("The recorded policy reproduces all ")
        assert [one["sentence"] for one in told["summary"]["candidates"]] == [
            f"It would have changed {candidate['flip_count']} answers."
        ]


async def test_the_api_says_what_python_says_and_says_it_again_in_the_same_bytes() -> None:
    async with office(20) as o:
        plan = planned({"policy": STRICT}, overrides_of="default", samples_max=10)
        here = msgspec.json.decode(msgspec.json.encode(await o.bt.backtest(plan)))
        first, second = await o.made(), await o.made()
        assert first["result"] == second["result"] == here
        pages = [await o.client("GET", f"/v1/backtests/{told['backtest_id']}/report") for told in (first, second)]
        assert pages[0].raw == pages[1].raw


async def test_the_report_is_a_page_that_fetches_nothing() -> None:
    async with office() as o:
        backtest_id = await o.asked()
        early = await o.client("GET", f"/v1/backtests/{backtest_id}/report")
        assert (early.status, early.json["code"]) == (409, "BACKTEST_NOT_DONE")
        await o.bt.tick()
        page = await o.client("GET", f"/v1/backtests/{backtest_id}/report")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert b"The recorded policy reproduces all" in page.raw


async def test_one_is_under_way_at_a_time_and_each_tenant_has_its_own() -> None:
    async with office() as o:
        await o.asked()
        second = await o.client("POST", "/v1/backtests", ASKED)
        assert (second.status, second.json["code"]) == (409, "BACKTEST_UNDER_WAY")
        other = Client(o.application, {"x-tenant": "other"})
        theirs = await o.asked(client=other)
        assert (await o.client("GET", f"/v1/backtests/{theirs}")).status == 404
        await o.bt.tick()
        assert (await other("GET", f"/v1/backtests/{theirs}")).json["result"]["control"]["verdicts"] == 0
        assert (await o.client("POST", "/v1/backtests", ASKED)).status == 202


async def test_the_last_ones_are_listed_newest_first_and_older_ones_are_forgotten() -> None:
    async with office(3) as o:
        ids = [(await o.made())["backtest_id"] for _ in range(KEPT_MAX + 2)]
        first = (await o.client("GET", "/v1/backtests?limit=15")).json
        rest = (await o.client("GET", f"/v1/backtests?limit=15&cursor={first['next_cursor']}")).json
        listed = [one["backtest_id"] for one in (*first["items"], *rest["items"])]
        assert listed == ids[:1:-1]
        assert rest["next_cursor"] is None
        assert (await o.client("GET", f"/v1/backtests/{ids[0]}")).status == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"policy": {"runs": {"daily_run_budget": "many"}}}, "policy.runs.daily_run_budget"),
        ({"policies": {"a": {}, "b": {"runs": {"nonsense": 1}}}}, "policies.b.runs.nonsense"),
        ({"policies": {"a": {"runs": {"nonsense": 1}}}}, "policies.a.runs.nonsense"),
        ({"sweep": {"runs.daily_run_budget": [1, "many"]}}, "policy.runs.daily_run_budget"),
        ({}, "policy"),
        ({"policy": {}, "policies": {"a": {}}}, "policies"),
        ({"policy": {}, "since": "2026-03-28T00:00:00Z", "until": "2026-03-27T00:00:00Z"}, "since"),
        ({"policy": {}, "sweep": {"runs.daily_run_budget": [*range(5)], "runs.action_cap": [*range(5)]}}, "sweep"),
        ({"policy": {}, "domain": "cooking"}, "domain"),
        ({"policy": {}, "samples": 101}, "samples"),
    ],
)
async def test_what_cannot_work_is_refused_with_its_place_before_anything_runs(body: Any, path: str) -> None:
    async with office(1) as o:
        reply = await o.client("POST", "/v1/backtests", body)
        assert (reply.status, reply.json["code"]) == (422, "INVALID")
        assert path in [error["path"] for error in reply.json["errors"]]
        assert (await o.client("GET", "/v1/backtests")).json["items"] == []


async def test_a_sweep_without_a_policy_tries_values_on_the_overrides_that_were_in_force_when_it_was_asked() -> None:
    async with office(8) as o:
        mine = o.bt.mine.tenants
        await mine.set_policy(PolicyRequest({"runs": {"action_cap": 7}}))
        backtest_id = await o.asked({"sweep": {"runs.daily_run_budget": [1, 2]}})
        await mine.set_policy(PolicyRequest({"runs": {"action_cap": 9}}))
        await o.bt.tick()
        told = (await o.client("GET", f"/v1/backtests/{backtest_id}")).json
        assert told["candidates"] == ["runs.daily_run_budget=1", "runs.daily_run_budget=2"]
        assert [one["policy"] for one in told["result"]["candidates"]] == [
            {"runs": {"action_cap": 7, "daily_run_budget": budget}} for budget in (1, 2)
        ]


async def test_overrides_need_to_work_only_on_top_of_the_deployments_policy() -> None:
    async with office(5) as o:
        part_of_an_entry = {"runs": {"registry": {"BURSTY": {"debounce_seconds": 5}}}}
        assert (await o.made({"policy": part_of_an_entry}))["status"] == "done"
        other = {"runs": {"registry": {"NEW": {"debounce_seconds": 5}}}}
        reply = await o.client("POST", "/v1/backtests", {"policy": other})
        assert [error["path"] for error in reply.json["errors"]] == ["policy.runs.registry.NEW.cooldown_seconds"]


async def test_the_same_key_gives_the_same_backtest() -> None:
    async with office(2) as o:
        first = await o.client("POST", "/v1/backtests", ASKED, idempotency_key="k")
        again = await o.client("POST", "/v1/backtests", ASKED, idempotency_key="k")
        assert (again.status, again.json["backtest_id"]) == (202, first.json["backtest_id"])
        assert again.headers["idempotency-replayed"] == "true"
        other = await o.client("POST", "/v1/backtests", {"policy": {}}, idempotency_key="k")
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_a_refusal_on_the_way_is_told_as_what_came_of_it() -> None:
    async with office(15) as o:
        await o.bt.advance(by_s=864_000)
        await prune(o.bt.engine.store, o.bt.engine.kinds, Retention(history_days=1))
        told = await o.made()
        assert (told["status"], told["error"]["code"], told["result"]) == ("failed", "HISTORY_PRUNED", None)
        assert "possible from" in told["error"]["message"]


async def test_a_backtest_whose_process_died_has_failed_after_its_lease_and_can_be_asked_for_again() -> None:
    async with office(3) as o:
        backtest_id = await o.asked()
        await o.bt.engine.store.lease_calls([EXECUTOR], 1)  # somebody takes it and is never heard of again
        await o.bt.tick()
        assert (await o.client("GET", f"/v1/backtests/{backtest_id}")).json["status"] == "queued"
        await o.bt.advance(by_s=LEASE_S + 1)
        told = (await o.client("GET", f"/v1/backtests/{backtest_id}")).json
        assert (told["status"], told["error"]["code"]) == ("failed", "ABANDONED")
        assert (await o.made())["status"] == "done"


async def test_a_deleted_backtest_is_forgotten_and_not_made() -> None:
    async with office(3) as o:
        backtest_id = await o.asked()
        assert (await o.client("DELETE", f"/v1/backtests/{backtest_id}")).status == 204
        assert (await o.client("DELETE", f"/v1/backtests/{backtest_id}")).status == 404
        ran = await o.bt.tick()
        assert ran.effects["done"] >= 1
        assert (await o.client("GET", f"/v1/backtests/{backtest_id}")).status == 404
        assert (await o.client("GET", "/v1/backtests")).json["items"] == []
        assert (await o.made())["status"] == "done"


async def test_the_late_end_of_a_deleted_one_is_not_taken_for_that_of_the_next() -> None:
    async with office(3) as o:
        first = await o.asked()
        await o.bt.engine.store.lease_calls([EXECUTOR], 1)  # somebody makes it, and is slow
        await o.client("DELETE", f"/v1/backtests/{first}")
        second = await o.asked()
        await o.bt.engine.store.lease_calls([EXECUTOR], 1)
        await o.bt.advance(by_s=LEASE_S + 1)
        listed = (await o.client("GET", "/v1/backtests")).json["items"]
        assert [(one["backtest_id"], one["status"]) for one in listed] == [(second, "failed")]


async def test_a_report_whose_history_was_pruned_is_gone_and_says_so() -> None:
    async with office(3) as o:
        backtest_id = (await o.made())["backtest_id"]
        await o.bt.advance(by_s=864_000)
        await prune(o.bt.engine.store, o.bt.engine.kinds, Retention(history_days=1))
        told = (await o.client("GET", f"/v1/backtests/{backtest_id}")).json
        assert (told["status"], told["result"]) == ("done", None)
        page = await o.client("GET", f"/v1/backtests/{backtest_id}/report")
        assert (page.status, "pruned" in page.json["detail"]) == (404, True)


async def test_only_an_administrator_of_the_tenant_asks_for_backtests() -> None:
    async with office(2) as o:
        guarded = serve(o.bt, ROUTES)
        site: Any = o
        reader = Client(guarded, {"authorization": f"Bearer {await made(site, 'runs:read', tenant='default')}"})
        admin = Client(guarded, {"authorization": f"Bearer {await made(site, 'admin', tenant='default')}"})
        assert (await reader("POST", "/v1/backtests", ASKED)).json["code"] == "MISSING_SCOPE"
        assert (await admin("POST", "/v1/backtests", ASKED)).status == 202


async def test_what_backtests_leave_in_the_ledger_replays_to_the_byte() -> None:
    async with office(5) as o:
        await o.made()
        assert (await verify(o.bt.engine.store, o.bt.engine.kinds)).is_sound


async def test_a_report_that_is_too_large_keeps_fewer_changed_answers() -> None:
    async with office(25) as o:
        report = await o.bt.backtest(planned({"strict": STRICT}, overrides_of="default"))
        [whole] = report.candidates
        assert len(whole.samples) >= 4
        less = msgspec.convert(fitting(report, len(encode(report)) - 1), BacktestReport)
        [cut] = less.candidates
        assert 0 < len(cut.samples) < len(whole.samples)
        assert [one for one in whole.samples if one in cut.samples] == cut.samples
        assert (cut.flips, cut.flip_count) == (whole.flips, whole.flip_count)
        with pytest.raises(TooLarge):
            fitting(report, 100)


async def test_progress_is_recorded_in_steps_while_it_is_made() -> None:
    async with office(3) as o:
        service, seen = Backtests(o.bt.engine, Caller("default")), []
        asked = await service.ask(BacktestRequest(policy=STRICT))
        [lease] = await o.bt.engine.store.lease_calls([EXECUTOR], 1)

        async def rehearse(
            plan: Plan, *, jobs: int | None = None, progress: Callable[[float], None] | None = None
        ) -> BacktestReport:
            assert progress is not None
            for share, recorded in ((0.04, 0.0), (0.319, 0.3), (0.35, 0.35)):
                progress(share)
                while (told := await service.get(asked.backtest_id)).progress < recorded:  # noqa: ASYNC110 — told by the store
                    await asyncio.sleep(0)
                seen.append((told.status, told.progress))
            return await o.bt.backtest(plan)

        outcome = await backtester(lambda: o.bt.engine, rehearse, tell_s=0.0)(lease.call)
        assert seen == [("running", 0.0), ("running", 0.3), ("running", 0.35)]
        assert outcome["report"]["candidates"][0]["policy"] == STRICT


async def test_one_that_is_deleted_while_it_is_made_is_stopped() -> None:
    async with office(3) as o:
        service, stopped = Backtests(o.bt.engine, Caller("default")), []
        asked = await service.ask(BacktestRequest(policy=STRICT))
        [lease] = await o.bt.engine.store.lease_calls([EXECUTOR], 1)

        async def rehearse(
            plan: Plan, *, jobs: int | None = None, progress: Callable[[float], None] | None = None
        ) -> BacktestReport:
            try:
                await service.delete(asked.backtest_id)
                await asyncio.Event().wait()
            finally:
                stopped.append(plan)
            raise AssertionError

        outcome = await backtester(lambda: o.bt.engine, rehearse, tell_s=0.0)(lease.call)
        assert (outcome["code"], len(stopped)) == ("DROPPED", 1)


class LongForSome(Betimes):
    """An application where the backtests of tenants called `loud…` never end; it notes how many are made at once."""

    at_once, most = 0, 0

    async def backtest(
        self, plan: Plan, *, jobs: int | None = None, progress: Callable[[float], None] | None = None
    ) -> BacktestReport:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if plan.tenant and plan.tenant.startswith("loud"):
                await asyncio.Event().wait()
            return await super().backtest(plan, jobs=jobs, progress=progress)
        finally:
            self.at_once -= 1


async def test_long_backtests_of_some_tenants_hold_up_no_others_and_no_more_are_made_at_once() -> None:
    impatient = Settings(engine=EngineSettings(drain_s=0))
    async with LongForSome("memory://", settings=impatient) as bt, asyncio.timeout(HANGS_S):

        async def reach(tenant: str, status: str) -> None:
            service = Backtests(bt.engine, Caller(tenant))
            asked = await service.ask(BacktestRequest(policy=STRICT))
            while (await service.get(asked.backtest_id)).status != status:  # noqa: ASYNC110 — told by the store
                await asyncio.sleep(0)

        for number in range(BACKTESTS_MAX - 1):
            await reach(f"loud{number}", "running")
        await asyncio.gather(*(reach(f"quiet{number}", "done") for number in range(2 * BACKTESTS_MAX)))
        assert bt.most == BACKTESTS_MAX


def test_a_backtest_under_way_when_its_server_is_told_to_stop_is_made_by_the_next_one(tmp_path: Path) -> None:
    def told_of(server: Server, where: str, *statuses: str) -> Any:
        while (told := server.ask("GET", where).json)["status"] in statuses:
            pass
        return told

    words, impatient = ("serve", "--dev", "--port", "0"), {"BETIMES_ENGINE__DRAIN_S": "0"}
    with serving(*words, folder=tmp_path, **impatient) as server:
        for number in range(5):
            body = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k{number}"}
            assert server.ask("POST", "/v1/triggers", body).status == 200
        asked = server.ask("POST", "/v1/backtests", ASKED)
        assert asked.status == 202
        where = f"/v1/backtests/{asked.json['backtest_id']}"
        assert told_of(server, where, "queued")["status"] == "running"
        assert server.stop() == 0
    with serving(*words, folder=tmp_path) as server:
        told = told_of(server, where, "queued", "running")
        assert (told["status"], told["result"]["commands"] >= 5) == ("done", True)
        assert server.ask("GET", f"{where}/report").body.startswith(b"<!doctype html>")
