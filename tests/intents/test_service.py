"""The service on every store: definitions, lists, bulk claims, history, and two processes at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.errors import Invalid, KeyConflict, NotFound, Refused, VersionMismatch
from betimes.core.streams import StreamId
from betimes.domain.paging import Page
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.intents.model import OwnerState
from betimes.intents.service import Intents
from betimes.intents.views import FireRequest, IntentView
from tests.intents.stories import body
from tests.intents.worlds import intent_world
from tests.stores.backends import Backend


async def test_a_definition_is_made_read_replaced_patched_and_deleted(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        made = await world.intents.create(body("interval", intent_id="tick", metadata={"a": 1}))
        assert (made.version, world.intents.has_created, made.warnings, made.segment_id) == (
            1,
            True,
            [],
            "intent:tick:1",
        )
        with pytest.raises(Refused) as taken:
            await world.intents.create(body("interval", intent_id="tick"))
        assert taken.value.reason == "ALREADY_EXISTS"
        sent_back = msgspec.to_builtins(await world.intents.get("tick"))
        unchanged = await world.intents.put("tick", sent_back)
        assert (unchanged.version, world.intents.has_created) == (1, False)
        replaced = await world.intents.put("tick", {**sent_back, "action_context": "Other."}, if_match=1)
        assert (replaced.version, replaced.action_context) == (2, "Other.")
        with pytest.raises(VersionMismatch):
            await world.intents.put("tick", {**sent_back, "version": 1})
        with pytest.raises(VersionMismatch):
            await world.intents.put("tick", body(), only_create=True)
        patched = await world.intents.patch("tick", {"metadata": {"b": 2}, "version": 2})
        assert patched.metadata == {"a": 1, "b": 2}
        with pytest.raises(VersionMismatch):
            await world.intents.delete("tick", if_match=2)
        await world.intents.delete("tick", if_match=3)
        for call in (world.intents.get("tick"), world.intents.enable("tick"), world.intents.claim("tick")):
            with pytest.raises(NotFound):
                await call
        again = await world.intents.put("tick", body("interval"))
        assert world.intents.has_created
        assert again.version > 3


async def test_an_expression_over_several_sources_can_be_patched_and_enabled(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        condition = {"expression": "NVDA < 130 and inactive_hours > 3"}
        await world.intents.create(body("price", intent_id="both", condition=condition))
        await world.intents.patch("both", {"action_context": "Call.", "enabled": False})
        view = await world.intents.enable("both")
        assert (view.enabled, view.action_context, view.condition and view.condition.expression) == (
            True,
            "Call.",
            condition["expression"],
        )


async def test_a_key_makes_one_intent_however_often_it_is_sent(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        first, second = await asyncio.gather(
            world.intents.create(body(), key="k"), world.others.create(body(), key="k")
        )
        assert first.intent_id == second.intent_id
        with pytest.raises(KeyConflict):
            await world.intents.create(body("interval"), key="k")
        assert len((await world.intents.list()).items) == 1


async def test_an_id_that_cannot_be_one_is_named_with_everything_else(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        for intent_id in ("a b", "", 5, "x" * 201, "a\n", "pending"):
            with pytest.raises(Invalid) as refused:
                await world.intents.create(body(intent_id=intent_id, action_type="dance"))
            assert {path for path, _ in refused.value.problems} == {"intent_id", "action_type"}


async def test_a_claim_says_that_its_intent_is_cooling(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        await world.intents.fire("nvda", {"status": "success"})
        world.hours_pass(12)
        claim = await world.intents.claim("nvda")
        assert (claim.intent.in_cooldown, claim.intent.cooldown_remaining_hours) == (True, 12.0)


async def test_the_limit_of_25_holds_when_two_processes_create_at_once(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        both = (world.intents, world.others)
        results = await asyncio.gather(
            *(both[n % 2].create(body("interval", intent_id=f"i{n}")) for n in range(40)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, Invalid)]
        assert len(refused) == 15
        assert {error.problems[0][0] for error in refused} == {"user_id"}
        assert len((await world.intents.list(user_id="ann", enabled=True)).items) == 25
        with pytest.raises(Invalid, match="the limit"):
            await world.intents.put("one-more", body("interval"))
        disabled = await world.intents.create(body("interval", intent_id="off", enabled=False))
        assert not disabled.enabled
        with pytest.raises(Invalid, match="the limit"):
            await world.intents.enable("off")
        await world.intents.disable("i0")
        await world.inner.engine.tick()
        assert (await world.intents.enable("off")).enabled


async def test_what_disables_itself_makes_room_and_what_is_enabled_again_still_counts(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path, enabled_per_user_max=1) as world:
        await world.intents.create(body("interval", intent_id="a", max_executions=1))
        fired = await world.intents.fire("a", {"status": "success"})
        assert fired.was_disabled_reason == "MAX_EXECUTIONS"
        await world.inner.engine.tick()
        await world.intents.create(body("interval", intent_id="b"))
        await world.intents.disable("b")
        await world.intents.enable("b")
        await world.inner.engine.tick()
        owner = await world.inner.state(StreamId("acme", "owner", "ann"))
        assert owner == OwnerState({"b": 3})
        with pytest.raises(Invalid, match="the limit"):
            await world.intents.create(body("interval", intent_id="c"))


async def every(pages: Any, **filters: Any) -> list[IntentView]:
    """All pages of a list, three at a time."""
    items: list[IntentView] = []
    cursor = None
    while True:
        page: Page[IntentView] = await pages(limit=3, cursor=cursor, **filters)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


async def test_lists_are_filtered_and_paged(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        for n in range(10):
            kind = ("price", "interval", "silence")[n % 3]
            await world.intents.create(body(kind, intent_id=f"i{n}", user_id=f"u{n % 2}", enabled=n % 4 != 0))
        await world.intents.fire("i3", {"status": "success"})

        async def ids(**filters: Any) -> str:
            return "".join(item.intent_id[1:] for item in await every(world.intents.list, **filters))

        assert await ids() == "9876543210"
        assert await ids(user_id="u0") == "86420"
        assert await ids(trigger_type="price") == "9630"
        assert await ids(enabled=True) == "9765321"
        assert await ids(enabled=False) == "840"
        assert await ids(enabled=True, trigger_type="price", user_id="u1") == "93"
        page = await world.intents.list(limit=1)
        with pytest.raises(Invalid, match="other filters"):
            await world.intents.list(limit=1, cursor=page.next_cursor, user_id="u0")
        with pytest.raises(Invalid, match="must be cron, interval"):
            await world.intents.list(trigger_type="dream")  # type: ignore[arg-type]


async def test_pending_goes_by_next_check_over_pages_and_reads_only(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        for n in range(8):
            await world.intents.create(body(intent_id=f"i{(n * 5) % 8}", user_id=f"u{n % 2}"))
            world.clock.advance(60)
        for name in ("i1", "i4"):
            await world.intents.fire(name, {"status": "success"})
            world.clock.advance(60)
        await world.intents.claim("i5", {"lease_s": 3_600})
        await world.intents.patch("i2", {"expires_at": "2026-01-05T09:11:00Z"})
        world.hours_pass(0.5)
        before = [segment async for segment in _ledger(world.intents)]
        checks = [(item.next_check, item.intent_id) for item in await every(world.intents.pending)]
        assert checks == sorted(checks)
        assert [name for _, name in checks] == ["i0", "i7", "i6", "i3", "i1", "i4"]
        assert [item.intent_id for item in await every(world.intents.pending, user_id="u1")] == ["i7", "i3", "i1"]
        world.hours_pass(24)
        cooled = [item.intent_id for item in await every(world.intents.pending, in_cooldown=False)]
        assert cooled == ["i0", "i7", "i6", "i3", "i5", "i1", "i4"]
        assert before == [segment async for segment in _ledger(world.intents)]


async def _ledger(intents: Intents) -> Any:
    for segment in await intents.engine.store.ledger(LedgerQuery(kind="intent", limit=1_000)):
        yield segment


async def test_a_bulk_claim_takes_the_longest_due_and_leaves_cooling_and_claimed_ones(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        for n in range(6):
            await world.intents.create(body(intent_id=f"i{n}"))
            world.clock.advance(1)
        await world.intents.fire("i0", {"status": "success"})
        await world.others.claim("i1")
        world.hours_pass(0.01)
        taken = (await world.intents.claim_many({"worker": "w", "lease_s": 10}, limit=3)).items
        assert [item.intent.intent_id for item in taken] == ["i2", "i3", "i4"]
        assert {item.intent.claim.worker for item in taken if item.intent.claim} == {"w"}
        assert [item.intent.intent_id for item in (await world.others.claim_many()).items] == ["i5"]
        assert (await world.intents.claim_many()).items == []


async def test_a_filtered_bulk_claim_finds_what_stands_behind_others(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        for n in range(30):
            kind = "silence" if n in (11, 28) else "price"
            await world.intents.create(body(kind, intent_id=f"i{n:02}", user_id="bob" if n > 24 else f"u{n % 3}"))
        taken = (await world.intents.claim_many({"trigger_type": "silence"}, limit=5)).items
        assert [item.intent.intent_id for item in taken] == ["i11", "i28"]
        taken = (await world.intents.claim_many({"user_id": "bob"}, limit=3)).items
        assert [item.intent.intent_id for item in taken] == ["i25", "i26", "i27"]
        both = {"user_id": "bob", "trigger_type": "price"}
        taken = (await world.intents.claim_many(both, limit=3)).items
        assert [item.intent.intent_id for item in taken] == ["i29"]
        with pytest.raises(Invalid):
            await world.intents.claim_many({"trigger_type": "dream"})


async def test_two_processes_never_claim_the_same_intent(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path, enabled_per_user_max=1_000) as world:
        await asyncio.gather(*(world.intents.create(body(intent_id=f"i{n}")) for n in range(60)))
        both = (world.intents, world.others)
        grants = await asyncio.gather(*(both[n % 2].claim_many(limit=7) for n in range(12)))
        names = [item.intent.intent_id for grant in grants for item in grant.items]
        rest = [item.intent.intent_id for item in (await world.intents.claim_many(limit=60)).items]
        assert len(names) == len(set(names))
        assert sorted([*names, *rest]) == sorted(f"i{n}" for n in range(60))


async def test_a_claim_is_renewed_and_released(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        claim = await world.intents.claim("nvda", {"lease_s": 60})
        world.clock.advance(50)
        renewed = await world.intents.renew("nvda", {"claim_token": claim.claim_token, "lease_s": 600})
        assert (renewed.expires_at - claim.claimed_at).total_seconds() == 650
        assert renewed.claim_token == claim.claim_token
        await world.intents.release("nvda", {"claim_token": claim.claim_token})
        assert [item.intent_id for item in (await world.intents.pending()).items] == ["nvda"]
        for call in (
            world.intents.release("nvda", {"claim_token": claim.claim_token}),
            world.intents.renew("nvda", {"claim_token": claim.claim_token}),
        ):
            with pytest.raises(Refused) as lost:
                await call
            assert lost.value.reason == "CLAIM_LOST"
        for bad in ({"lease_s": 9}, {"lease_s": 3_601}, {"worker": ""}, {"colour": "red"}):
            with pytest.raises(Invalid):
                await world.intents.claim("nvda", bad)


async def test_history_has_every_execution_newest_first_with_what_was_reported(
    backend: Backend, tmp_path: Path
) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body("interval", intent_id="tick"))
        told: dict[str, Any] = {
            "trigger_data": {"a": 1},
            "gate_result": {"result": "ALLOW"},
            "message_id": "m",
            "message_preview": "hello",
            "evaluation_ms": 1,
            "generation_ms": 2,
            "delivery_ms": 3,
        }
        for n in range(5):
            world.hours_pass(1)
            claim = await world.intents.claim("tick", {"worker": f"w{n}"})
            await world.intents.fire("tick", FireRequest(status="success", claim_token=claim.claim_token, **told))
        await world.intents.fire("tick", {"status": "failed", "error_message": "no"})
        newest, *rest = (await world.intents.history("tick")).items
        assert (newest.status, newest.error_message, newest.worker) == ("failed", "no", None)
        assert [item.worker for item in rest] == ["w4", "w3", "w2", "w1", "w0"]
        assert {name: getattr(rest[0], name) for name in told} == told
        assert rest[0].execution_id == "tick:11"
        assert rest[0].segment_id == "intent:tick:11"
        assert rest[0].next_check
        first = await world.intents.history("tick", limit=4)
        second = await world.intents.history("tick", limit=4, cursor=first.next_cursor)
        assert [*first.items, *second.items] == [newest, *rest]
        with pytest.raises(NotFound):
            await world.intents.history("nobody")


INVALID_REPORTS: list[dict[str, Any]] = [
    {"status": "fine"},
    {},
    {"status": "success", "claim_token": 0},
    {"status": "success", "trigger_data": {"x": "x" * 17_000}},
    {"status": "success", "message_preview": "x" * 501},
    {"status": "success", "evaluation_ms": -1},
    {"status": "success", "error_message": "x" * 2_001},
]


async def test_a_report_that_is_not_valid_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda"))
        for bad in INVALID_REPORTS:
            with pytest.raises(Invalid):
                await world.intents.fire("nvda", bad)
        assert (await world.intents.history("nvda")).items == []


async def test_a_check_says_what_creating_would_and_records_nothing(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path, enabled_per_user_max=1) as world:
        good = await world.intents.check(body("cron", condition={"ticker": "NVDA"}))
        assert (good.valid, good.errors, [warning.path for warning in good.warnings]) == (True, [], ["condition"])
        assert [at.isoformat()[:16] for at in good.next_checks] == [f"2026-01-{day:02}T08:00" for day in range(6, 11)]
        assert (await world.intents.list()).items == []
        await world.intents.create(body(intent_id="a"))
        bad = await world.intents.check(body(intent_id="a", condition={"expression": "NVDA <"}, action_context=None))
        assert not bad.valid
        assert {error.path for error in bad.errors} == {"intent_id", "condition.expression", "action_context"}
        assert bad.next_checks == []
        full = await world.intents.check(body(action_type="dance"))
        assert {error.path for error in full.errors} == {"user_id", "action_type"}
        once = await world.intents.check(body("once", user_id="bob"))
        assert len(once.next_checks) == 1


async def test_an_intent_expires_by_its_alarm(backend: Backend, tmp_path: Path) -> None:
    async with intent_world(backend, tmp_path) as world:
        await world.intents.create(body(intent_id="nvda", expires_at="2026-01-05T10:00:00Z"))
        world.hours_pass(1)
        result = await world.inner.engine.tick()
        assert result.fired == {"intent": 1}
        expired = await world.intents.get("nvda")
        assert (expired.enabled, expired.was_disabled_reason, expired.version) == (False, "EXPIRED", 2)
        report = await verify(world.inner.store, world.inner.engine.kinds, tenant="acme")
        assert not report.findings
        assert report.streams == 2
