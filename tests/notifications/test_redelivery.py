"""What was decided before is looked at again when it goes out: expiry, ban, opt-out, and who may read the inbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.core.errors import Refused
from betimes.core.instants import HOUR, parse
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.effects import EffectFilters
from betimes.notifications.decide import DECIDERS, INBOX
from betimes.notifications.service import Notifications
from betimes.notifications.views import BanRequest
from tests.notifications.inboxes import NINE, SECTIONS
from tests.notifications.people import People, people, request
from tests.stores.backends import Backend

DOMAINS = frozenset({"notifications"})


def effects(p: People) -> EffectActions:
    return EffectActions(p.engine, Caller("acme", "test"), DOMAINS)


async def dead_letter(p: People, **fields: Any) -> str:
    """A delivery whose channel was down until a moment ago."""
    p.outside.broken = {"push", "email", "sms"}
    await p.service.send(request(**fields))
    await p.tick()
    [dead] = [one for one in (await effects(p).effects(EffectFilters(status="dead"))).items if one.channel == "push"]
    p.outside.broken = set()
    p.outside.tried.clear()
    return dead.effect_id


@pytest.mark.parametrize("out", [{"all": True}, {"event_types": ["MESSAGE"]}, {"channels": ["push"]}])
async def test_a_dead_letter_is_not_tried_again_after_an_opt_out(
    backend: Backend, tmp_path: Path, out: dict[str, Any]
) -> None:
    async with people(backend, tmp_path) as p:
        dead = await dead_letter(p)
        await p.service.set_preferences("ann", {"opt_out": out})
        with pytest.raises(Refused, match="opted out") as refusal:
            await effects(p).retry(dead)
        await p.tick()
        assert (refusal.value.reason, p.outside.tried) == ("NOT_RETRYABLE", [])


async def test_a_dead_letter_is_not_tried_again_for_whoever_is_banned(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        dead = await dead_letter(p, priority_hint="CRITICAL")
        await p.service.ban("ann", BanRequest("fraud"))
        with pytest.raises(Refused, match="banned"):
            await effects(p).retry(dead)


async def test_a_dead_letter_of_somebody_who_hears_it_still_is_tried_again(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        dead = await dead_letter(p)
        await p.service.set_preferences("ann", {"opt_out": {"event_types": ["PROMO"], "channels": ["sms"]}})
        assert (await effects(p).retry(dead)).status == "pending"
        await p.tick()
        assert p.outside.tried == ["push"]


async def test_an_opt_out_that_comes_between_two_attempts_is_heard(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        dead = await dead_letter(p)
        await effects(p).retry(dead)
        await p.service.set_preferences("ann", {"opt_out": {"all": True}})
        await p.tick()
        found = await effects(p).effect(dead)
        assert (found.status, p.outside.tried) == ("dead", [])
        assert "opted out" in (found.last_error or "")


async def test_an_opt_out_binds_critical_only_where_the_law_wants_it(backend: Backend, tmp_path: Path) -> None:
    legal: dict[str, Any] = {"channels": {"push": {"legal_opt_out": True}}}
    for policy, tried in (({}, ["push"]), (legal, [])):
        folder = tmp_path / str(len(tried))
        folder.mkdir()
        async with people(backend, folder, **policy) as p:
            dead = await dead_letter(p, priority_hint="CRITICAL")
            await p.engine.store.revive_effect((await effects(p)._row(dead)).id)
            await p.service.set_preferences("ann", {"opt_out": {"all": True, "channels": ["push"]}})
            await p.tick()
            assert p.outside.tried == tried


async def test_a_digest_goes_out_without_what_is_not_to_be_heard_any_more(backend: Backend, tmp_path: Path) -> None:
    types: dict[str, Any] = {
        "event_types": {"UPDATE": {"weight": "0.4", "digest": True}, "PROMO": {"weight": "0.15", "digest": True}}
    }
    async with people(backend, tmp_path, jitter_s=0, **types) as p:
        p.outside.broken = {"push"}
        for event_id, kind in (("e1", "UPDATE"), ("e2", "PROMO"), ("e3", "UPDATE")):
            expires_at = "2026-01-05T18:30:00Z" if event_id == "e3" else None
            await p.service.send(
                request(event_id, event_type=kind, priority_hint="LOW", expires_at=expires_at, title=event_id)
            )
        await p.tick(parse("2026-01-05T18:00:00Z"))
        [dead] = (await effects(p).effects(EffectFilters(status="dead"))).items
        await p.service.set_preferences("ann", {"opt_out": {"event_types": ["PROMO"]}})
        p.clock.advance_to(NINE + 10 * HOUR)
        p.outside.broken = set()
        await effects(p).retry(dead.effect_id)
        await p.tick()
        [sent] = p.outside.sent
        assert (sent.metadata, "e2" in sent.message) == ({"digest": ["e1"]}, False)


async def test_a_process_that_does_not_know_the_inboxs_schema_leaves_its_deliveries_to_newer_ones(
    backend: Backend, tmp_path: Path
) -> None:
    async with people(backend, tmp_path, delivery_pauses_s=[60]) as p:
        await p.service.send(request())
        newer = replace(INBOX, schema=INBOX.schema + 1)
        async with Engine(p.elsewhere.engine.store, (newer, *DECIDERS[1:]), name="newer", sections=SECTIONS) as engine:
            await Notifications(engine, Caller("acme", "test")).set_preferences("ann", {"addresses": {"push": "new"}})
        await p.tick()
        [waits] = (await effects(p).effects(EffectFilters(channel="push"))).items
        assert (p.outside.tried, waits.status) == ([], "pending")
        assert "Upgrade" in (waits.last_error or "")
