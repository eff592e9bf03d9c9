"""A key hears of the domains it may read, and of nothing that belongs to the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from betimes.app.routes import ROUTES
from betimes.catalogue import AREAS, DOMAIN_OF
from betimes.http.routes import Route
from betimes.ledger import pulse
from betimes.ledger.pulse import PulseFeed, PulseTail
from betimes.ledger.verdict_feed import FeedFilters, VerdictFeed, VerdictTail
from tests.http.areas import TENANT, client_of, clients_by_area, executor_mark, mark_of, populated_site
from tests.http.served import Client, Site

QUERIES = {
    "/v1/streams": [f"kind={kind}" for kind in DOMAIN_OF],
    "/v1/search": [f"q={mark_of(area)}" for area in AREAS],
    "/v1/timeline": [f"user_id={mark_of(area)}-user" for area in AREAS] + [f"account_id={mark_of('runs')}-account"],
    "/v1/stats": ["by=domain,kind,outcome,reason"],
    "/v1/effects": ["", "status=dead", "status=pending"],
}
"""What a question is asked with, where it has parameters that it does not do without, or that tell more."""
ENDLESS = "/v1/verdicts/stream"
RECORDS_OF_RUNS = ("/v1/ledger", "/v1/explain/{segment_id}", "/v1/streams/{kind}/{id}")
NAMES = re.compile(r"{(\w+)}")


class Known(msgspec.Struct):
    """What there is, by the name of a parameter: the values of each domain."""

    values: dict[str, dict[str, list[str]]] = {}

    def add(self, name: str, area: str, value: str) -> None:
        self.values.setdefault(name, {}).setdefault(area, []).append(value)


async def known_names(admin: Client) -> Known:
    """Return everything that a path can name, as an administrator lists it."""
    known = Known()

    async def items(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await admin("GET", path)).json["items"]
        return found

    for segment in await items("/v1/ledger?limit=200"):
        known.add("segment_id", segment["domain"], segment["segment_id"])
        known.add("stream", segment["domain"], f"{segment['kind']}/{segment['id']}")
    for effect in await items("/v1/effects?limit=200"):
        known.add("effect_id", effect["domain"], effect["effect_id"])
    for run in await items("/v1/runs"):
        known.add("run_id", "runs", run["run_id"])
    for area, name, end in (
        ("runs", "account_id", "account"),
        ("runs", "idempotency_key", "key-0"),
        ("notifications", "event_id", "0"),
        ("notifications", "user_id", "user"),
        ("intents", "intent_id", "intent"),
        ("automation", "schedule_id", "schedule"),
        ("automation", "sensor_id", "push"),
        ("scores", "user_id", "user"),
    ):
        known.add(name, area, f"{mark_of(area)}-{end}")
    return known


def questions(route: Route, area: str, known: Known) -> Iterator[str]:
    """Yield paths of a route about everything of a domain that it can name, with every query."""
    path = route.path.replace("{kind}/{id}", "{stream}")
    names = NAMES.findall(path)
    options = [list(dict.fromkeys(known.values.get(name, {}).get(area, ()))) for name in names]
    for values in product(*options):
        for query in QUERIES.get(route.path, [""]):
            yield path.format_map(dict(zip(names, values, strict=True))) + (f"?{query}" if query else "")


def marks_of_others(area: str, path: str = "") -> list[str]:
    """Return what an answer about a domain may not hold.

    The record of a run says which schedule or sensor asked for it, and who carried it out.
    """
    is_record = area == "runs" and path in RECORDS_OF_RUNS
    others = [other for other in AREAS if other != area and not (is_record and other == "automation")]
    return [*map(mark_of, others), *map(executor_mark, others)]


async def test_no_answer_names_anything_of_a_domain_that_the_key_may_not_read() -> None:
    async with populated_site() as s:
        known = await known_names(await client_of(s, "admin"))
        for area, client in (await clients_by_area(s)).items():
            heard = 0
            for route in ROUTES:
                if route.method != "GET" or route.path == ENDLESS:
                    continue
                for question in questions(route, area, known):
                    reply = await client("GET", question)
                    others = [mark for mark in marks_of_others(area, route.path) if mark not in question]
                    told = [mark for mark in others if mark in reply.raw.decode()]
                    assert not told, f"{area}:read asked {question} and heard of {told}: {reply.raw[:2_000]!r}"
                    heard += reply.status == 200 and mark_of(area) in reply.raw.decode()
            assert heard > 10, f"{area}:read must hear of its own"


async def test_what_belongs_to_other_domains_is_not_there() -> None:
    async with populated_site() as s:
        known = await known_names(await client_of(s, "admin"))
        for area, client in (await clients_by_area(s)).items():
            for route in ROUTES:
                if route.method != "GET" or route.scope != "any:read" or "{" not in route.path:
                    continue
                for other in (*AREAS, "tenant"):
                    for question in questions(route, other, known) if other != area else ():
                        assert (await client("GET", question)).status == 404, (area, question)


async def test_what_is_owed_names_only_executors_of_the_keys_domains() -> None:
    async with populated_site() as s:
        admin = await client_of(s, "admin")
        everything = (await admin("GET", "/v1/backlog")).json["orphaned"]
        for area, client in (await clients_by_area(s)).items():
            orphaned = (await client("GET", "/v1/backlog")).json["orphaned"]
            assert orphaned == {name: count for name, count in everything.items() if executor_mark(area) in name}
            executors = (await client("GET", "/v1/health")).json["executors"]
            assert {one["executor"] for one in executors} == set(orphaned)
            assert {one["executor"]: one["orphaned"] for one in executors} == orphaned
        assert {area for area in AREAS if executor_mark(area) in " ".join(everything)} == {*AREAS} - {"intents"}


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every read a beat, so that nothing waits for a clock."""
    monkeypatch.setattr(pulse, "BEAT_S", 0.0)


@pytest.mark.usefixtures("beat")
async def test_a_stream_of_verdicts_names_nothing_of_other_domains() -> None:
    async with populated_site() as s:
        pulses, verdicts = PulseTail(s.bt.engine), VerdictTail(s.bt.engine)
        feeds = {
            area: (
                PulseFeed(pulses, TENANT, frozenset({area}), FeedFilters(), 50),
                await VerdictFeed.from_now(verdicts, TENANT, frozenset({area}), FeedFilters()),
            )
            for area in AREAS
        }
        for pulsing, _ in feeds.values():
            await pulsing.start(None)
        await _go_on(s)
        for area, (pulsing, feed) in feeds.items():
            _, frame = await pulsing.read() or (0, b"")
            assert frame
            events = msgspec.json.encode([event for _, event in await feed.read()])
            told = [mark for mark in marks_of_others(area) if mark in (frame + events).decode()]
            assert not told, f"a stream of {area} told of {told}"


async def _go_on(s: Site) -> None:
    """Have something decided in several domains."""
    client = await client_of(s, "admin")
    body = {"account_id": "own_runs-again", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "own_runs-again"}
    assert (await client("POST", "/v1/triggers", body)).status == 200
    assert (await client("POST", "/v1/schedules/own_automation-schedule/trigger")).status < 300
