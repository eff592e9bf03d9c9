"""Backtests of a sample of subjects: the same people for the same seed, every verdict of theirs reproduced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.backtest.partition import choose_groups, survey_links
from betimes.backtest.plan import SubjectSample, planned
from betimes.backtest.report import BacktestReport
from betimes.backtest.tally import local_week_hour
from betimes.core.errors import Invalid
from betimes.core.instants import parse
from tests.backtest.recordings import notifications, recorded, runs, scores
from tests.backtest.test_api import office

CALM = {"notifications": {"fatigue": {"hour": {"cap": 1, "span_s": 3600}}}}
STRICT = {"runs": {"daily_run_budget": 1}}


async def _tried(live: Any, policy: Any, jobs: int | None = None, **sample: Any) -> BacktestReport:
    chosen = SubjectSample(**sample) if sample else None
    report: BacktestReport = await live.bt.backtest(planned({"tried": policy}, sample=chosen), jobs=jobs)
    return report


async def test_a_sample_is_some_of_the_people_with_every_verdict_of_theirs_reproduced() -> None:
    async with recorded(notifications, scores, steps=80) as live:
        whole = await _tried(live, CALM)
        some = await _tried(live, CALM, subjects=1)
        assert some.sample is not None
        assert some.sample.subjects == 1 < some.sample.subjects_total
        assert some.control.reproduced
        assert 0 < some.control.verdicts < whole.control.verdicts
        assert some.commands < whole.commands
        assert whole.sample is None
        known = {(flip.at, flip.kind, flip.id, flip.key) for flip in whole.candidates[0].samples}
        assert {(flip.at, flip.kind, flip.id, flip.key) for flip in some.candidates[0].samples} <= known
        again = await _tried(live, CALM, subjects=1)
        assert msgspec.json.encode(again) == msgspec.json.encode(some)
        others = [msgspec.json.encode(await _tried(live, CALM, subjects=1, seed=seed)) for seed in range(6)]
        assert len({*others}) > 1


async def test_larger_samples_hold_the_smaller_ones_and_all_is_everybody() -> None:
    async with recorded(notifications, scores, steps=60) as live:
        plan = planned({"tried": CALM}, sample=SubjectSample(subjects=2))
        links, kinds = await survey_links(live.bt.engine.store, live.bt.engine.kinds, plan), live.bt.engine.kinds
        few, more = (choose_groups(links, kinds, SubjectSample(subjects=count)).roots for count in (1, 3))
        assert few < more
        whole = await _tried(live, CALM)
        everybody = await _tried(live, CALM, share=1.0)
        assert everybody.control == whole.control
        assert everybody.candidates == whole.candidates


async def test_accounts_that_share_a_quota_are_left_out_of_a_sample_too_small_for_them() -> None:
    async with recorded(runs, notifications, steps=40) as live:
        some = await _tried(live, STRICT, subjects=2)
        assert some.sample is not None
        assert some.sample.left_out > 2
        assert some.control.reproduced
        whole = await _tried(live, STRICT, share=1.0)
        assert (whole.sample and whole.sample.left_out) == 0
        assert whole.candidates[0].cost.runs_allowed.after < whole.candidates[0].cost.runs_allowed.before


async def test_a_sample_in_several_processes_is_the_same(tmp_path: Path) -> None:
    async with recorded(notifications, steps=40, url=f"sqlite:///{tmp_path}/town.db") as live:
        one = await _tried(live, CALM, jobs=1, subjects=1)
        two = await _tried(live, CALM, jobs=2, subjects=1)
        assert msgspec.json.encode(one) == msgspec.json.encode(two)


async def test_the_week_of_people_adds_up_to_their_days() -> None:
    async with recorded(notifications, steps=60) as live:
        [candidate] = (await _tried(live, CALM)).candidates
        for week, hours in (
            (candidate.week_before, candidate.hours_before),
            (candidate.week_after, candidate.hours_after),
        ):
            assert [len(day) for day in week] == [24] * 7
            assert [sum(day[hour] for day in week) for hour in range(24)] == hours
        assert sum(candidate.hours_before) > 0


@pytest.mark.parametrize(
    ("at", "zone", "day", "hour"),
    [
        ("2026-01-05T00:00:00Z", "UTC", 0, 0),
        ("2026-01-04T23:30:00Z", "UTC", 6, 23),
        ("2026-01-04T23:30:00Z", "Europe/Berlin", 0, 0),
        ("2026-01-05T03:00:00Z", "America/New_York", 6, 22),
        ("1970-01-01T00:00:00Z", "UTC", 3, 0),
    ],
)
def test_the_hour_of_the_week_is_the_persons_own(at: str, zone: str, day: int, hour: int) -> None:
    assert divmod(local_week_hour(parse(at), zone), 24) == (day, hour)


async def test_a_sample_says_how_large_it_is_in_one_way() -> None:
    async with recorded(notifications, steps=5) as live:
        for sample in ({"subjects": 2, "share": 0.5}, {"seed": 3}):
            with pytest.raises(Invalid, match="subjects or a share"):
                await _tried(live, CALM, **sample)


async def test_a_sample_an_estimate_flips_and_progress_over_http() -> None:
    async with office(40) as o:
        body = {"policy": CALM, "sample": {"share": 1}, "samples": 100}
        estimate = (await o.client("POST", "/v1/backtests/estimate", body)).json
        made = await o.made(body)
        assert made["status"] == "done", made
        assert estimate["candidates"] == 1
        assert abs(estimate["commands"] - made["result"]["commands"]) <= 0.3 * made["result"]["commands"]
        assert made["result"]["sample"]["subjects"] == made["result"]["sample"]["subjects_total"]
        [candidate] = made["result"]["candidates"]
        path = f"/v1/backtests/{made['backtest_id']}/flips"
        seen, cursor = [], ""
        while True:
            page = (await o.client("GET", f"{path}?limit=2{cursor}")).json
            seen += [(flip["at"], flip["id"], flip["key"]) for flip in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == [(flip["at"], flip["id"], flip["key"]) for flip in candidate["samples"]] != []
        one = candidate["samples"][0]
        asked = f"?before={one['before']['outcome']}&id={one['id']}&candidate=policy"
        found = (await o.client("GET", path + asked)).json["items"]
        assert {(flip["id"], flip["before"]["outcome"]) for flip in found} == {(one["id"], one["before"]["outcome"])}
        assert all(flip["parting_rule"] in {step["rule"] for step in flip["after"]["trace"]} for flip in found)
        assert all(len(flip["says_before"]) == len(flip["before"]["trace"]) for flip in found)
        assert all(all(flip["says_before"] + flip["says_after"]) for flip in found)
        assert (await o.client("GET", f"{path}?candidate=nobody")).json["items"] == []
        few = await o.made({**body, "samples": 0})
        page = (await o.client("GET", f"/v1/backtests/{few['backtest_id']}/flips")).json
        [reported] = few["result"]["candidates"]
        assert (page["kept"], page["total"]) == (0, reported["flip_count"])
        assert page["total"] > 0
        line = reported["flips"][0]
        asked = f"?before={line['before']}&after={line['after']}&domain={line['domain']}"
        page = (await o.client("GET", f"/v1/backtests/{few['backtest_id']}/flips{asked}")).json
        assert (page["kept"], page["total"]) == (0, line["count"])
        assert (await o.client("GET", path)).json["kept"] == len(candidate["samples"])
        assert (await o.client("GET", f"{path}?id={one['id']}")).json["total"] is None
        streamed = await asyncio.wait_for(o.client("GET", f"/v1/backtests/{made['backtest_id']}/stream"), 30)
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert b'"status":"done"' in streamed.raw
        assert (await o.client("GET", "/v1/backtests/nothing/stream")).status == 404
        for wrong in ({"subjects": 0}, {"share": 2}, {"colour": 1}, {}):
            assert (await o.client("POST", "/v1/backtests", {"policy": CALM, "sample": wrong})).status == 422
