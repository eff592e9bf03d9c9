"""A rogue under the console: texts hold markup and controls of direction wherever there is room, and never break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from betimes.app.betimes import Betimes
from betimes.engine.effects import GiveUp
from betimes.engine.virtual_clock import VirtualClock
from tests.console.town import Served, served

START = "2026-03-27T06:00:00Z"
MARKUP = "<img src=x onerror=rogue=1><script>rogue=1</script>"
BIDI = "\u202e\u2066gnp.evil\u200b\u200f\ufeff\u2069"
FORMS = "{}{0}%s%2F..//\"'`${rogue=1}&lt;&#60;\\u003c"
SHORT = f"{MARKUP[:50]}{BIDI[:10]}"
TEXT = f"{MARKUP}{BIDI}{FORMS}"
ENDLESS = "W" * 65_000
LONG_ID = "id:" + "W" * 190
ODD_ID = "_a..b~c:d@e+f|g=h-2F"
FALSE_INSTANT = "2026-99-99T99:99:99Z"
"""Looks like an instant, and no calendar has it."""
IDS = (LONG_ID, ODD_ID, FALSE_INSTANT)
POLICY: dict[str, Any] = {
    "runs": {"registry": {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "break"}}}},
}


def _complain() -> Exception:
    return GiveUp(f"{TEXT} {ENDLESS}")


async def _break(*_: Any) -> None:
    raise _complain()


def _no_price(ticker: str) -> None:
    raise _complain()


@asynccontextmanager
async def rogue() -> AsyncIterator[Served]:
    """Serve what a rogue has recorded through the API, as any client would."""
    bt = Betimes("memory://", clock=VirtualClock(START), policy=POLICY, report=lambda _: None)
    bt.handler("break")(_break)
    bt.declared.evaluators.evaluator("break")(_break)
    bt.source("price")(_no_price)
    async with bt, served(bt) as found, aiohttp.ClientSession(found.address) as session:
        for one in IDS:
            for method, path, body in _requests(one):
                await _send(session, method, path, body)
        for _ in range(4):
            await bt.advance(by_s=3_600)
        yield found


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: Any) -> None:
    headers = {"X-Tenant": "default"}
    async with session.request(method, path, json=body, headers=headers) as answer:
        assert answer.status < 300, (method, path, await answer.text())


def _requests(one: str) -> list[tuple[str, str, Any]]:
    """Return requests about this id, with hostile texts wherever there is room for one."""
    plain = one.replace(":", "-")  # definitions have none
    call = {"kind": "handler", "name": "break"}
    note = {
        "user_id": one,
        "event_type": "MESSAGE",
        "source": SHORT,
        "channels": ["push"],
        "correlation_id": TEXT[:128],
    }
    texts = {"title": TEXT[:120], "message": (TEXT + ENDLESS)[:1_000], "metadata": {MARKUP: ENDLESS[:3_000]}}
    quiet = {"quiet_hours": [{"start": "00:00", "end": "23:00"}], "addresses": {"push": TEXT}}
    wish = {"ticker": "A^.=_/-" + "W" * 13, "operator": "<", "value": 1}
    trigger = {"account_id": one, "trigger_type": "SIGNAL_ARRIVED", "correlation_id": TEXT[:128]}
    return [
        ("POST", "/v1/notifications", {**note, **texts, "event_id": one}),
        ("PUT", f"/v1/users/{one}/preferences", quiet),
        ("POST", "/v1/notifications", {**note, **texts, "event_id": f"late-{one}"[:200], "title": FORMS}),
        ("POST", "/v1/triggers", {**trigger, "idempotency_key": one, "payload": {MARKUP: ENDLESS, "text": TEXT}}),
        ("POST", "/v1/triggers", {**trigger, "idempotency_key": f"2-{one}"[:200]}),
        ("POST", "/v1/schedules", {"schedule_id": plain, "cron": "*/30 * * * *", "target": call}),
        ("POST", "/v1/sensors", {"sensor_id": plain, "sensor_type": "push", "target": call}),
        ("POST", f"/v1/sensors/{plain}/messages", {"message_id": one, "data": {MARKUP: TEXT + ENDLESS[:9_000]}}),
        (
            "POST",
            "/v1/sensors",
            {"sensor_id": f"poll-{plain}"[:200], "sensor_type": "poll", "target": call, "evaluator": call},
        ),
        (
            "POST",
            "/v1/intents",
            {**_WISH, "intent_id": plain, "user_id": one, "condition": wish, "action_context": TEXT},
        ),
        ("POST", "/v1/scores", {"user_id": one}),
        ("POST", f"/v1/scores/{one}/adjust", {"delta": -1, "reason": TEXT[:200]}),
        ("POST", "/v1/keys", {"name": SHORT, "scopes": ["runs:read"]}),
        ("POST", "/v1/incidents", {"user_id": one, "reason": TEXT[:200]}),
    ]


_WISH = {"trigger_type": "price", "schedule": {"check_interval_minutes": 60}, "action_type": "notify"}
