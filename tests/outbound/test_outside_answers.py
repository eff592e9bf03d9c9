"""What others answer passes the checker of what others ask: a bad answer is that call's failure and spoils nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.core.errors import Invalid
from betimes.core.instants import LAST
from betimes.domain.service import Caller
from betimes.intents.sources import SourceFailed, _instant, _number
from betimes.notifications.enrichment import read
from betimes.outbound.webhooks import answer
from tests.http.served import site

LONG = 10**400
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23)))
UNKEPT: tuple[Any, ...] = (
    "\ud800",
    {"\udfff": 1},
    LONG,
    10**5_000,
    ENDLESS,
    EARLY,
    object(),
    Decimal("1e400"),
    [[{"a": LONG}]],
)
"""What cannot be kept as JSON and be read by everybody."""


@pytest.mark.parametrize("place", ["cursor", "payload", "run_key", "itself"])
async def test_an_evaluators_answer_that_cannot_be_kept_is_its_failure(place: str) -> None:
    bad: list[Any] = []

    async def evaluate(cursor: Any, context: Any) -> Any:
        request = {
            "run_key": "k",
            **({place: bad[0] if place == "run_key" else {"a": bad[0]}} if place != "cursor" else {}),
        }
        return (
            bad[0] if place == "itself" else {"cursor": bad[0] if place == "cursor" else 1, "run_requests": [request]}
        )

    def declare(bt: Betimes) -> None:
        bt.handler("note")(lambda payload: None)
        bt.declared.evaluators.evaluator("poll")(evaluate)

    async with site(declare=declare) as s:
        sensor = {
            "sensor_id": "orders",
            "sensor_type": "poll",
            "target": {"kind": "handler", "name": "note"},
            "evaluator": {"kind": "handler", "name": "poll"},
            "max_errors": 100,
        }
        assert (await s.client("POST", "/v1/sensors", sensor)).status == 201
        for answered in (*UNKEPT, *(("a\0b",) if place == "run_key" else ())):
            bad[:] = [answered]
            told = await s.client("POST", "/v1/sensors/orders/evaluate")
            assert (told.status, told.json["status"], told.json["run_requests"]) == (200, "error", []), told.raw
            s.clock.advance(3_600)
            await s.bt.tick()
        assert (await s.client("GET", "/v1/sensors/orders")).json["cursor"] is None
        for path in ("/v1/sensors", "/v1/sensors/orders/evaluations", "/v1/ledger", "/v1/effects"):
            assert (await s.client("GET", path)).status == 200


async def test_a_handlers_result_that_cannot_be_kept_is_told_as_what_it_looks_like() -> None:
    bad: list[Any] = []

    def declare(bt: Betimes) -> None:
        bt.run("SIGNAL_ARRIVED", cooldown_seconds=0, debounce_seconds=0)(lambda payload: bad[0])

    async with site(declare=declare) as s:
        for number, result in enumerate(UNKEPT):
            bad[:] = [result]
            body = {"account_id": f"a{number}", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": f"k{number}"}
            run_id = (await s.client("POST", "/v1/triggers", body)).json["run_id"]
            await s.bt.tick()
            run = (await s.client("GET", f"/v1/runs/{run_id}")).json
            assert (run["status"], type(run["result"])) == ("succeeded", str)
        assert (await s.client("GET", "/v1/runs")).status == 200


def test_a_webhooks_answer_that_cannot_be_kept_is_none() -> None:
    for said in (b"", b"{", b"\xff", b'"\\ud800"', b"1e999", b"9" * 400, b"[" * 600 + b"]" * 600):
        assert answer(said) is None


def test_a_score_out_of_bounds_is_none() -> None:
    numbers: list[Any] = [LONG, 10**5_000, -1, 2, float("nan"), float("inf"), Decimal("sNaN"), Decimal("1e999999")]
    for said in (*numbers, "x", [], b"1"):
        assert read(said) == "not_a_score"


def test_a_number_of_a_source_is_within_bounds() -> None:
    for said in (10**5_000, "1" * 5_000, "NaN", "1e999999", float("inf"), "\ud800", object(), True):
        with pytest.raises(SourceFailed):
            _number("price", "NVDA", said)


def test_an_instant_of_a_source_is_within_the_calendar() -> None:
    before = datetime(1969, 1, 1, tzinfo=UTC)
    for said in (-1, LAST + 1, 10**5_000, EARLY, before, "0001-01-01T00:00:00+23:00", "\ud800", 1.5):
        with pytest.raises(SourceFailed):
            _instant(said)


async def test_overrides_of_a_policy_are_held_against_the_bounds() -> None:
    async with site() as s:
        tenants = s.bt.for_caller(Caller()).tenants
        for overrides in (
            {"intents": {"channels": ["in\0app"]}},
            {"runs": {"tiers": {"\ud800": 1}}},
            {"intents": {"channels": ["\ud800"]}},
        ):
            with pytest.raises(Invalid):
                await tenants.set_policy({"overrides": overrides})
        told = await s.client("PUT", "/v1/policy", {"overrides": {"intents": {"channels": ["in\0app"]}}})
        assert (told.status, told.json["errors"][0]["path"]) == (422, "overrides.intents.channels[0]")
        assert (await s.client("GET", "/v1/policy")).json["overrides"] == {}
