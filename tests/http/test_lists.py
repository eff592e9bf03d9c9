"""Lists over HTTP: the newest first, and pages that neither repeat nor skip while things are made and changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from betimes.app import Betimes
from tests.http.served import Site, site


class Listed(NamedTuple):
    """A collection: how to make one of it, where it is listed, and what names it there."""

    path: str
    name: str
    body: Callable[[str], dict[str, Any]]


def _schedule(id: str) -> dict[str, Any]:
    return {"schedule_id": id, "cron": "0 7 * * *", "target": {"kind": "handler", "name": "note"}}


def _sensor(id: str) -> dict[str, Any]:
    return {"sensor_id": id, "sensor_type": "push", "target": {"kind": "handler", "name": "note"}}


def _intent(id: str) -> dict[str, Any]:
    return {
        "intent_id": id,
        "user_id": "u-1",
        "trigger_type": "cron",
        "schedule": {"cron": "0 8 * * *"},
        "action_type": "notify",
        "action_context": "Say hello",
    }


LISTED = [
    Listed("/v1/schedules", "schedule_id", _schedule),
    Listed("/v1/sensors", "sensor_id", _sensor),
    Listed("/v1/sensors?sensor_type=push", "sensor_id", _sensor),
    Listed("/v1/intents", "intent_id", _intent),
    Listed("/v1/intents?user_id=u-1", "intent_id", _intent),
    Listed("/v1/intents?user_id=u-1&enabled=true", "intent_id", _intent),
    Listed("/v1/intents?trigger_type=cron", "intent_id", _intent),
    Listed("/v1/scores", "user_id", lambda id: {"user_id": id}),
    Listed("/v1/incidents", "user_id", lambda id: {"user_id": id}),
]


def _declare(bt: Betimes) -> None:
    bt.handler("note")(lambda payload: None)


async def _page(s: Site, path: str, cursor: str | None = None) -> tuple[list[dict[str, Any]], str | None]:
    more = "" if cursor is None else f"&cursor={cursor}"
    page = (await s.client("GET", f"{path}{'&' if '?' in path else '?'}limit=2{more}")).json
    return page["items"], page["next_cursor"]


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: listed.path)
async def test_a_list_shows_the_newest_first_and_each_once(listed: Listed) -> None:
    collection = listed.path.partition("?")[0]
    async with site(declare=_declare) as s:
        for id in ("m", "z", "a", "k", "b"):
            assert (await s.client("POST", collection, listed.body(id))).status == 201
            s.clock.advance(1)
        first, cursor = await _page(s, listed.path)
        assert [item[listed.name] for item in first] == ["b", "k"]
        assert (await s.client("POST", collection, listed.body("c"))).status == 201
        second, cursor = await _page(s, listed.path, cursor)
        assert [item[listed.name] for item in second] == ["a", "z"]
        last, cursor = await _page(s, listed.path, cursor)
        assert ([item[listed.name] for item in last], cursor) == (["m"], None)
        again, _ = await _page(s, listed.path)
        assert [item[listed.name] for item in again] == ["c", "b"]


async def test_a_change_moves_nothing_in_a_list() -> None:
    async with site(declare=_declare) as s:
        for id in ("m", "z", "a"):
            await s.client("POST", "/v1/schedules", _schedule(id))
            s.clock.advance(1)
        await s.client("PATCH", "/v1/schedules/m", {"cron": "0 9 * * *"})
        assert [item["schedule_id"] for item in (await _page(s, "/v1/schedules"))[0]] == ["a", "z"]


async def test_effects_and_backfills_are_listed_from_the_newest() -> None:
    async with site(declare=_declare) as s:
        await s.client("POST", "/v1/schedules", _schedule("one"))
        runs = []
        for _ in range(3):
            s.clock.advance(1)
            runs.append((await s.client("POST", "/v1/schedules/one/trigger", {})).json["run_id"])
        effects, cursor = await _page(s, "/v1/effects?effect_kind=handler")
        older, _ = await _page(s, "/v1/effects?effect_kind=handler", cursor)
        made = [effect["created_at"] for effect in [*effects, *older]]
        assert len(made) == 3
        assert made == sorted(made, reverse=True)
        started = []
        for day in (1, 2, 3):
            body = {"from": f"2026-01-0{day}T00:00:00Z", "to": f"2026-01-0{day}T12:00:00Z"}
            started.append((await s.client("POST", "/v1/schedules/one/backfills", body)).json["backfill_id"])
            s.clock.advance(1)
        listed, cursor = await _page(s, "/v1/schedules/one/backfills")
        rest, _ = await _page(s, "/v1/schedules/one/backfills", cursor)
        assert [item["backfill_id"] for item in [*listed, *rest]] == started[::-1]


@pytest.mark.parametrize("path", ["/v1/schedules", "/v1/effects", "/v1/scores", "/v1/incidents"])
async def test_a_cursor_that_was_tampered_with_is_refused(path: str) -> None:
    async with site() as s:
        for cursor in ("W10", "bm9uc2Vuc2U", "W1tdLFs5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OSwieCJdXQ"):
            told = await s.client("GET", f"{path}?cursor={cursor}")
            assert (told.status, told.json["errors"][0]["path"]) == (422, "query.cursor")


async def test_a_wrong_parameter_is_named_with_what_may_be_chosen() -> None:
    async with site() as s:
        refused = (await s.client("GET", "/v1/schedules?status=asleep")).json
        told = "must be active, paused, ended or error, not 'asleep'"
        assert refused["errors"] == [{"path": "query.status", "message": told}]
        assert refused["detail"] == f"1 parameter is wrong: query.status: {told}"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/v1/ledger?domain=runs", "did you mean kind?"),
        ("/v1/ledger?limt=1", "did you mean limit?"),
        ("/v1/ledger?xyz=1", "known: "),
        ("/v1/clock?at=1", "none is defined"),
    ],
)
async def test_a_parameter_that_is_not_there_is_told_with_those_that_are(path: str, says: str) -> None:
    async with site() as s:
        [error] = (await s.client("GET", path)).json["errors"]
        assert error["message"].startswith(f"no such parameter; {says}")
