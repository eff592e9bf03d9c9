"""The dashboard for Grafana: it asks for numbers that a server really tells, and Health leads to it."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from betimes.app.configuration import Configuration
from betimes.console.settings import ConsoleSettings
from betimes.console.site import console_routes
from tests.http.served import Client, site

DASHBOARD: dict[str, Any] = msgspec.json.decode(files("betimes.console").joinpath("grafana.json").read_bytes())
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
FROM_PROMETHEUS = {"le", "instance", "job"}
"""Labels that it adds, or that are a histogram's own."""


def queries() -> list[dict[str, str]]:
    return [target for panel in DASHBOARD["panels"] for target in panel["targets"]]


async def test_every_number_the_dashboard_asks_for_is_told_by_a_server(tmp_path: Path) -> None:
    async with site(url=f"sqlite:///{tmp_path}/betimes.db") as s:
        trigger = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        await s.client("POST", "/v1/triggers", trigger)
        text = (await s.client("GET", "/metrics")).raw.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    told = {f"{name}{end}" for name, family in families.items() for end in SUFFIXES[family.type]}
    asked = {name for query in queries() for name in re.findall(r"betimes_\w+", query["expr"])}
    assert asked - told == set()
    # What is told and not asked for is the instant behind a lag that is shown.
    assert {name.removesuffix("_bucket") for name in told - asked if not name.endswith(("_count", "_sum"))} == {
        "betimes_oldest_alarm_timestamp_seconds"
    }
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    known = labels | FROM_PROMETHEUS | {"what", "executor", "status"}  # of what nothing is counted yet
    used = {name for query in queries() for name in re.findall(r"{{(\w+)}}", query["legendFormat"])}
    grouped = {
        name
        for query in queries()
        for found in re.findall(r"by \(([\w, ]+)\)", query["expr"])
        for name in found.split(", ")
    }
    assert (used | grouped) - known == set()
    assert used <= grouped | {"instance"}, "a legend names what its query keeps"


def test_its_panels_stand_beside_each_other_and_are_named() -> None:
    places = set[tuple[int, int]]()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert panel["title"]
        assert panel["description"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places, panel["title"]
        places |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def served(settings: ConsoleSettings) -> Client:
    return Client(Starlette(routes=console_routes(settings, dev=True)))


async def test_it_is_sent_to_be_imported() -> None:
    sent = await served(ConsoleSettings())("GET", "/console/grafana.json")
    assert (sent.json, sent.headers["content-type"]) == (DASHBOARD, "application/json")
    assert sent.headers["content-disposition"] == 'attachment; filename="betimes-grafana.json"'


async def test_an_address_is_text_in_the_page() -> None:
    page = await served(ConsoleSettings())("GET", "/console/health")
    assert b' data-grafana=""' in page.raw
    address = 'https://grafana.example/d/betimes?x="><script>'
    page = await served(ConsoleSettings(grafana=address))("GET", "/console/health")
    assert b' data-grafana="https://grafana.example/d/betimes?x=&quot;&gt;&lt;script&gt;"' in page.raw


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "grafana.example",
        "ftp://grafana.example",
        "https://",
        "https://me:hush@grafana.example/d/betimes",
        "https://grafana.example:0x/",
        "https://grafana.example/a b",
        "https://grafana.example/\n",
        "https://[::1",
        "https://grafana.example/" + "a" * 2_000,
    ],
)
def test_what_is_no_address_of_a_dashboard_is_refused(address: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="grafana is") as refused:
        msgspec.convert({"console": {"grafana": address}}, Configuration)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("address", ["", "http://localhost:3000/d/betimes", "https://grafana.example/d/x?orgId=1"])
def test_an_address_is_taken_as_it_is(address: str) -> None:
    assert msgspec.convert({"console": {"grafana": address}}, Configuration).console.grafana == address
