"""One sending process: `python -m tests.notifications.process NAME JOURNAL PLACE`.

It sends a fixed list of notifications, again and again from the start, while its workers deliver: every delivery is a
line of the journal, written before it is said to have happened. It says `sent` after every answer and `delivered` after
every line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.deciders import Call, Decision, Refusal
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.notifications.decide import DECIDERS, INBOX
from betimes.notifications.delivery import delivery_executors
from betimes.notifications.service import Notifications
from betimes.outbound.channels import ChannelMessage
from betimes.outbound.handlers import HandlerContext
from tests.crash.scene import Place
from tests.notifications.inboxes import SECTIONS

COUNT = 120
PEOPLE = 12
LEASE_S = 1
POLICY = {"notifications": {"fatigue": {name: {"cap": 500} for name in ("day", "hour", "burst")}, "recency_count": 500}}


def requests() -> list[dict[str, Any]]:
    """Texts that are told apart, to a dozen people."""
    return [
        {
            "event_id": f"e{n}",
            "user_id": f"u{n % PEOPLE}",
            "event_type": "MESSAGE",
            "priority_hint": "HIGH",
            "title": f"News {n}",
            "message": f"{n} is what this one of many messages is all about",
            "source": "crash",
            "channels": ["push"] if n % 3 else ["in_app"],
        }
        for n in range(COUNT)
    ]


class Journal:
    """A channel that writes down what it was asked to send."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def send(self, message: ChannelMessage, context: HandlerContext) -> None:
        os.write(self._file, f"{context.effect_id} {message.metadata['event_id']}\n".encode())
        say("delivered")
        await asyncio.sleep(0)


def brief(*asked: Any) -> Decision | Refusal:
    """The inbox with a short lease on its calls, since real time is what is tested."""
    decision = INBOX.decide(*asked)
    if isinstance(decision, Refusal):
        return decision
    effects = tuple(replace(one, lease_s=LEASE_S) if isinstance(one, Call) else one for one in decision.effects)
    return replace(decision, effects=effects)


def engine_on(place: Place, name: str, journal: Path) -> Engine:
    store = place.store()
    deciders = (replace(INBOX, decide=brief), *DECIDERS[1:])
    executors = delivery_executors(lambda: engine, Journal(journal))
    engine = Engine(store, deciders, name=name, sections=SECTIONS, policy=POLICY, executors=executors)
    return engine


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


async def main(name: str, journal: str, place: str) -> None:
    async with engine_on(msgspec.json.decode(place, type=Place), name, Path(journal)) as engine:
        engine.start_workers()
        service = Notifications(engine, Caller("acme", actor=name))
        for request in requests():
            await service.send(request)
            say("sent")
        say("done")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
