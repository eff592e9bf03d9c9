"""Rate limits over HTTP: each tenant by the deployment's policy, refused with 429 and when to come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from betimes.http import process
from betimes.http.process import REFRESH_S, Bucket
from tests.http.served import Site, site

TRIGGER = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED"}


class Stopwatch:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def watched(s: Site) -> Stopwatch:
    """Let the limits of a site count by a watch that stands still."""
    s.application.state.process.rate_limits._clock = watch = Stopwatch()
    return watch


def triggers(prefix: str, count: int) -> dict[str, Any]:
    return {"items": [{**TRIGGER, "idempotency_key": f"{prefix}-{number}"} for number in range(count)]}


async def test_a_tenant_over_its_limit_is_refused_and_told_when_to_come_back() -> None:
    async with site(policy={"limits": {"requests_per_minute": 12}}) as s:
        watch = watched(s)
        loud, quiet = s.as_tenant("loud"), s.as_tenant("quiet")
        assert [(await loud("GET", "/v1/runs")).status for _ in range(2)] == [200, 200]
        refused = await loud("GET", "/v1/runs")
        assert (refused.status, refused.json["code"], refused.headers["retry-after"]) == (429, "RATE_LIMITED", "5")
        assert (await quiet("GET", "/v1/runs")).status == 200
        assert (await loud("GET", "/healthz")).status == 200
        watch.now_s += 5
        assert [(await loud("GET", "/v1/runs")).status for _ in range(2)] == [200, 429]
        text = (await s.client("GET", "/metrics")).raw.decode()
        assert 'betimes_rate_limited_total{what="requests"} 2.0' in text


async def test_items_of_batches_are_counted_and_what_is_refused_uses_up_no_key() -> None:
    async with site(policy={"limits": {"items_per_minute": 60}}) as s:
        watch = watched(s)
        assert (await s.client("POST", "/v1/triggers", triggers("a", 8))).status == 200
        refused = await s.client("POST", "/v1/triggers", triggers("b", 4))
        assert (refused.status, refused.headers["retry-after"]) == (429, "2")
        assert (await s.client("GET", "/v1/runs")).status == 200
        watch.now_s += 2
        again = await s.client("POST", "/v1/triggers", triggers("b", 4))
        assert [item["body"]["is_replay"] for item in again.json["items"]] == [False] * 4
        assert (await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "c"})).status == 429


async def test_a_tenant_can_lower_its_limit_and_not_raise_it() -> None:
    limits = {"requests_per_minute": 60, "tenants": {"vip": {"requests_per_minute": 6_000}}}
    async with site(policy={"limits": limits}) as s:
        watch = watched(s)

        async def admitted(tenant: str) -> int:
            client, count = s.as_tenant(tenant), 0
            while count < 200 and (await client("GET", "/v1/whoami")).status == 200:
                count += 1
            return count

        assert (await admitted("vip"), await admitted("a")) == (200, 10)
        for tenant, rate in (("a", 100_000), ("b", 12)):
            watch.now_s += 60
            own = {"limits": {"requests_per_minute": rate, "tenants": {tenant: {}}}}
            assert (await s.as_tenant(tenant)("PUT", "/v1/policy", {"overrides": own})).status == 200
        watch.now_s += REFRESH_S + 60
        assert (await admitted("a"), await admitted("b")) == (10, 2)


async def test_requests_that_come_together_read_the_limits_once_and_all_keep_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with site(policy={"limits": {"requests_per_minute": 60}}) as s:
        watch, engine, read = watched(s), s.bt.engine, list[str]()
        policy_of = engine.policy_of

        async def counted(tenant: str) -> Any:
            read.append(tenant)
            await asyncio.sleep(0)  # as one that reads from a disk lets others go on
            return await policy_of(tenant)

        async def admitted(wanted: int) -> tuple[int, int]:
            read.clear()
            replies = await asyncio.gather(*(s.as_tenant("a")("GET", "/v1/whoami") for _ in range(wanted)))
            return sum(reply.status == 200 for reply in replies), read.count("a")

        monkeypatch.setattr(engine, "policy_of", counted)
        assert await admitted(40) == (10, 1)
        watch.now_s += REFRESH_S + 5
        assert await admitted(40) == (10, 1)
        assert await admitted(5) == (0, 0)


async def test_a_tenant_whose_limits_are_being_read_is_kept_among_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(policy={"limits": {"requests_per_minute": 60}}) as s:
        watch, limits = watched(s), s.application.state.process.rate_limits
        assert (await s.as_tenant("a")("GET", "/v1/whoami")).status == 200
        assert (await s.as_tenant("b")("GET", "/v1/whoami")).status == 200
        monkeypatch.setattr(process, "TENANTS_MAX", 1)
        watch.now_s += REFRESH_S
        async with limits._tenants["a"].reading:
            assert (await s.as_tenant("a")("GET", "/v1/whoami")).status == 200


async def test_every_route_that_takes_a_key_says_that_it_may_be_refused() -> None:
    async with site() as s:
        described = (await s.client("GET", "/openapi.json")).json["paths"]
        assert "RATE_LIMITED" in described["/v1/triggers"]["post"]["responses"]["429"]["description"]
        assert "429" not in described["/healthz"]["get"]["responses"]


def test_a_request_larger_than_the_bucket_is_let_in_when_it_is_full_and_leaves_a_debt() -> None:
    bucket = Bucket()
    assert bucket.take(500, 60, 0.0) == 0
    assert bucket.take(1, 60, 0.0) == 491
    assert bucket.take(1, 60, 491.0) == 0
