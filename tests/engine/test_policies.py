"""Policy: what is in force is a stream, read with every batch, and named by every segment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.core.errors import Refused
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.engine.store import LedgerQuery
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy, tenant_stream
from betimes.testing.sample import Knock
from betimes.testing.sample.policy import GatePolicy
from tests.engine.worlds import GATE, world
from tests.stores.backends import Backend


async def test_every_segment_names_the_policy_it_was_decided_under(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0}) as w:
        before = (await w.knock("ann")).policy
        await w.submit(SetPolicy({"gates": {"cooldown_s": 5}}), tenant_stream("acme"))
        after = await w.knock("bob")
        assert after.policy != before
        assert after.verdict
        assert after.verdict.reasons == ("COOLDOWN",)
        bodies = [await w.store.policy(name) for name in (before, after.policy)]
        assert ['"cooldown_s":0' in (bodies[0] or ""), '"cooldown_s":5' in (bodies[1] or "")] == [True, True]


async def test_another_process_decides_by_the_last_committed_policy(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0, "tenant_per_hour": None}) as w:
        await w.other.submit(Submission(stream=GATE, command=Knock("ann")))
        await w.submit(SetPolicy({"gates": {"tenant_per_hour": 1}}), tenant_stream("acme"))
        first = await w.other.submit(Submission(stream=GATE, command=Knock("bob")))
        second = await w.other.submit(Submission(stream=GATE, command=Knock("cid")))
        assert [r.verdict.reasons for r in (first, second) if r.verdict] == [("WELCOME",), ("TENANT_CAP",)]


async def test_a_tenants_overrides_are_its_own(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0}) as w:
        await w.submit(SetPolicy({"gates": {"cooldown_s": 5}}), tenant_stream("acme"))
        other = StreamId("globex", "gate", "front")
        answers = [await w.knock(visitor, gate) for gate in (GATE, other) for visitor in ("ann", "bob")]
        assert [a.verdict.reasons[0] for a in answers if a.verdict] == ["WELCOME", "COOLDOWN", "WELCOME", "WELCOME"]


async def test_a_policy_that_cannot_work_is_refused_with_all_its_paths(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path) as w:
        with pytest.raises(Refused, match=r"windows: no such section.*gates\.cooldown_s: must be") as refusal:
            await w.submit(SetPolicy({"gates": {"cooldown_s": -1}, "windows": {}}), tenant_stream("acme"))
        assert refusal.value.reason == "POLICY_INVALID"


async def test_the_configured_policy_is_put_in_force_once(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 7}) as w:
        [segment] = await w.store.ledger(LedgerQuery(kind="tenant"))
        assert (segment.stream, segment.actor) == (DEPLOYMENT, "config"), "two processes started with it"


async def test_a_command_behind_a_change_of_policy_goes_by_the_new_one(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 0}) as w:
        await w.knock("ann")
        change = w.submit(SetPolicy({"gates": {"cooldown_s": 5, "tenant_per_hour": 9}}), tenant_stream("acme"))
        _, behind = await asyncio.gather(change, w.knock("bob"))
        assert behind.verdict
        assert behind.verdict.reasons == ("COOLDOWN",)


async def test_what_is_in_force_can_be_asked_for(backend: Backend, tmp_path: Path) -> None:
    async with world(backend, tmp_path, policy={"cooldown_s": 7}) as w:
        await w.submit(SetPolicy({"gates": {"per_hour": 3}}), tenant_stream("acme"))
        in_force = (await w.other.policy_of("acme"))[GatePolicy]
        assert (in_force.cooldown_s, in_force.per_hour) == (7, 3)
        assert (await w.other.policy_of("other"))[GatePolicy].per_hour == 12
