"""The service itself: alive, ready, counted and described."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from betimes.admin.service import NewKey
from betimes.app import Betimes
from betimes.app.routes import ROUTES
from betimes.app.settings import Settings
from betimes.core.errors import Unavailable
from betimes.domain.service import Caller
from betimes.domain.targets import HandlerTarget
from betimes.http import health
from betimes.http.server import serve
from betimes.notifications.views import NotificationRequest
from betimes.outbound.channels import ChannelSettings
from betimes.schedules.views import ScheduleRequest
from tests.http.served import Client, Site, site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}


async def test_it_lives_and_is_ready_without_a_key() -> None:
    async with site(dev=False) as s:
        alive = await s.client("GET", "/healthz")
        assert (alive.status, alive.json["status"]) == (200, "ok")
        assert alive.json["version"]
        assert (await s.client("GET", "/readyz")).json == {"status": "ready", "warnings": [], "held_tenants": 0}


async def test_it_is_not_ready_before_it_is_open_and_after_it_is_closed() -> None:
    bt = Betimes("memory://", workers=False)
    client = Client(serve(bt, ROUTES))
    early = await client("GET", "/readyz")
    assert (early.status, early.json["code"], early.json["errors"][0]["path"]) == (503, "NOT_READY", "engine")
    async with bt:
        assert (await client("GET", "/readyz")).status == 200
    assert (await client("GET", "/readyz")).status == 503
    assert (await client("GET", "/healthz")).status == 200


@pytest.mark.parametrize("fault", ["gone", "silent"])
async def test_it_is_not_ready_when_the_store_is_gone_or_silent(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(streams: Any) -> Any:
        if fault == "silent":
            await asyncio.Event().wait()
        raise Unavailable("postgresql://user:hush@db is down")

    async with site() as s:
        monkeypatch.setattr(health, "STORE_S", 0.01)
        monkeypatch.setattr(s.bt.engine.store, "load", load)
        reply = await s.client("GET", "/readyz")
        assert (reply.status, reply.json["errors"][0]["path"]) == (503, "store")
        assert reply.headers["retry-after"]
        assert b"hush" not in reply.raw


# -- metrics


async def _numbers(client: Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    reply = await client("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(reply.raw.decode())
        for sample in family.samples
    }


def _labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


async def test_verdicts_batches_and_requests_are_counted() -> None:
    async with site() as s:
        for key, after_s in (("sig-1", 120), ("sig-2", 1), ("sig-2", 0)):
            await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": key})
            s.clock.advance(after_s)
        numbers = await _numbers(s.client)
        counted = {
            labels: value
            for (name, labels), value in numbers.items()
            if name == "betimes_verdicts_total" and ("kind", "account") in labels
        }
        assert counted == {
            _labels(kind="account", outcome="ALLOW", reason="WITHIN_LIMITS"): 1,
            _labels(kind="account", outcome="DEFER", reason="COOLDOWN"): 1,
            _labels(kind="account", outcome="SKIP", reason="DUPLICATE_IDEMPOTENCY_KEY"): 1,
        }
        assert numbers["betimes_batch_segments_count", ()] >= 3
        assert (
            numbers["betimes_batch_segments_bucket", _labels(le="+Inf")] == numbers["betimes_batch_segments_count", ()]
        )
        asked = _labels(method="POST", route="/v1/triggers", status="200")
        assert numbers["betimes_request_seconds_count", asked] == 3


async def test_how_late_alarms_rang_is_counted() -> None:
    async with site() as s:
        every = {"every": {"seconds": 60}, "target": {"kind": "sweep"}}
        await s.client("PUT", "/v1/schedules/pulse", every)
        s.clock.advance(63)
        await s.client("POST", "/v1/tick", {})
        numbers = await _numbers(s.client)
        rang = numbers["betimes_alarm_rang_late_seconds_count", ()]
        assert rang >= 1
        assert numbers["betimes_alarm_rang_late_seconds_bucket", _labels(le="2.0")] == rang - 1
        assert numbers["betimes_alarm_rang_late_seconds_bucket", _labels(le="5.0")] == rang
        assert numbers["betimes_alarm_rang_late_seconds_sum", ()] == 3


async def test_what_is_owed_is_told() -> None:
    def declare(bt: Betimes) -> None:
        async def broken(payload: Any) -> None:
            raise RuntimeError("no")

        bt.handler("broken")(broken)

    async with site(settings=Settings(channels=ChannelSettings()), declare=declare) as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        s.clock.advance(120)
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"})
        services = s.bt.for_caller(Caller("default"))
        await services.notifications.send(
            NotificationRequest(
                event_id="e",
                user_id="ann",
                event_type="ALERT",
                title="t",
                message="m",
                source="s",
                channels=("push",),
                priority_hint="HIGH",
            )
        )
        await s.bt.tick()
        for name in ("broken", "nobody"):
            await services.schedules.create(
                ScheduleRequest(schedule_id=name, cron="0 0 1 1 *", target=HandlerTarget(name))
            )
            await services.schedules.trigger(name)
        await s.bt.tick()
        s.clock.advance(240)
        numbers = await _numbers(s.client)
        assert numbers["betimes_alarm_lag_seconds", ()] == 60
        assert numbers["betimes_oldest_alarm_timestamp_seconds", ()] == s.clock() / 1_000_000 - 60
        assert numbers["betimes_alarms_due", ()] == 1
        assert numbers["betimes_effects_dead", ()] == 1
        assert numbers["betimes_effects_pending", ()] == 2
        assert numbers["betimes_effects_orphaned", _labels(executor="handler:nobody")] == 1
        assert numbers["betimes_reports_total", _labels(what="call_dead")] == 1
        assert numbers["betimes_wakes_snoozed", ()] == 0
        assert ("betimes_queue_commands", ()) in numbers
        await s.bt.tick()
        assert (await _numbers(s.client))["betimes_alarm_lag_seconds", ()] == 0


async def test_claims_that_ran_out_are_counted() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        [run] = (await s.client("GET", "/v1/runs")).json["items"]
        await s.client("POST", f"/v1/runs/{run['run_id']}/claim", {"worker": "w", "lease_s": 10})
        await s.bt.advance(to=s.clock() + 11_000_000)
        numbers = await _numbers(s.client)
        assert numbers["betimes_claims_expired_total", _labels(kind="run")] == 1
        assert numbers["betimes_claims_expired_total", _labels(kind="intent")] == 0


async def test_no_label_names_a_tenant_or_an_id_and_only_the_deployment_reads_them() -> None:
    async with site(dev=False) as s:

        async def client(tenant: str, *scopes: Any) -> Client:
            made = await s.bt.for_caller(Caller(tenant)).tenants.create_key(NewKey(name="k", scopes=scopes))
            return s.with_key(made.secret or "")

        writer = await client("acme-tenant", "admin")
        await writer("POST", "/v1/triggers", TRIGGER)
        await writer("GET", "/v1/accounts/acct-7/run-state")
        text = (await (await client("*", "metrics"))("GET", "/metrics")).raw.decode()
        assert 'route="/v1/accounts/{account_id}/run-state"' in text
        assert re.search("acme|acct-7|sig-1", text) is None
        own = await (await client("acme-tenant", "metrics"))("GET", "/metrics")
        assert (own.status, own.json["code"]) == (403, "MISSING_SCOPE")
        assert (await s.client("GET", "/metrics")).status == 401


# -- description


async def test_the_page_needs_nothing_from_elsewhere() -> None:
    async with site(dev=False) as s:
        page = await s.client("GET", "/docs")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        text = page.raw.decode()
        assert not re.search(r"""(src|href)=["'](https?:)?//""", text)
        assert "innerHTML" not in text
        assert "default-src 'none'" in page.headers["content-security-policy"]


def _found(value: Any, name: str) -> list[Any]:
    """Everything under a name, at any depth."""
    if isinstance(value, dict):
        own = [value[name]] if name in value else []
        return own + [hit for part in value.values() for hit in _found(part, name)]
    return [hit for part in value for hit in _found(part, name)] if isinstance(value, list) else []


def _operations(api: Any) -> list[tuple[str, Any]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]


async def _described(s: Site) -> Any:
    return (await s.client("GET", "/openapi.json")).json


async def test_the_description_holds_together() -> None:
    async with site(dev=False) as s:
        api = await _described(s)
    assert api["openapi"] == "3.1.0"
    assert "$ref" in api["components"]["schemas"]["DryRunAnswer"]["properties"]["dry_run"]
    schemas = api["components"]["schemas"]
    for reference in _found(api, "$ref"):
        assert reference.startswith("#/components/schemas/")
        assert reference.removeprefix("#/components/schemas/") in schemas
    operations = _operations(api)
    assert len(operations) == len(ROUTES)
    ids = [operation["operationId"] for _, operation in operations]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9_]+", id) for id in ids)
    for name, operation in operations:
        assert operation["summary"], name
        assert operation["description"], name
        declared = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", name)), name
        answers = {status: answer for status, answer in operation["responses"].items() if status < "300"}
        assert answers, name
        for status, answer in answers.items():
            assert status == "204" or all("schema" in content for content in answer["content"].values()), name
        assert all(
            "application/problem+json" in answer["content"]
            for status, answer in operation["responses"].items()
            if status >= "400"
        ), name
    assert {operation["tags"][0] for _, operation in operations} == {tag["name"] for tag in api["tags"]}


async def test_the_description_says_what_fields_are_for() -> None:
    async with site() as s:
        api = await _described(s)
    assert api["components"]["schemas"]["EffectView"]["properties"]["channel"]["description"] == "Of a delivery."
    ledger = api["paths"]["/v1/ledger"]["get"]["parameters"]
    assert {"name": "since", "description": "Included."}.items() <= next(
        parameter for parameter in ledger if parameter["name"] == "since"
    ).items()
    headers = {parameter["name"] for parameter in api["paths"]["/v1/policy"]["put"]["parameters"]}
    assert {"If-Match", "X-Correlation-Id"} <= headers
    stream = api["paths"]["/v1/verdicts/stream"]["get"]
    assert "text/event-stream" in stream["responses"]["200"]["content"]
    assert "Last-Event-ID" in {parameter["name"] for parameter in stream["parameters"]}


async def test_every_example_is_accepted() -> None:
    async with site() as s:
        api = await _described(s)
        for name, operation in _operations(api):
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" not in content or "{" in name:
                continue
            method, path = name.split()
            reply = await s.client(method.upper(), path, content["example"])
            assert reply.status < 300, (name, reply.json)
