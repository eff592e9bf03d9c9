"""A tenant that has something in every list, so that every route has something to act upon."""

from __future__ import annotations

from typing import Any

from betimes.app import Betimes
from betimes.engine.effects import GiveUp
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.routes import Route
from tests.http.served import Client, Reply

HANDLER = {"kind": "handler", "name": "note"}
POLL = {"kind": "handler", "name": "poll"}
NOTE = {
    "event_type": "MESSAGE",
    "title": "Hello",
    "message": "You have mail.",
    "source": "mail",
    "channels": ["in_app"],
}
INTENT: dict[str, Any] = {
    "user_id": "u-1",
    "trigger_type": "interval",
    "schedule": {"interval_minutes": 60},
    "action_type": "notify",
    "action_context": "Look.",
    "worker": "outside",
}
BACKFILL = {"from": "2026-01-04T00:00:00Z", "to": "2026-01-04T06:00:00Z", "max_concurrency": 1}
QUIET = {"quiet_hours": [{"start": "00:00", "end": "23:00"}], "timezone": "UTC"}

HASTY = {"runs": {"registry": {"SIGNAL_ARRIVED": {"debounce_seconds": 0, "cooldown_seconds": 0}}}}
"""A policy under which triggers that waited are allowed at once."""


def declare(bt: Betimes) -> None:
    """Give an application the handlers that what is populated calls: one fails always, and so leaves dead letters."""
    bt.handler("note")(_refuse)
    bt.declared.evaluators.evaluator("poll")(_poll)


async def _refuse(payload: Any) -> None:
    raise GiveUp("not today")


async def _poll(cursor: Any, context: Any) -> dict[str, Any]:
    return {"cursor": {"seen": 1}, "run_requests": [{"run_key": "order-1"}]}


async def populate(client: Client, bt: Betimes, clock: VirtualClock) -> None:
    """Make two of everything that is listed; in the end something waits, is due, is under way and has failed."""

    async def send(method: str, path: str, body: Any = None) -> Reply:
        reply = await client(method, path, body, x_tenant="default")
        assert reply.status < 300, (method, path, reply.raw)
        return reply

    await send("PUT", "/v1/users/u-8/preferences", QUIET)
    for number, name in enumerate("ab"):
        await send("POST", "/v1/backtests", {"policy": {}, "domain": "scores"})
        await send("POST", "/v1/scores", {"user_id": f"u-{number}"})
        await send("POST", f"/v1/scores/u-{number}/adjust", {"delta": -1, "reason": "test"})
        await send("POST", "/v1/schedules", {"schedule_id": name, "cron": "*/5 * * * *", "target": HANDLER})
        await send("POST", "/v1/sensors", {"sensor_id": name, "sensor_type": "push", "target": HANDLER})
        poll = {"sensor_id": f"poll-{name}", "sensor_type": "poll", "target": HANDLER, "evaluator": POLL}
        await send("POST", "/v1/sensors", poll)
        await send("POST", "/v1/intents", {**INTENT, "intent_id": name})
        await send("POST", "/v1/keys", {"name": name, "scopes": ["runs:read"]})
        await send("PUT", "/v1/policy", {"overrides": {"intents": {"claim_lease_s": 600 + number}}})
        note = {**NOTE, "user_id": "u-9", "event_id": f"e-{name}", "title": name * 9}
        await send("POST", "/v1/notifications", note)
        await send("POST", f"/v1/notifications/e-{name}/release")
        clock.advance(600)
        await bt.tick()
    for name in "ab":
        await send("POST", "/v1/sensors/a/messages", {"message_id": name, "data": name})
        clock.advance(3_600)
        claim = (await send("POST", "/v1/intents/a/claim")).json
        await send("POST", "/v1/intents/a/fire", {"status": "success", "claim_token": claim["claim_token"]})
        for key in (f"k-{name}", f"later-{name}"):
            body = {"account_id": name, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key}
            await send("POST", "/v1/triggers", body)
            clock.advance(90)
        note = {**NOTE, "user_id": "u-8", "event_id": f"late-{name}", "title": name * 9}
        await send("POST", "/v1/notifications", note)
        await send("POST", "/v1/schedules/a/backfills", BACKFILL)
        clock.advance(1)
    clock.advance(3_600)
    for number in range(2):
        await send("POST", "/v1/incidents", {"user_id": f"u-{number}", "reason": "fire"})


async def write_report(client: Client, bt: Betimes) -> str:
    """Have a backtest made under which answers of what is populated change; return its id."""
    asked = await client("POST", "/v1/backtests", {"policy": HASTY, "domain": "runs"}, x_tenant="default")
    bt.url = "memory:"  # or it is made in another process, which does not know of the schema of a test
    await bt.tick()
    return str(asked.json["backtest_id"])


NEEDED = {
    "/v1/streams": "kind=inbox",
    "/v1/timeline": "user_id=u-1",
    "/v1/search": "q=u-",
}
"""Parameters that questions do not do without."""
OF_ONE_REPORT = ("/v1/backtests/{backtest_id}/flips",)
"""Lists that are read from one report, which a backtest must have written first."""


def ask(path: str, *parameters: str) -> str:
    """Return a path with its parameters, and those that it does not do without."""
    query = "&".join(filter(None, (NEEDED.get(path, ""), *parameters)))
    return f"{path}?{query}" if query else path


def list_paths(routes: tuple[Route, ...], report: str) -> list[str]:
    """Return the path of every list, about something that is there."""
    named = {"user_id": "u-0", "intent_id": "a", "schedule_id": "a", "sensor_id": "a", "backtest_id": report}
    paths = [route.path for route in routes if "cursor" in route.query.__struct_fields__]
    return ["/v1/users/u-9/inbox" if path.endswith("/inbox") else path.format_map(named) for path in paths]
