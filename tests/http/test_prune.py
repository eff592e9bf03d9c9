"""Pruning over HTTP: counted first, bounded, on record, and nobody else's history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from betimes.admin.prune import PrunePlace
from betimes.app.routes import ROUTES
from betimes.core.instants import parse
from betimes.core.segments import Segment
from betimes.domain.paging import cursor_of
from betimes.domain.service import Caller
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from tests.http.served import Client, Site, site
from tests.http.stores import STORES, StoreName, application_on
from tests.http.test_auth import made

TRY = {"betimes_dry_run": "true"}
FEBRUARY = {"before": "2026-02-01T00:00:00Z"}


@asynccontextmanager
async def served_on(store: StoreName, folder: Path) -> AsyncIterator[Site]:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with application_on(store, folder, clock) as bt:
        yield Site(bt, clock, serve(bt, ROUTES, dev=False))


async def trigger(s: Site, tenant: str, account: str, count: int) -> None:
    runs = s.bt.for_caller(Caller(tenant)).runs
    for number in range(count):
        key = f"{account}-{s.clock()}-{number}"
        await runs.trigger({"account_id": account, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})


async def read_all(s: Site) -> list[Segment]:
    return await s.bt.engine.store.ledger(LedgerQuery(limit=1_000))


async def prune_through(client: Client, body: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
    """Call until it is complete; every answer."""
    answers: list[dict[str, Any]] = []
    while not answers or not answers[-1]["complete"]:
        more = {"cursor": answers[-1]["next_cursor"]} if answers else {}
        reply = await client("POST", "/v1/prune", {**body, **more}, **headers)
        assert reply.status == 200, reply.json
        answers.append(reply.json["body"] if headers else reply.json)
    return answers


@pytest.mark.parametrize("store", STORES)
async def test_a_dry_run_counts_what_then_goes_and_changes_nothing(store: StoreName, tmp_path: Path) -> None:
    async with served_on(store, tmp_path) as s:
        for account in ("a", "b", "c"):
            await trigger(s, "acme", account, 3)
        admin = s.with_key(await made(s, "admin"))
        s.clock.advance(40 * 86_400)
        await trigger(s, "acme", "a", 1)
        before = await read_all(s)
        body = {**FEBRUARY, "limit": 2, "note": "January is told"}
        tried = await prune_through(admin, body, **TRY)
        assert await read_all(s) == before
        done = await prune_through(admin, body)
        counts = [[(one["examined"], one["streams"], one["segments"]) for one in some] for some in (tried, done)]
        assert counts[0] == counts[1][: len(counts[0])]
        assert sum(one["segments"] for one in tried) == sum(one["segments"] for one in done) >= 9
        assert all(one["examined"] <= 2 for one in done)
        assert (await verify(s.bt.engine.store, s.bt.engine.kinds)).findings == []
        assert (await admin("GET", "/v1/explain/account:a:4")).status == 200, "what is younger is still there"


@pytest.mark.parametrize("store", STORES)
async def test_an_administrator_prunes_the_own_tenant_and_the_deployment_all(store: StoreName, tmp_path: Path) -> None:
    async with served_on(store, tmp_path) as s:
        for tenant in ("acme", "other"):
            await trigger(s, tenant, "a", 3)
        s.clock.advance(40 * 86_400)
        of_other = [one for one in await read_all(s) if one.stream.tenant == "other"]
        await prune_through(s.with_key(await made(s, "admin")), FEBRUARY)
        left = await read_all(s)
        assert [one for one in left if one.stream.tenant == "other"] == of_other
        assert [one.version for one in left if (one.stream.tenant, one.stream.kind) == ("acme", "account")] == [3]
        everybody = s.with_key(await made(s, "admin", tenant="*"))
        (tried,) = await prune_through(everybody, FEBRUARY, **TRY)
        (done,) = await prune_through(everybody, FEBRUARY)
        assert (done["streams"], done["segments"]) == (tried["streams"], tried["segments"])
        left = await read_all(s)
        assert [one.version for one in left if (one.stream.tenant, one.stream.kind) == ("other", "account")] == [3]
        record = next(one for one in left if one.handle == done["segment_id"] and one.stream.tenant == "*")
        assert "other/account/a" in (record.command or "")


@pytest.mark.parametrize("store", STORES)
async def test_a_long_history_is_replaced_part_by_part_and_is_sound_after_each(
    store: StoreName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.engine.pruning.PART_MAX", 4)
    async with served_on(store, tmp_path) as s:
        await trigger(s, "acme", "a", 11)
        await trigger(s, "acme", "b", 2)
        admin = s.with_key(await made(s, "admin"))
        s.clock.advance(40 * 86_400)
        tried = await prune_through(admin, FEBRUARY, **TRY)
        assert [(one["segments"], one["unfinished"]) for one in tried][:2] == [(4, True), (2, False)]
        body, versions = dict(FEBRUARY), list[list[int]]()
        while True:
            done = (await admin("POST", "/v1/prune", body)).json
            assert (await verify(s.bt.engine.store, s.bt.engine.kinds)).findings == []
            versions.append(
                [one.version for one in await read_all(s) if (one.stream.kind, one.stream.id) == ("account", "a")]
            )
            if done["complete"]:
                break
            body = {**FEBRUARY, "cursor": done["next_cursor"]}
        assert versions[:4] == [[*range(4, 12)], [*range(7, 12)], [10, 11], [11]]
        assert (await prune_through(admin, FEBRUARY))[-1]["segments"] == 0


async def test_a_long_history_that_a_live_key_needs_does_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("betimes.engine.pruning.PART_MAX", 2)
    async with site(dev=False) as s:
        await trigger(s, "acme", "a", 5)
        await trigger(s, "acme", "b", 5)
        admin = s.with_key(await made(s, "admin"))
        s.clock.advance(86_400)
        answers = await prune_through(admin, {"before": "2026-01-06T00:00:00Z"})
        assert [(one["kept"], one["segments"]) for one in answers][:2] == [(1, 0), (1, 0)]


async def test_a_tenants_key_does_not_go_on_from_the_cursor_of_another() -> None:
    async with site(dev=False) as s:
        await trigger(s, "acme", "a", 2)
        s.clock.advance(40 * 86_400)
        acme, other = [s.with_key(await made(s, "admin", tenant=one)) for one in ("acme", "other")]
        cursor = (await acme("POST", "/v1/prune", {**FEBRUARY, "limit": 1})).json["next_cursor"]
        assert cursor
        reply = await other("POST", "/v1/prune", {**FEBRUARY, "cursor": cursor})
        assert (reply.status, reply.json["code"]) == (422, "INVALID")


async def test_a_cursor_that_somebody_wrote_opens_no_other_tenants_stream() -> None:
    async with site(dev=False) as s:
        await trigger(s, "other", "a", 3)
        s.clock.advance(40 * 86_400)
        before = [one for one in await read_all(s) if one.stream.tenant == "other"]
        admin = s.with_key(await made(s, "admin"))
        place = PrunePlace("other", "account", "a", again=True)
        forged = cursor_of(["prune", "acme", parse(FEBRUARY["before"])], place)
        reply = await admin("POST", "/v1/prune", {**FEBRUARY, "cursor": forged})
        assert reply.status == 200
        assert [one for one in await read_all(s) if one.stream.tenant == "other"] == before


async def test_pruning_is_on_record_with_who_why_and_which_streams() -> None:
    async with site(dev=False) as s:
        await trigger(s, "acme", "a", 2)
        s.clock.advance(40 * 86_400)
        admin = s.with_key(await made(s, "admin"))
        asked = {**FEBRUARY, "note": "January is told"}
        done = (await admin("POST", "/v1/prune", asked, idempotency_key="once")).json
        recorded = (await admin("GET", f"/v1/explain/{done['segment_id']}")).json
        assert (recorded["kind"], recorded["id"]) == ("operation", "history")
        assert recorded["command"]["note"] == "January is told"
        assert "account:a" in recorded["command"]["subjects"]
        assert recorded["command"]["filter"] == FEBRUARY
        assert recorded["actor"]
        again = await admin("POST", "/v1/prune", asked, idempotency_key="once")
        assert again.json == done, "a repeat of the key is answered from the record"
        nothing = (await admin("POST", "/v1/prune", asked)).json
        assert (nothing["segments"], nothing["segment_id"]) == (0, None)


async def test_history_that_a_live_key_answers_from_is_kept_and_said() -> None:
    async with site(dev=False) as s:
        await trigger(s, "acme", "a", 2)
        s.clock.advance(86_400)
        admin = s.with_key(await made(s, "admin"))
        before = await read_all(s)
        (tried,) = await prune_through(admin, {"before": "2026-01-06T00:00:00Z"}, **TRY)
        (done,) = await prune_through(admin, {"before": "2026-01-06T00:00:00Z"})
        assert done["kept"] == tried["kept"] >= 1
        assert (done["segments"], tried["segments"]) == (0, 0)
        assert (await read_all(s))[: len(before)] == before


async def test_who_may_not_prune_and_what_cannot_be_pruned() -> None:
    async with site(dev=False) as s:
        operator = s.with_key(await made(s, "runs:read", "runs:write", "tick"))
        for headers in ({}, TRY):
            assert (await operator("POST", "/v1/prune", FEBRUARY, **headers)).status == 403
        admin = s.with_key(await made(s, "admin"))
        late = await admin("POST", "/v1/prune", FEBRUARY)
        assert (late.status, late.json["errors"][0]["path"]) == (422, "before")
        assert (await admin("POST", "/v1/prune", {})).json["errors"][0]["path"] == "before"
        assert (await admin("POST", "/v1/prune", {**FEBRUARY, "limit": 5_001})).json["errors"][0]["path"] == "limit"


async def test_the_same_in_python() -> None:
    async with site() as s:
        await trigger(s, "default", "a", 3)
        s.clock.advance(40 * 86_400)
        done = await s.bt.mine.tenants.prune(FEBRUARY)
        assert done.complete
        assert done.segments >= 3
