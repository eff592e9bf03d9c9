"""The history of a policy over HTTP: who changed what and why, roll back, the schema, and errors at their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from betimes.admin import policy_history
from betimes.admin.toml_lines import line_at, line_numbers
from betimes.app.routes import ROUTES
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from tests.http.damage import opened
from tests.http.served import Client, site
from tests.http.stores import STORES, StoreName, application_on
from tests.http.test_auth import made

LEASE: dict[str, Any] = {"intents": {"claim_lease_s": 600}}
HOUR: dict[str, Any] = {"intents": {"claim_lease_s": 3600}}


async def _put(client: Client, overrides: Any, **more: Any) -> Any:
    reply = await client("PUT", "/v1/policy", {"overrides": overrides, **more})
    assert reply.status == 200, reply.json
    return reply.json


async def _backtest(client: Client) -> str:
    asked = await client("POST", "/v1/backtests", {"policy": HOUR})
    assert asked.status == 202, asked.json
    return str(asked.json["backtest_id"])


async def test_every_change_is_told_with_who_why_and_what_it_changed() -> None:
    async with site(dev=False) as s:
        client = s.with_key(await made(s, "admin"))
        backtest = await _backtest(client)
        await _put(client, LEASE, note="longer", backtest_id=backtest)
        await client("POST", "/v1/keys", {"name": "between", "scopes": ["tick"]})
        await _put(client, HOUR, note="longer still")
        await _put(client, {})
        history = (await client("GET", "/v1/policy/history")).json["items"]
        assert [(one["version"], one["note"], one["backtest_id"], one["actor"]) for one in history] == [
            (3, None, None, "test"),
            (2, "longer still", None, "test"),
            (1, "longer", backtest, "test"),
        ]
        assert history[1]["changes"] == [{"path": "intents.claim_lease_s", "from": 600, "to": 3600}]
        assert history[2]["changes"] == [{"path": "intents", "from": None, "to": {"claim_lease_s": 600}}]
        seen, cursor = [], ""
        while True:
            page = (await client("GET", f"/v1/policy/history?limit=1{cursor}")).json
            seen += [(one["version"], one["changes"]) for one in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == [(one["version"], one["changes"]) for one in history]
        stranger = s.with_key(await made(s, "admin", tenant="other"))
        assert (await stranger("GET", "/v1/policy/history")).json["items"] == []


async def test_a_roll_back_is_a_new_version_with_the_old_overrides() -> None:
    async with site() as s:
        client = s.client
        backtest = await _backtest(client)
        await _put(client, LEASE, note="longer", backtest_id=backtest)
        await _put(client, HOUR)
        path = "/v1/policy/rollback"
        refused = await client("POST", path, {}, if_match='"1"')
        assert (refused.status, refused.json["code"]) == (412, "VERSION_MISMATCH")
        assert (await client("POST", path, {}, if_match="nonsense")).status == 422
        back = await client("POST", path, {"note": "too long"}, if_match='"2"', idempotency_key="r-1")
        assert (back.status, back.json["version"], back.json["overrides"]) == (200, 3, LEASE)
        again = await client("POST", path, {"note": "too long"}, if_match='"2"', idempotency_key="r-1")
        assert (again.json, again.headers["idempotency-replayed"]) == (back.json, "true")
        [newest, hour, _] = (await client("GET", "/v1/policy/history")).json["items"]
        assert (newest["note"], newest["backtest_id"]) == ("too long", backtest)
        forth = await client("POST", path, {"overrides_fingerprint": hour["overrides_fingerprint"]})
        assert forth.json["overrides"] == HOUR
        nothing = await client("POST", path, {"to_version": 0})
        assert (nothing.json["version"], nothing.json["overrides"]) == (5, {})
        for asked in ({"to_version": 77}, {"overrides_fingerprint": "beef"}):
            assert (await client("POST", path, asked)).status == 404


@pytest.mark.parametrize("store", STORES)
async def test_roll_back_after_roll_back_goes_further_back_and_then_says_that_nothing_is_left(
    store: StoreName, tmp_path: Path
) -> None:
    day: dict[str, Any] = {"intents": {"claim_lease_s": 900}}
    async with application_on(store, tmp_path, VirtualClock("2026-01-05T09:00:00Z")) as bt:
        client, path = Client(serve(bt, ROUTES, dev=True)), "/v1/policy/rollback"
        for overrides in (LEASE, HOUR, day):
            await _put(client, overrides)
        seen = [(await client("POST", path, {})).json["overrides"] for _ in range(2)]
        assert seen == [HOUR, LEASE]
        await _put(client, day, note="once more")
        seen = [(await client("POST", path, {})).json["overrides"] for _ in range(2)]
        assert seen == [LEASE, {}]
        last = await client("POST", path, {})
        assert (last.status, last.json["code"]) == (409, "NOTHING_TO_ROLL_BACK")
        items = (await client("GET", "/v1/policy/history")).json["items"]
        assert [one["restores"] for one in items] == [0, 1, None, 1, 2, None, None, None]
        assert (await client("POST", path, {"to_version": 6})).json["overrides"] == day


async def test_a_backtest_that_the_tenant_does_not_have_is_refused() -> None:
    async with site(dev=False) as s:
        client, stranger = s.with_key(await made(s, "admin")), s.with_key(await made(s, "admin", tenant="other"))
        theirs = await _backtest(stranger)
        for unknown in ("bkt_nothing", theirs):
            refused = await client("PUT", "/v1/policy", {"overrides": LEASE, "backtest_id": unknown})
            assert (refused.status, refused.json["errors"][0]["path"]) == (422, "backtest_id")
        assert (await client("GET", "/v1/policy")).json["overrides"] == {}
        await _put(stranger, LEASE, backtest_id=theirs)


async def test_a_policy_is_found_by_the_fingerprint_that_a_segment_names() -> None:
    async with site() as s:
        first = await _put(s.client, LEASE)
        trigger = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        decided = (await s.client("POST", "/v1/triggers", trigger)).json["policy"]
        assert decided == first["fingerprint"]
        await _put(s.client, HOUR)
        named = (await s.client("GET", f"/v1/policies/{decided}")).json
        assert (named["fingerprint"], named["effective"]) == (decided, first["effective"])
        assert (await s.client("GET", "/v1/policies/0000000000000000")).status == 404


async def test_another_tenants_policy_is_not_found_by_its_fingerprint() -> None:
    async with site(dev=False) as s:
        client, stranger = s.with_key(await made(s, "admin")), s.with_key(await made(s, "admin", tenant="other"))
        shared = (await client("GET", "/v1/policy")).json["fingerprint"]
        first = await _put(client, LEASE)
        body = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        segment = (await client("POST", "/v1/triggers", body)).json["segment_id"]
        await _put(client, HOUR)
        path = f"/v1/policies/{first['fingerprint']}"
        for asked in (path, f"{path}?segment_id={segment}"):
            assert (await client("GET", asked)).status == 200
            assert (await stranger("GET", asked)).status == 404
        assert (await client("GET", f"{path}?segment_id=account:a:9")).status == 404
        assert (await client("GET", f"{path}?segment_id=nonsense")).status == 404
        assert (await stranger("GET", f"/v1/policies/{shared}")).status == 200, "the one that everybody goes by"


async def test_the_schema_accepts_what_the_server_accepts_and_nothing_else() -> None:
    async with site() as s:
        schema = (await s.client("GET", "/v1/policy/schema")).json
        validator = jsonschema_rs.Draft202012Validator(schema)
        effective = (await s.client("GET", "/v1/policy")).json["effective"]
        for overrides, is_valid in (
            ({}, True),
            (LEASE, True),
            (effective, True),
            ({"colour": {}}, False),
            ({"intents": {"claim_lease_s": "long"}}, False),
            ({"intents": {"claim_lease_s": -1}}, False),
        ):
            checked = (await s.client("POST", "/v1/policy/check", {"overrides": overrides})).json
            assert checked["valid"] == is_valid, overrides
            wrong = [error.message for error in validator.iter_errors(overrides)]
            assert (not wrong) == is_valid, (overrides, wrong)
        assert '"default"' in str(schema).replace("'", '"')


DOCUMENT = b"""# what is different here
[intents]
claim_lease_s = -1

[notifications]
colour = "red"
"""


async def test_errors_in_toml_are_told_with_their_lines() -> None:
    async with site() as s:
        kind = {"content_type": "application/toml"}
        checked = (await s.client("POST", "/v1/policy/check", DOCUMENT, **kind)).json
        assert [(error["path"], error["line"]) for error in checked["errors"]] == [
            ("overrides.notifications.colour", 6),
            ("overrides.intents.claim_lease_s", 3),
        ]
        fine = (await s.client("POST", "/v1/policy/check", b"[intents]\nclaim_lease_s = 600\n", **kind)).json
        assert (fine["valid"], [change["path"] for change in fine["changes"]]) == (True, ["intents.claim_lease_s"])
        assert fine["overrides"] == {"intents": {"claim_lease_s": 600}}
        broken = await s.client("POST", "/v1/policy/check", b"[intents]\nclaim_lease_s 600\n", **kind)
        assert (broken.status, broken.json["errors"][0]["path"]) == (422, "line 2")
        assert (await s.client("PUT", "/v1/policy", DOCUMENT, **kind)).status == 415


@pytest.mark.parametrize(
    ("path", "line"),
    [("a.b", 2), ("a.b.c", 2), ("a.'x'", 1), ("rows[1].n", 9), ("rows[0].n", 6), ("q.r.s", 10), ("nothing", None)],
)
def test_a_path_is_found_where_it_or_what_holds_it_stands(path: str, line: int | None) -> None:
    text = '[a]\nb = {c = 1}\n"d e" = 2\n\n[[rows]]\nn = 1\n\n[[rows]]\nn = 2\n[q.r]\n'
    assert line_at(line_numbers(text), path) == line


async def test_toml_costs_no_more_than_its_length() -> None:
    """A key of many dots, and an open bracket before many blanks: both held the process for hours."""
    assert line_numbers("text = '''\n[" + " " * 50_000 + "\n'''\n") == {"text": 1}
    async with site() as s:
        deep = ".".join("a" * 101) + ".b = 1\n"
        refused = await s.client("POST", "/v1/policy/check", deep.encode(), content_type="application/toml")
        assert (refused.status, refused.json["code"]) == (413, "BODY_TOO_LARGE")


async def test_history_and_roll_back_reach_past_what_happened_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_history, "SEGMENTS", 2)
    monkeypatch.setattr(policy_history, "PAGES_MAX", 2)
    async with site() as s:
        await _put(s.client, LEASE)
        await _put(s.client, HOUR)
        for number in range(6):
            await s.client("POST", "/v1/keys", {"name": f"k{number}", "scopes": ["tick"]})
        seen, cursor = [], ""
        for _ in range(4):
            page = (await s.client("GET", f"/v1/policy/history?limit=5{cursor}")).json
            seen += [(one["version"], one["overrides"]) for one in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == [(2, HOUR), (1, LEASE)]


async def test_a_roll_back_further_than_is_read_says_so_and_how_to_get_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_history, "SEGMENTS", 2)
    monkeypatch.setattr(policy_history, "PAGES_MAX", 2)
    async with site() as s:
        path = "/v1/policy/rollback"
        await _put(s.client, LEASE)
        await _put(s.client, HOUR)
        for number in range(3):
            await s.client("POST", "/v1/keys", {"name": f"k{number}", "scopes": ["tick"]})
        for asked in ({}, {"to_version": 1}, {"overrides_fingerprint": "beef"}):
            refused = await s.client("POST", path, asked)
            assert (refused.status, refused.json["code"]) == (409, "POLICY_TOO_FAR_BACK"), asked
            assert "/v1/policy/history" in refused.json["detail"]
        assert (await s.client("POST", path, {"to_version": 77})).status == 404, "there never was one"
        assert (await s.client("POST", path, {"to_version": 2})).json["overrides"] == HOUR
        assert (await s.client("POST", path, {"to_version": 0})).json["overrides"] == {}, "needs no reading"


async def test_a_page_of_the_history_is_bounded_by_what_its_overrides_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_history, "PAGE_CHARS_MAX", 400)
    async with site() as s:
        for number in range(5):
            await _put(s.client, {"intents": {"claim_lease_s": 600 + number}}, note="x" * 100)
        seen, sizes, cursor = [], [], ""
        for _ in range(6):
            page = (await s.client("GET", f"/v1/policy/history?limit=4{cursor}")).json
            seen += [(one["version"], len(one["changes"])) for one in page["items"]]
            sizes.append(len(page["items"]))
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == [(5, 1), (4, 1), (3, 1), (2, 1), (1, 1)]
        assert sizes == [1] * 5, "two weigh more than fits"


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_a_roll_back_counts_no_version_past_a_segment_that_it_cannot_read(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, VirtualClock("2026-01-05T09:00:00Z")) as (bt, database):
        client = Client(serve(bt, ROUTES, dev=True), {"x-tenant": "default"})
        for overrides in (LEASE, HOUR, {}, HOUR):
            await _put(client, overrides)
        await database.execute("UPDATE ledger SET events = '{' WHERE kind = 'tenant' AND version = 3")
        wrong = await client("POST", "/v1/policy/rollback", {"to_version": 2})
        assert (wrong.status, wrong.json["code"]) == (500, "MALFORMED_ROW")
        right = await client("POST", "/v1/policy/rollback", {"to_version": 4})
        assert (right.status, right.json["overrides"]) == (200, HOUR)


async def test_a_roll_back_by_number_and_fingerprint_needs_both_and_one_condition() -> None:
    async with site() as s:
        await _put(s.client, LEASE)
        await _put(s.client, HOUR)
        [hour, lease] = (await s.client("GET", "/v1/policy/history")).json["items"]
        path, name = "/v1/policy/rollback", lease["overrides_fingerprint"]
        differs = {"to_version": hour["version"], "overrides_fingerprint": name}
        assert (await s.client("POST", path, differs)).status == 404
        two = await s.client("POST", path, {"to_version": 1, "version": 7}, if_match='"2"')
        assert (two.status, two.json["errors"][0]["path"]) == (422, "version")
        assert (await s.client("POST", path, {"to_version": 1, "overrides_fingerprint": name})).status == 200
