"""What the built-in worker is tested with: a world, workers on it, and the least of inbox and account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from betimes.catalogue import SECTIONS
from betimes.core.deciders import Decider, Decision
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.intents.decide import DECIDERS
from betimes.intents.worker import IntentWorker
from betimes.notifications.model import Notify
from betimes.runs.model import RequestRun
from betimes.scores.decide import DECIDERS as SCORES
from tests.intents.worlds import IntentWorld, intent_world
from tests.patience import HANGS_S
from tests.stores.backends import BACKENDS, Backend

MEMORY = BACKENDS[0]


class Notified(msgspec.Struct, frozen=True, tag=True):
    asked: Notify
    key: str


class Inbox(msgspec.Struct, frozen=True):
    received: tuple[Notified, ...] = ()


class Asked(msgspec.Struct, frozen=True, tag=True):
    trigger_type: str


class Account(msgspec.Struct, frozen=True):
    asked: int = 0


def asked_at_the_gate(view: Any, command: RequestRun, policy: Any, now: Instant) -> Decision:
    answers: Any = {"ALLOWED": ("NOW", "CLEAR"), "DEFERRED": ("LATER", "COOLDOWN"), "SKIPPED": ("NEVER", "BUDGET")}
    answer, reason = answers[command.trigger_type]
    return Decision(
        (Asked(command.trigger_type),), verdict=Verdict(answer, (reason,), until=now if answer == "LATER" else None)
    )


INBOX: Decider[Inbox] = Decider(
    kind="inbox",
    state=Inbox,
    commands=Notify,
    events=Notified,
    decide=lambda view, command, policy, now: Decision(
        (Notified(command, view.key or ""),), verdict=Verdict("NOW", ("DEFAULT_PASS",))
    ),
    fold=lambda state, event: Inbox((*(state.received if state else ()), event)),
)
ACCOUNT: Decider[Account] = Decider(
    kind="account",
    state=Account,
    commands=RequestRun,
    events=Asked,
    decide=asked_at_the_gate,
    fold=lambda state, event: Account((state.asked if state else 0) + 1),
)


@asynccontextmanager
async def working(backend: Backend, folder: Path, **policy: Any) -> AsyncIterator[IntentWorld]:
    deciders = (*DECIDERS, INBOX, ACCOUNT, *SCORES)
    async with intent_world(backend, folder, deciders=deciders, sections=SECTIONS, **policy) as world:
        yield world


def worker(world: IntentWorld, **settings: Any) -> IntentWorker:
    return IntentWorker(world.inner.engine, **{"name": "built-in", "source_timeout_s": HANGS_S, **settings})


async def inbox(world: IntentWorld, user_id: str = "ann") -> tuple[Notified, ...]:
    state: Inbox | None = await world.inner.state(StreamId("acme", "inbox", user_id))
    return state.received if state else ()
