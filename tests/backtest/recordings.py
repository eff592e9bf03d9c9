"""Recordings to rehearse: seeded traffic of each domain, through the services, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, Literal

from betimes.admin.service import PolicyRequest
from betimes.app.betimes import Betimes
from betimes.app.settings import Settings
from betimes.core.errors import BetimesError
from betimes.core.instants import Instant, render
from betimes.engine.virtual_clock import VirtualClock
from betimes.notifications.enrichment import EnrichmentSettings
from betimes.notifications.views import BanRequest, IncidentRequest, ReadRequest
from betimes.outbound.channels import ChannelSettings, LogChannel
from betimes.runs.views import ActionsRequest, ClaimManyRequest, CompleteRequest, TriggerRequest
from betimes.schedules.views import BackfillRequest
from betimes.scores.service import Adjustment, Interaction, NewScore, StatusChange
from betimes.scores.sweep import SweepRequest
from betimes.sensors.model import Message
from tests.definition_requests import schedule_request, sensor_request

START = "2026-03-27T18:00:00Z"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
POLICY: dict[str, Any] = {
    "runs": {
        "daily_run_budget": 6,
        "tenant_daily_run_budget": 25,
        "action_cap": 20,
        "registry": {
            "BURSTY": {
                "debounce_seconds": 90,
                "cooldown_seconds": 60,
                "debounce_mode": "trailing",
                "handler": {"kind": "python", "name": "think"},
            },
            "SHADOWED": {
                "debounce_seconds": 10,
                "cooldown_seconds": 300,
                "mode": "shadow",
                "handler": {"kind": "python", "name": "think"},
            },
            "CLAIMED": {"debounce_seconds": 5, "cooldown_seconds": 120, "max_per_tenant_per_hour": 5},
        },
    },
    "notifications": {
        "event_types": {"UPDATE": {"digest": True}, "ALERT": {"cooldown_s": 900}},
        "fatigue": {"hour": {"cap": 4, "span_s": 3600}},
        "delivery_attempts": 2,
    },
    "scores": {"thresholds": [{"name": "low", "score": 40}]},
    "hooks": [
        {
            "on": ["SCORE_THRESHOLD", "GAME_OVER"],
            "target": {
                "kind": "notification",
                "event_type": "REMINDER",
                "title": "It fades",
                "message": "Do something",
                "source": "scores",
                "channels": ["push", "in_app"],
            },
        },
        {"on": ["RUN_DECISION_DEFERRED"], "target": {"kind": "handler", "name": "note"}},
    ],
}


class TickingClock(VirtualClock):
    """Goes on by a millisecond with every look at it, if told to."""

    ticks = False

    def __call__(self) -> Instant:
        return self.advance(0.001) if self.ticks else super().__call__()


@dataclass
class Live:
    """An application that is being recorded."""

    bt: Betimes
    clock: TickingClock
    random: Random
    count: int = 0

    def next(self, name: str) -> str:
        self.count += 1
        return f"{name}-{self.count}"

    async def wait(self, most_s: float) -> None:
        await self.bt.advance(by_s=round(self.random.uniform(int(self.clock.ticks), most_s), 3))


Traffic = Callable[[Live], Awaitable[None]]


@asynccontextmanager
async def recorded(
    *traffic: Traffic,
    seed: int = 1,
    steps: int = 40,
    url: str = "memory://",
    policy: dict[str, Any] | None = None,
    ticks: bool = False,
) -> AsyncIterator[Live]:
    """The application after so many steps of each traffic, mixed."""
    clock, random = TickingClock(START), Random(seed)
    settings = Settings(
        channels=ChannelSettings(channels={name: LogChannel() for name in ("push", "email")}),
        enrichment=EnrichmentSettings(budget_s=10.0),  # what is recorded must not depend on a busy machine
    )
    bt = Betimes(
        url, clock=clock, policy=POLICY if policy is None else policy, settings=settings, report=lambda r: None
    )
    live = Live(bt, clock, random)
    _declare(live)
    async with bt:
        clock.ticks = ticks
        for _ in range(steps):
            await random.choice(traffic)(live)
            await live.wait(random.choice((5, 60, 900, 7_200)))
        clock.ticks = False
        yield live


def _declare(live: Live) -> None:
    bt, random = live.bt, live.random

    @bt.handler("think")
    async def think(call: Any) -> dict[str, Any]:
        if random.random() < 0.2:
            raise RuntimeError("no idea")
        return {"thought": random.randrange(100)}

    @bt.handler("note")
    async def note(call: Any) -> None:
        return None

    @bt.source("price")
    def price(ticker: str) -> Decimal:
        return Decimal(random.randrange(100, 160))

    @bt.enrichment
    def provider(notification: Any) -> float | None:
        return random.choice((None, 0.1, 0.5, 0.9))

    @bt.declared.evaluators.evaluator("look")
    async def look(asked: Any, context: Any) -> dict[str, Any]:
        if random.random() < 0.2:
            raise RuntimeError("blind")
        seen = random.randrange(1, 6)
        return {"run_requests": [{"run_key": f"row-{seen}"}] if seen < 4 else [], "cursor": live.next("cursor")}


# -- traffic


async def runs(live: Live) -> None:
    """Triggers of every kind, repeats, reports of actions, workers who claim."""
    bt, random = live.bt, live.random
    kind = random.choice(("SIGNAL_ARRIVED", "POSTURE_CHANGE", "BURSTY", "SHADOWED", "CLAIMED", "UNKNOWN"))
    account = f"acct-{random.randrange(4)}"
    match random.randrange(8):
        case 0:
            await bt.runs.report_actions(account, ActionsRequest(random.randrange(1, 6)))
        case 1:
            claims = await bt.runs.claim_many(ClaimManyRequest(worker="w"), limit=3)
            for claim in claims[:-1]:
                await live.wait(5)
                status: Literal["succeeded", "failed"] = random.choice(("succeeded", "failed"))
                with suppress(BetimesError):
                    await bt.runs.complete(
                        claim.run.run_id, CompleteRequest(claim_token=claim.claim_token, status=status)
                    )
        case 2 if live.count:
            await _trigger(live, account, kind, f"trigger-{random.randrange(1, live.count + 1)}")
        case _:
            for _ in range(random.choice((1, 1, 3))):
                await _trigger(live, account, kind, live.next("trigger"))


async def _trigger(live: Live, account: str, kind: str, key: str) -> None:
    with suppress(BetimesError):
        await live.bt.runs.trigger(
            TriggerRequest(account_id=account, trigger_type=kind, idempotency_key=key, payload={"n": live.count})
        )


async def notifications(live: Live) -> None:
    """Messages of all sorts to people in several zones, who change their minds."""
    bt, random = live.bt, live.random
    user = f"user-{random.randrange(4)}"
    match random.randrange(14):
        case 0:
            await bt.notifications.set_preferences(
                user,
                {
                    "timezone": random.choice(ZONES),
                    "quiet_hours": [{"start": "22:00", "end": "07:30"}],
                    "digest_windows": random.choice((["30 8 * * *"], ["0 12,20 * * *"])),
                    "opt_out": random.choice(({}, {"event_types": ["PROMO"]})),
                    "addresses": {"push": "device"},
                },
            )
        case 1:
            await (bt.notifications.ban(user, BanRequest()) if random.random() < 0.5 else bt.notifications.unban(user))
        case 2:
            asked = IncidentRequest(user_id=random.choice((None, user)), ttl_seconds=3_600)
            incident, _ = await bt.notifications.open_incident(asked)
            if random.random() < 0.5:
                await live.wait(600)
                with suppress(BetimesError):
                    await bt.notifications.close_incident(incident.incident_id)
        case 3:
            await bt.notifications.mark_read(user, ReadRequest(all=True))
        case _:
            for _ in range(random.choice((1, 1, 4))):
                await _notify(live, user)


async def _notify(live: Live, user: str) -> None:
    random = live.random
    kind = random.choice(("MESSAGE", "ALERT", "REMINDER", "UPDATE", "PROMO", "SYSTEM", "SECURITY"))
    body: dict[str, Any] = {
        "event_id": live.next("event"),
        "user_id": user,
        "event_type": kind,
        "source": "test",
        "title": random.choice(("Hello", "Numbers", "A reply")),
        "message": random.choice(("See you at nine", "Usage is up by four percent today", f"Text {live.count}")),
        "channels": random.choice((["push"], ["sms", "email"], ["in_app"], ["push", "in_app"])),
    }
    if random.random() < 0.5:
        body["priority_hint"] = random.choice(("CRITICAL", "HIGH", "MEDIUM", "LOW"))
    if random.random() < 0.2:
        body["expires_at"] = render(live.clock() + random.randrange(1, 20_000) * 1_000_000)
    if kind == "SYSTEM" and random.random() < 0.5:
        body["metadata"] = random.choice(
            ({"incident": True, "scope": "global"}, {"incident": True}, {"recovery": True, "scope": "global"})
        )
    with suppress(BetimesError):
        await live.bt.notifications.send(body)


async def intents(live: Live) -> None:
    """Wishes made, changed and disabled; the application's own worker checks them."""
    bt, random = live.bt, live.random
    name = f"intent-{random.randrange(5)}"
    bodies: tuple[dict[str, Any], ...] = (
        {"trigger_type": "price", "condition": {"ticker": "NVDA", "operator": "<", "value": 130, "cooldown_hours": 2}},
        {"trigger_type": "interval", "schedule": {"interval_minutes": 45}},
        {
            "trigger_type": "cron",
            "schedule": {"cron": "15 */3 * * *", "timezone": "Europe/Berlin"},
            "gate": {"trigger_type": "SIGNAL_ARRIVED"},
        },
        {"trigger_type": "once", "schedule": {"trigger_at": render(live.clock() + 3_600_000_000)}},
    )
    with suppress(BetimesError):
        match random.randrange(5):
            case 0:
                await bt.intents.disable(name)
            case 1:
                await bt.intents.enable(name)
            case 2:
                await bt.intents.delete(name)
            case _:
                body = {
                    "user_id": f"user-{random.randrange(3)}",
                    "action_type": "notify",
                    "action_context": "Look.",
                    **random.choice(bodies),
                }
                await bt.intents.put(name, body)


async def automation(live: Live) -> None:
    """Schedules of several targets, backfills, messages, polls, switches."""
    bt, random = live.bt, live.random
    targets: tuple[dict[str, Any], ...] = (
        {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "acct-1"},
        {"kind": "trigger", "trigger_type": "BURSTY", "account_id": "acct-2"},
        {
            "kind": "notification",
            "event_type": "REMINDER",
            "title": "Tick",
            "message": "It is time",
            "source": "cron",
            "channels": ["push"],
            "user_id": "user-1",
        },
        {"kind": "handler", "name": "think"},
    )
    name = f"schedule-{random.randrange(4)}"
    with suppress(BetimesError):
        match random.randrange(9):
            case 0:
                await bt.schedules.disable(name)
            case 1:
                await bt.schedules.enable(name)
            case 2:
                await bt.schedules.trigger(name)
            case 3:
                asked = BackfillRequest(datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 3, 20, 6, tzinfo=UTC))
                await bt.schedules.backfill(name, asked)
            case 4:
                body: dict[str, Any] = {"sensor_id": "push", "sensor_type": "push", "target": random.choice(targets)}
                await bt.sensors.put("push", sensor_request(body))
            case 5:
                await bt.sensors.message("push", Message(f"m-{random.randrange(8)}", {"n": 1}))
            case 6:
                body = {
                    "sensor_id": "poll",
                    "sensor_type": "poll",
                    "interval_seconds": 600,
                    "target": random.choice(targets),
                    "evaluator": {"kind": "handler", "name": "look"},
                }
                await bt.sensors.put("poll", sensor_request(body))
            case _:
                body = {
                    "schedule_id": name,
                    "cron": random.choice(("*/20 * * * *", "30 2 * * *", "5 * * * *")),
                    "timezone": random.choice(ZONES),
                    "target": random.choice(targets),
                }
                await bt.schedules.put(name, schedule_request(body))


async def scores(live: Live) -> None:
    """Scores that are tended, paused, adjusted and swept."""
    bt, random = live.bt, live.random
    user = f"user-{random.randrange(4)}"
    with suppress(BetimesError):
        match random.randrange(7):
            case 0:
                await bt.scores.create(NewScore(user_id=user, score=Decimal(random.randrange(20, 80))))
            case 1:
                await bt.scores.interact(user, Interaction(type="text"))
            case 2:
                await bt.scores.adjust(user, Adjustment(delta=Decimal(random.randrange(-30, 30)), reason="test"))
            case 3:
                status = random.choice(("active", "boss_fight"))
                await bt.scores.set_status(user, StatusChange(game_status=status))
            case _:
                await live.wait(40_000)
                await bt.scores.sweep(SweepRequest(limit=random.choice((None, 2))))


async def policy(live: Live) -> None:
    """Somebody changes the policy, the deployment's or the tenant's."""
    random = live.random
    changed: dict[str, Any] = {
        "notifications": {"fatigue": {"hour": {"cap": random.randrange(2, 9), "span_s": 3_600}}},
        "runs": {"daily_run_budget": random.randrange(3, 9)},
    }
    if random.random() < 0.5:
        await live.bt.apply_policy({**POLICY, "runs": {**POLICY["runs"], **changed["runs"]}})
    else:
        await live.bt.mine.tenants.set_policy(PolicyRequest(changed))


async def holds(live: Live) -> None:
    """Somebody holds everything or some domains for a while, replaces that, or ends it early."""
    random, tenants = live.random, live.bt.mine.tenants
    if random.random() < 0.3:
        await tenants.end_hold(note="enough")
        return
    domains = random.choice((None, ["automation"], ["notifications", "runs"], ["intents"], ["scores", "automation"]))
    until = render(live.clock() + random.randrange(60, random.choice((900, 30_000))) * 1_000_000)
    await tenants.set_hold(
        {"until": until, "reason": random.choice(("template", "drill"))} | ({"domains": domains} if domains else {})
    )


TRAFFIC: dict[str, Traffic] = {
    "runs": runs,
    "notifications": notifications,
    "intents": intents,
    "automation": automation,
    "scores": scores,
}
