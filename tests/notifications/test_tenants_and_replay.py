"""Notifications of several tenants, and their ledger replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.core.errors import NotFound
from betimes.core.instants import HOUR, MINUTE
from betimes.engine.jobs import Submission
from betimes.engine.replay import verify
from betimes.engine.tenants.model import SetPolicy, tenant_stream
from betimes.notifications.views import NotificationVerdict
from tests.notifications.inboxes import NINE
from tests.notifications.people import people, request
from tests.stores.backends import Backend


async def test_whoever_comes_behind_an_incident_in_a_batch_is_judged_by_it(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        shared = {"event_type": "SYSTEM", "user_id": "ops"}
        outage, over = ({**shared, "metadata": {news: True, "scope": "global"}} for news in ("incident", "recovery"))
        promo = {"event_type": "PROMO"}
        asked: list[tuple[str, dict[str, Any]]] = [
            ("p1", promo),
            ("s1", outage),
            ("p2", {**promo, "user_id": "bob"}),
            ("s2", over),
            ("p3", {**promo, "user_id": "eve"}),
            ("s3", outage),
        ]
        answers = await p.service.send_many([request(name, **fields) for name, fields in asked])
        told = [answer.reasons for answer in answers if isinstance(answer, NotificationVerdict)]
        assert (told[0], told[2], told[4]) == (("SCORE_DEFER",), ("INCIDENT_SUPPRESSION",), ("SCORE_DEFER",))
        [open_one] = (await p.service.incidents()).items
        await p.service.close_incident(open_one.incident_id)
        assert (await p.service.incidents()).items == []
        assert (await verify(p.engine.store, p.engine.kinds)).is_sound


async def test_a_tenants_overrides_are_its_own(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        own = {"notifications": {"thresholds": {"now_from": 1, "never_below": 1}}}
        await p.engine.submit(Submission(stream=tenant_stream("acme"), command=SetPolicy(own)))
        assert (await p.service.send(request())).reasons == ("SCORE_BELOW_THRESHOLD",)
        assert (await p.stranger.send(request())).reasons == ("DEFAULT_PASS",)


async def test_the_ledger_replays_to_the_same_bytes(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        p.outside.broken = {"push"}
        for place in range(12):
            p.clock.advance_to(NINE + place * 2 * MINUTE)
            kind = ("MESSAGE", "PROMO", "DIGEST", "SECURITY")[place % 4]
            await p.service.send(request(f"e{place}", event_type=kind, channels=["push", "in_app"]))
        await p.tick(NINE + 12 * HOUR)
        report = await verify(p.engine.store, p.engine.kinds)
        assert (report.findings, report.is_sound) == ([], True)


async def test_what_nobody_sent_is_not_found(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        with pytest.raises(NotFound):
            await p.service.notification("nobody")
        await p.stranger.send(request())
        with pytest.raises(NotFound):
            await p.service.notification("e1")
