"""A tenant cannot tell whether there are others: the same requests get the same answers, whatever others do meanwhile.

Two sites hear the same random requests of one tenant at the same virtual instants. On the second another tenant, with
the same ids, acts in between. Requests build on each other: what was made is read, changed, listed and deleted.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, NamedTuple

from betimes.admin.service import NewKey
from betimes.domain.service import Caller
from tests.http.served import Client, Reply, Site, site
from tests.patience import HANGS_S

OWN = "globex"
OTHER = "acme"
VOLATILE = frozenset(
    {
        "correlation_id",
        "correlation",
        "error_id",
        "secret",
        "next_cursor",
        "resume_cursor",
        "backfill_id",
        "key_id",
        "actor",
        "worker",
        "duration_ms",
        "evaluation_ms",
        "generation_ms",
        "delivery_ms",
    }
)
"""Made by chance, places in a ledger that all share, or how long something really took."""
WAITS_S = (0, 0, 0, 1, 30, 600)
"""Time that passes after a request: often none, since what is asked at one instant meets most."""
UNDER_WAY = {"run_requests": frozenset({"run"})}
"""Read while it still changes: the command that asks for a run is applied after the answer's commit, at any moment."""


class Asked(NamedTuple):
    method: str
    target: str
    body: Any = None


def requests(random: Random, count: int) -> list[Asked]:
    return [random.choice(KINDS)(random, number) for number in range(count)]


def _trigger(random: Random, number: int) -> Asked:
    body = {
        "account_id": _id(random),
        "trigger_type": random.choice(("SIGNAL_ARRIVED", "POSTURE_CHANGE", "NONE")),
        "idempotency_key": f"k{random.randrange(number + 1)}",
    }
    return Asked("POST", "/v1/triggers", body)


def _notify(random: Random, number: int) -> Asked:
    body = {
        "event_id": f"e{random.randrange(number + 1)}",
        "user_id": _id(random),
        "event_type": "MESSAGE",
        "title": "Hello",
        "message": random.choice(("One", "Two", f"Text {number}")),
        "source": "test",
        "channels": ["in_app"],
        "priority_hint": random.choice(("CRITICAL", "HIGH", "LOW")),
    }
    return Asked("POST", "/v1/notifications", body)


def _preferences(random: Random, number: int) -> Asked:
    body = {"timezone": random.choice(("UTC", "Europe/Berlin")), "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
    return Asked("PUT", f"/v1/users/{_id(random)}/preferences", body)


def _intent(random: Random, number: int) -> Asked:
    body = {
        "user_id": _id(random),
        "trigger_type": "interval",
        "schedule": {"interval_minutes": 30},
        "action_type": "notify",
        "action_context": "Look.",
    }
    return Asked("PUT", f"/v1/intents/{_id(random)}", body)


def _schedule(random: Random, number: int) -> Asked:
    target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": _id(random)}
    return Asked("PUT", f"/v1/schedules/{_id(random)}", {"cron": "*/5 * * * *", "target": target})


def _sensor(random: Random, number: int) -> Asked:
    target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": _id(random)}
    return Asked("PUT", f"/v1/sensors/{_id(random)}", {"sensor_type": "push", "target": target})


def _message(random: Random, number: int) -> Asked:
    return Asked("POST", f"/v1/sensors/{_id(random)}/messages", {"message_id": f"m{random.randrange(6)}", "data": 1})


def _score(random: Random, number: int) -> Asked:
    return Asked("POST", f"/v1/scores/{_id(random)}/interactions", {"type": "text"})


def _policy(random: Random, number: int) -> Asked:
    return Asked("PUT", "/v1/policy", {"policy": {"runs": {"daily_run_budget": random.randrange(1, 9)}}})


def _looked_up(random: Random, number: int) -> Asked:
    kind = random.choice(("intents", "schedules", "sensors", "scores"))
    return Asked(random.choice(("GET", "GET", "DELETE")), f"/v1/{kind}/{_id(random)}")


def _listed(random: Random, number: int) -> Asked:
    name = random.choice(("intents", "schedules", "sensors", "scores", "runs", "effects", "incidents", "ledger"))
    return Asked("GET", f"/v1/{name}?limit={random.choice((1, 50))}")


def _done(random: Random, number: int) -> Asked:
    return random.choice(
        (
            Asked("POST", "/v1/tick", {}),
            Asked("POST", "/v1/scores/sweep", {}),
            Asked("POST", "/v1/intents/claim", {"worker_id": "w", "limit": 3}),
        )
    )


def _id(random: Random) -> str:
    return f"x{random.randrange(4)}"


KINDS = (
    _trigger,
    _trigger,
    _notify,
    _notify,
    _preferences,
    _intent,
    _schedule,
    _sensor,
    _message,
    _score,
    _policy,
    _looked_up,
    _looked_up,
    _listed,
    _listed,
    _done,
)


class Compared(NamedTuple):
    """What two sites answered the same tenant."""

    answered: int
    """Requests that were answered 2xx."""
    differences: list[str]


async def compare_sites(seed: int, count: int, urls: tuple[str, str] = ("memory://", "memory://")) -> Compared:
    """Send the same requests to a site where the tenant is alone and to one that it shares; return what differs."""
    random = Random(seed)
    asked, noise = requests(random, count), requests(random, count)
    waits = [random.choice(WAITS_S) for _ in asked]
    answered, differences = 0, []
    async with site(dev=False, url=urls[0]) as alone, site(dev=False, url=urls[1]) as shared:
        other, quiet, crowded = await _client(shared, OTHER), await _client(alone, OWN), await _client(shared, OWN)
        for one, noisy, wait in zip(asked, noise, waits, strict=True):
            loud, mine, theirs = await _sent(other, noisy), await _sent(quiet, one), await _sent(crowded, one)
            for sent, reply in ((noisy, loud), (one, mine)):
                if reply.status >= 500:
                    differences.append(f"{sent} was answered {reply.status}: {reply.raw[:300]!r}")
            if _seen(mine) != _seen(theirs):
                differences.append(f"{one}: alone and with others {difference(_seen(mine), _seen(theirs))}")
            answered += mine.status < 300
            await later(alone, wait)
            await later(shared, wait)
    return Compared(answered, differences)


async def _client(s: Site, tenant: str) -> Client:
    tenants = s.bt.for_caller(Caller(tenant)).tenants
    return s.with_key((await tenants.create_key(NewKey(name="test", scopes=("admin", "tick", "sweep")))).secret or "")


async def _sent(client: Client, asked: Asked) -> Reply:
    return await client(asked.method, asked.target, asked.body)


async def later(s: Site, wait_s: int) -> None:
    """Let so much time pass, and commands between streams arrive: a list would show those that have not yet."""
    if wait_s:
        await s.bt.advance(by_s=wait_s)
    store = s.bt.engine.store
    async with asyncio.timeout(HANGS_S):
        while await store.waiting_sends(1, created_before=await store.now() + 1):  # noqa: ASYNC110 — told by the store
            await asyncio.sleep(0)


def _seen(reply: Reply) -> tuple[int, Any]:
    return reply.status, stable(reply.json) if reply.raw else None


def stable(value: Any, without: frozenset[str] = VOLATILE) -> Any:
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name not in without}
        return {name: stable(inner, VOLATILE | UNDER_WAY.get(name, frozenset())) for name, inner in kept.items()}
    return [stable(one, without) for one in value] if isinstance(value, list) else value


def difference(one: Any, other: Any, path: str = "") -> str:
    """Return where two answers first differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next(
            (difference(one[name], other[name], f"{path}.{name}") for name in one if one[name] != other[name]), ""
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((difference(a, b, f"{path}[{place}]") for place, (a, b) in pairs if a != b), "")
    return f"{path}: {one!r} and {other!r}"
