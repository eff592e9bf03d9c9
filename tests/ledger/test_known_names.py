"""A filter by a name that nothing can have is an error that names what there is, never an empty answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.catalogue import DOMAIN_OF
from betimes.engine.store import StreamQuery
from betimes.ledger.known_names import check_names, known_names, known_statuses
from tests.http.served import site
from tests.ledger.test_questions import asked, decided, get


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/verdicts?outcome=PERHAPS", "outcome"),
        ("/v1/verdicts?outcome=", "outcome"),
        ("/v1/stats?outcome=", "outcome"),
        ("/v1/verdicts?reason=QUIET_HOUR", "reason"),
        ("/v1/verdicts?domain=weather", "domain"),
        ("/v1/stats?outcome=PERHAPS", "outcome"),
        ("/v1/stats?reason=QUIET_HOUR", "reason"),
        ("/v1/upcoming?kinds=inbox,weather", "kinds"),
        ("/v1/upcoming/items?reason=QUIET_HOUR", "reason"),
        ("/v1/streams?kind=weather", "kind"),
        ("/v1/streams?kind=run&status=sunny", "status"),
        ("/v1/streams?kind=intent&status=enabled.sunny", "status"),
        ("/v1/search?q=a&kinds=weather", "kinds"),
        ("/v1/ledger?kind=weather", "kind"),
        ("/v1/effects?domain=weather", "domain"),
        ("/v1/verdicts/stream?outcome=NOW,PERHAPS", "outcome"),
        ("/v1/verdicts/stream?reason=QUIET_HOUR&mode=pulse", "reason"),
    ],
)
async def test_an_unknown_name_is_refused_by_every_list(path: str, name: str) -> None:
    async with site() as s:
        reply = await s.client("GET", path)
        assert reply.status == 422, reply.raw
        [error] = reply.json["errors"]
        assert error["path"] == f"query.{name}"
        assert error["message"] in reply.json["detail"]
        assert len(error["message"]) <= 500
        if name == "reason":
            assert "known: QUIET_HOURS, " in error["message"]


async def test_all_that_was_decided_and_waits_has_a_known_name(tmp_path: Path) -> None:
    async with asked("sqlite", tmp_path) as (bt, client, _clock):
        for _, outcome, reasons in await decided(bt):
            check_names(outcomes=(outcome,))
            for reason in reasons:
                check_names(reason=reason)
        for kind in DOMAIN_OF:
            for row in await bt.engine.store.streams(StreamQuery(tenant="default", kind=kind, limit=100)):
                check_names(kind=kind, status=row.status or None)
        meta = await get(client, "/v1/meta")
        assert (tuple(meta["outcomes"]), tuple(meta["reasons"])) == (known_names("outcome"), known_names("reason"))
        for kind in ("run", "schedule", "sensor", "backfill", "inbox", "account", "incident", "intent"):
            assert known_statuses(kind), kind
        assert known_statuses("score") == ()  # policies may make new ones


async def test_every_refusal_of_a_parameter_names_it() -> None:
    async with site() as s:
        for path in (
            "/v1/stats?by=colour",
            "/v1/stats?since=2026-01-06T00:00:00Z&until=2026-01-05T00:00:00Z",
            "/v1/streams",
            "/v1/upcoming?from=2026-01-06T00:00:00Z&to=2026-01-05T00:00:00Z",
            "/v1/upcoming?step=1m&to=2026-02-05T00:00:00Z",
            "/v1/timeline?user_id=a&since=2026-01-06T00:00:00Z&until=2026-06-05T00:00:00Z",
            "/v1/verdicts/stream?sample=3",
        ):
            reply = await s.client("GET", path)
            assert reply.status == 422
            [error] = reply.json["errors"]
            assert error["path"] in reply.json["detail"], reply.json["detail"]


@pytest.mark.parametrize(
    "query",
    ["command_type=Wakes", "event_type=RunAllow", "kind=score&command_type=RequestRun", "kind=score&event_type=x"],
)
async def test_the_ledger_knows_which_types_can_be_recorded(query: str) -> None:
    async with site() as s:
        wrong = await s.client("GET", f"/v1/ledger?{query}")
        [error] = wrong.json["errors"]
        assert (wrong.status, error["path"]) == (422, f"query.{query.rpartition('&')[2].partition('=')[0]}")
        assert "known: " in error["message"]
        for known in ("command_type=Wake", "command_type=RequestRun&kind=account", "event_type=RunAllowed"):
            assert (await s.client("GET", f"/v1/ledger?{known}")).status == 200
