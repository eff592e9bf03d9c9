"""Acting on what waits: dead letters and definitions by selection or filter, a snoozed wake by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from betimes.core.deciders import Wake
from betimes.schedules.views import ScheduleRequest
from tests.http.served import Site, site
from tests.http.test_auth import made
from tests.http.test_effects import REPORT, Moody, _services
from tests.http.test_intents import INTENT

SCHEDULE = {"cron": "0 7 * * *", "target": {"kind": "handler", "name": "report"}}


async def _dead_letters(s: Site, count: int) -> None:
    schedules = _services(s).schedules
    for number in range(count):
        name = f"s{number}"
        await schedules.create(ScheduleRequest(schedule_id=name, cron="0 3 * * *", target=REPORT))
        await schedules.trigger(name)
        s.clock.advance(60)
    await s.bt.tick()


async def _operations(s: Site, collection: str) -> list[Any]:
    found = await s.client("GET", f"/v1/ledger?kind=operation&id={collection}")
    return [segment["command"] for segment in found.json["items"]]


@pytest.mark.parametrize("action", ["retry", "discard"])
async def test_all_that_fit_are_changed_in_one_commit(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(declare=Moody().declare) as s:
        await _dead_letters(s, 5)
        store, name = s.bt.engine.store, {"retry": "revive_effects", "discard": "discard_effects"}[action]
        change, commits = getattr(store, name), list[int]()

        async def count(effects: Any) -> Any:
            commits.append(len(effects))
            return await change(effects)

        monkeypatch.setattr(store, name, count)
        done = await s.client("POST", f"/v1/effects/{action}", {"filter": {}})
        assert (done.json["done"], done.json["skipped"], commits) == (5, 0, [5])


async def test_dead_letters_that_fit_are_retried_oldest_first_until_none_is_left() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        await _dead_letters(s, 5)
        groups = (await s.client("GET", "/v1/effects/groups?error=TONER")).json
        assert (groups["counted"], groups["complete"]) == (5, True)
        [group] = groups["groups"]
        assert (group["executor"], group["error"], group["count"]) == ("handler:report", "no toner", 5)
        assert group["effect_id"].startswith("schedule:s0:")
        moody.is_well, asked = True, {"filter": {"error": "toner"}, "limit": 2, "note": "filled up"}
        first = await s.client("POST", "/v1/effects/retry", asked, idempotency_key="k-1")
        assert (first.status, first.json["done"], first.json["complete"]) == (200, 2, False)
        again = await s.client("POST", "/v1/effects/retry", asked, idempotency_key="k-1")
        assert (again.json, again.headers["idempotency-replayed"]) == (first.json, "true")
        pending = (await s.client("GET", "/v1/effects?status=pending")).json["items"]
        assert {effect["stream"]["id"] for effect in pending} == {"s0", "s1"}
        rest = await s.client("POST", "/v1/effects/retry", {"filter": {}, "limit": 500})
        assert (rest.json["done"], rest.json["complete"], rest.json["next_cursor"]) == (3, True, None)
        await s.bt.tick()
        assert len(moody.calls) == 10
        recorded = await _operations(s, "effects")
        assert [(one["action"], len(one["subjects"]), one["note"]) for one in recorded] == [
            ("retry", 2, "filled up"),
            ("retry", 3, ""),
        ]


async def test_named_dead_letters_are_acted_on_with_a_note() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        await _dead_letters(s, 4)
        dead = (await s.client("GET", "/v1/effects?status=dead")).json["items"]
        [first, second, third, fourth] = [{"effect_id": one["effect_id"]} for one in dead]
        moody.is_well, items = True, [{**first, "note": "this one is urgent"}, second]
        tried = await s.client("POST", "/v1/effects/retry?note=filled%20up", {"items": items})
        assert [item["status"] for item in tried.json["items"]] == [200, 200]
        await s.client("POST", "/v1/effects/discard", {"items": [{**third, "note": "too old"}]})
        await s.client("POST", "/v1/effects/discard?note=all", {"filter": {}})
        recorded = await _operations(s, "effects")
        assert sorted((one["action"], one["note"]) for one in recorded) == [
            ("discard", "all"),
            ("discard", "too old"),
            ("retry", "filled up"),
            ("retry", "this one is urgent"),
        ]
        long = await s.client("POST", "/v1/effects/retry", {"items": [{**fourth, "note": "x" * 10_000}]})
        assert long.json["items"][0]["problem"]["errors"][0]["path"] == "items[0].note"


async def test_what_cannot_be_retried_is_skipped_and_not_in_the_way() -> None:
    moody = Moody()
    async with site(declare=moody.declare) as s:
        await _dead_letters(s, 3)
        asked: dict[str, Any] = {"filter": {"until": "2026-01-05T09:01:30Z"}, "limit": 1}
        seen = []
        while True:
            done = (await s.client("POST", "/v1/effects/discard", asked)).json
            seen.append(done["done"])
            if done["complete"]:
                break
            asked["cursor"] = done["next_cursor"]
        assert sum(seen) == 2
        left = (await s.client("GET", "/v1/effects?status=dead")).json["items"]
        assert [effect["stream"]["id"] for effect in left] == ["s2"]
        assert (await s.client("DELETE", f"/v1/effects/{left[0]['effect_id']}?note=gone")).status == 204
        assert (await s.client("DELETE", f"/v1/effects/{left[0]['effect_id']}")).status == 404
        other = await s.client("POST", "/v1/effects/discard", {"filter": {"executor": "x"}, "cursor": asked["cursor"]})
        assert (other.status, other.json["errors"][0]["path"]) == (422, "query.cursor")
        batch = await s.client("POST", "/v1/effects/discard", {"items": [{"effect_id": "schedule:none:1:0"}]})
        assert [item["status"] for item in batch.json["items"]] == [404]


async def test_only_dead_letters_of_own_domains_and_tenant_are_acted_on() -> None:
    moody = Moody()
    async with site(dev=False, declare=moody.declare) as s:
        await _dead_letters(s, 2)
        for scopes, tenant, status in (
            (("automation:write",), "default", 200),
            (("runs:write", "runs:read"), "default", 200),
            (("admin",), "other", 200),
            (("automation:read",), "default", 403),
        ):
            client = s.with_key(await made(s, *scopes, tenant=tenant))
            found = await client("POST", "/v1/effects/discard", {"filter": {"error": "nothing such"}})
            assert found.status == status
            if status == 200:
                whole = await client("POST", "/v1/effects/retry", {"filter": {}})
                assert whole.json["done"] == (2 if "automation:write" in scopes else 0)


@pytest.mark.parametrize("collection", ["schedules", "sensors", "intents"])
async def test_definitions_are_changed_in_bulk_each_with_its_outcome(collection: str) -> None:
    noun = collection[:-1]
    bodies = {
        "schedules": SCHEDULE,
        "sensors": {"sensor_type": "push", "target": SCHEDULE["target"]},
        "intents": INTENT,
    }
    async with site(declare=Moody().declare) as s:
        for number in range(4):
            body = {**bodies[collection], f"{noun}_id": f"d{number}"}
            assert (await s.client("POST", f"/v1/{collection}", body)).status == 201
        path = f"/v1/{collection}/bulk"
        asked = {"action": "disable", "ids": ["d0", "nobody", "d1", "d0"], "note": "moving"}
        done = await s.client("POST", path, asked, idempotency_key="b-1")
        assert done.status == 200, done.json
        assert [(item["id"], item["ok"], item["code"]) for item in done.json["items"]] == [
            ("d0", True, None),
            ("nobody", False, "NOT_FOUND"),
            ("d1", True, None),
        ]
        assert (done.json["changed"], done.json["failed"], done.json["complete"]) == (2, 1, True)
        assert (await s.client("POST", path, asked, idempotency_key="b-1")).json == done.json
        assert [one["note"] for one in await _operations(s, collection)] == ["moving"]
        enabled = [(await s.client("GET", f"/v1/{collection}/d{n}")).json["enabled"] for n in range(4)]
        assert enabled == [False, False, True, True]
        changed, cursor = 0, None
        for _ in range(5):
            more = {"action": "delete", "filter": {}, "limit": 1} | ({"cursor": cursor} if cursor else {})
            part = (await s.client("POST", path, more)).json
            changed, cursor = changed + part["changed"], part["next_cursor"]
            if part["complete"]:
                break
        assert changed == 4
        assert (await s.client("GET", f"/v1/{collection}")).json["items"] == []


async def test_a_bulk_change_names_all_that_is_wrong_with_it() -> None:
    async with site() as s:
        for body, paths in (
            ({"action": "pause", "ids": ["a"]}, ["action"]),
            ({"action": "enable"}, ["ids"]),
            ({"action": "enable", "ids": ["a"], "filter": {}}, ["ids"]),
            ({"action": "enable", "filter": {"colour": "red"}}, ["filter.colour"]),
            ({"action": "enable", "filter": {"status": "blue"}}, ["filter.status"]),
            ({"action": "enable", "filter": {}, "cursor": "x"}, ["cursor"]),
            ({"action": "enable", "ids": []}, ["ids"]),
            ({"action": "enable", "ids": ["a", "b" * 300]}, ["ids[1]"]),
            ({"action": "enable", "ids": ["a"] * 501}, ["ids"]),
            ({"action": "enable", "ids": ["a"], "note": "n" * 501}, ["note"]),
        ):
            refused = await s.client("POST", "/v1/schedules/bulk", body)
            assert refused.status == 422, body
            assert [error["path"] for error in refused.json["errors"]] == paths, body


async def test_a_snoozed_wake_is_rung_by_hand_and_says_what_it_fails_with(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site() as s:
        kind = s.bt.engine.kinds.of(_services(s).schedules.stream("schedule", "x"))
        decider, broken = kind.decider, [True]

        def decide(view: Any, command: Any, policy: Any, now: int) -> Any:
            if broken[0] and isinstance(command, Wake):
                raise RuntimeError("out of ink")
            return decider.decide(view, command, policy, now)

        monkeypatch.setattr(kind, "decider", msgspec.structs.replace(decider, decide=decide))
        await s.client("POST", "/v1/schedules", {**SCHEDULE, "schedule_id": "brief"})
        s.clock.advance(23 * 3600)
        await s.bt.tick()
        row, _ = await s.bt.engine.store.history(_services(s).schedules.stream("schedule", "brief"), 0, 1)
        assert row is not None
        assert row.snooze_until is not None
        assert "out of ink" in (row.snooze_error or "")
        path = "/v1/streams/schedule/brief/wake"
        failed = await s.client("POST", path, {"note": "again"})
        assert (failed.status, failed.json["rung"]) == (200, False)
        assert "out of ink" in failed.json["error"]
        assert failed.json["snoozed_until"] is not None
        broken[0] = False
        rung = await s.client("POST", path)
        assert (rung.json["rung"], rung.json["error"], rung.json["snoozed_until"]) == (True, None, None)
        assert rung.json["why"] is None
        assert failed.json["why"].startswith("Its wake failed: ")
        assert rung.json["segment_id"] == "schedule:brief:2"
        idle = await s.client("POST", path)
        assert (idle.json["rung"], idle.json["segment_id"]) == (False, None)
        assert idle.json["why"].startswith("It is not due: its alarm is at 2026-01-")
        for missing in ("/v1/streams/schedule/nobody/wake", "/v1/streams/nothing/brief/wake"):
            assert (await s.client("POST", missing)).status == 404
        assert [one["note"] for one in await _operations(s, "streams")] == ["again", "", ""]
