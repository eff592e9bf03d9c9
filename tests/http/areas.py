"""A tenant that has something in every domain, each called by the domain's own name, and keys that read one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from betimes.admin.service import NewKey
from betimes.app import Betimes
from betimes.catalogue import AREAS
from betimes.domain.service import Caller
from betimes.engine.effects import GiveUp
from tests.http.served import ANY_HANDLER, Client, Reply, Site, site

TENANT = "acme"
POLICY: dict[str, Any] = {
    "runs": {
        "registry": {
            "SIGNAL_ARRIVED": {
                "debounce_seconds": 0,
                "cooldown_seconds": 600,
                "handler": {"kind": "python", "name": "call_runs"},
            }
        }
    },
    "notifications": {"channels": {"call_notifications": {"function": True, "needs_address": False}}},
    "hooks": [{"on": ["GAME_OVER"], "target": {"kind": "handler", "name": "call_scores"}}],
}
"""Nobody has the functions it names, so that their calls are orphans."""


def mark_of(area: str) -> str:
    """Return what is in every id of a domain, and in nothing else."""
    return f"own_{area}"


def executor_mark(area: str) -> str:
    """Return what is in the name of every executor of a domain, and in nothing else."""
    return f"call_{area}"


def _declare(bt: Betimes) -> None:
    async def refuse(payload: Any) -> None:
        raise GiveUp("no toner")

    bt.handler("call_automation_refused")(refuse)


@asynccontextmanager
async def populated_site() -> AsyncIterator[Site]:
    """Serve a tenant with pending, orphaned, dead and ended work in every domain; nothing of one caused another's."""
    async with site(dev=False, policy=POLICY, declare=_declare, settings=ANY_HANDLER) as s:
        client = await client_of(s, "admin", "tick", "sweep")
        for method, path, body in _requests():
            reply: Reply = await client(method, path, body)
            assert reply.status < 300, (method, path, reply.raw)
            s.clock.advance(1)
        await s.bt.tick()
        s.clock.advance(120)
        await s.bt.tick()
        yield s


async def client_of(s: Site, *scopes: Any) -> Client:
    """Return a client with a key that has these scopes."""
    tenants = s.bt.for_caller(Caller(TENANT)).tenants
    return s.with_key((await tenants.create_key(NewKey(name="test", scopes=scopes))).secret or "")


async def clients_by_area(s: Site) -> dict[str, Client]:
    """Return a client for each domain that may read that one alone."""
    return {area: await client_of(s, f"{area}:read") for area in AREAS}


def _requests() -> list[tuple[str, str, Any]]:
    runs, notifications, intents, automation, scores = map(
        mark_of, ("runs", "notifications", "intents", "automation", "scores")
    )
    note = {
        "event_type": "ALERT",
        "message": "Hello.",
        "source": notifications,
        "channels": [executor_mark("notifications")],
        "priority_hint": "HIGH",
    }
    intent = {
        "user_id": f"{intents}-user",
        "trigger_type": "interval",
        "schedule": {"interval_minutes": 60},
        "action_type": "notify",
        "action_context": "Look.",
        "worker": "outside",
    }
    handler = {"kind": "handler", "name": executor_mark("automation")}
    refused = {"kind": "handler", "name": executor_mark("automation") + "_refused"}
    poll = {"kind": "handler", "name": executor_mark("automation") + "_evaluator"}
    return [
        *(
            (
                "POST",
                "/v1/triggers",
                {
                    "account_id": f"{runs}-account",
                    "trigger_type": "SIGNAL_ARRIVED",
                    "idempotency_key": f"{runs}-key-{number}",
                },
            )
            for number in range(2)
        ),
        *(
            (
                "POST",
                "/v1/notifications",
                {
                    **note,
                    "user_id": f"{notifications}-user",
                    "event_id": f"{notifications}-{number}",
                    "title": f"{number}" * 9,
                },
            )
            for number in range(2)
        ),
        ("POST", "/v1/incidents", {"user_id": f"{notifications}-user", "reason": "fire"}),
        ("POST", "/v1/intents", {**intent, "intent_id": f"{intents}-intent"}),
        (
            "POST",
            "/v1/schedules",
            {"schedule_id": f"{automation}-schedule", "every": {"seconds": 30}, "target": handler},
        ),
        (
            "POST",
            "/v1/schedules",
            {"schedule_id": f"{automation}-refused", "every": {"seconds": 30}, "target": refused},
        ),
        (
            "POST",
            "/v1/sensors",
            {"sensor_id": f"{automation}-sensor", "sensor_type": "poll", "target": handler, "evaluator": poll},
        ),
        ("POST", "/v1/sensors", {"sensor_id": f"{automation}-push", "sensor_type": "push", "target": handler}),
        ("POST", f"/v1/sensors/{automation}-push/messages", {"message_id": f"{automation}-message", "data": 1}),
        ("POST", "/v1/scores", {"user_id": f"{scores}-user"}),
        ("POST", f"/v1/scores/{scores}-user/adjust", {"score": 0, "reason": "test"}),
    ]
