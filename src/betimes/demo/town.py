"""A town: a few hundred people and their assistant, on SQLite, days in seconds, with the HTTP API over it.

Everything that happens goes through the services, as it would from outside: people chat, read, neglect things and sleep
in several zones; signals arrive for their assistants, mail comes in twice, prices move. The virtual clock goes on in
steps of ten minutes, a little real time apart, so that whoever calls the API meanwhile sees the town at work.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from betimes.app.betimes import Betimes
from betimes.app.configuration import Configuration, ServerSettings
from betimes.app.server import Serving, answer_requests, demand_server, listening
from betimes.catalogue import DOMAIN_OF
from betimes.core.errors import BetimesError, Invalid, MissingExtra
from betimes.core.instants import render
from betimes.core.segments import Segment
from betimes.demo.lines import TOWN_SCENE, StoryLine, TownOptions
from betimes.demo.story import replay
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.outcomes import OutcomeView, outcomes_of
from betimes.sensors.model import Message

START = "2026-03-27T06:00:00Z"
NEGLECTED_SINCE = "2026-03-26T06:00:00Z"
STEP_S = 600
STEPS_A_DAY = 86_400 // STEP_S
STEPS_A_LINE = 6
FIRST_DAYS_S = 45.0
SLOW_STEP_S = 5.0
"""The real time between two steps once the first days are over: slow enough to look around."""
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo", "UTC")
POLICY: dict[str, Any] = {
    "notifications": {"event_types": {"UPDATE": {"digest": True}}},
    "runs": {
        "daily_run_budget": 8,
        "registry": {
            "SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "think"}},
            "TIME_RITUAL_DAILY_BRIEF": {"handler": {"kind": "python", "name": "think"}},
        },
    },
    "hooks": [
        {
            "on": ["SCORE_THRESHOLD"],
            "target": {
                "kind": "notification",
                "event_type": "REMINDER",
                "title": "It misses you",
                "message": "Say hello",
                "source": "scores",
                "channels": ["in_app"],
            },
        }
    ],
}
WISH = {
    "trigger_type": "price",
    "condition": {"ticker": "NVDA", "operator": "<", "value": 120},
    "schedule": {"check_interval_minutes": 180},
    "action_type": "notify",
    "action_context": "NVDA is under 120.",
}
NEWS = (
    ("MESSAGE", "HIGH", "{} replied", "See you at nine?"),
    ("UPDATE", "MEDIUM", "Numbers of {}", "Usage is up by {} percent"),
    ("ALERT", "HIGH", "{} is late", "Departure moved by {} minutes"),
    ("PROMO", "LOW", "An offer for {}", "Only today, {} percent off"),
    ("SECURITY", None, "New login by {}", "Somebody signed in from place {}"),
)
NAMES = ("Ana", "Tom", "Mei", "Ravi", "Lena", "Kofi")


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return whether a failure is worth a line; that of the printer is on purpose."""
    return _print_invoices.__name__ not in record.getMessage()


class Town:
    """The people, and everything that happens among them."""

    def __init__(self, bt: Betimes, people: int) -> None:
        self._bt = bt
        self._people = people
        self._random = Random(7)
        self._count = 0
        self._seen = 0
        self.counts: Counter[tuple[str, str]] = Counter()

    def declare(self) -> None:
        """Declare the handler of the assistant and the source of prices."""
        self._bt.handler("think")(_think)
        self._bt.handler("print_invoices")(_print_invoices)
        logging.getLogger("betimes.handlers").addFilter(_is_unexpected)
        self._bt.source("price")(lambda ticker: Decimal(self._random.randrange(115, 140)))

    async def settle(self, stopping: asyncio.Event) -> None:
        """Let people move in, and set up the schedules and the sensor of the town."""
        bt = self._bt
        for number in range(self._people):
            if stopping.is_set():
                return
            await self._move_in(number)
        for place, zone in enumerate(ZONES):
            target = {"kind": "trigger", "trigger_type": "TIME_RITUAL_DAILY_BRIEF", "account_id": f"p{place}"}
            body = {"schedule_id": f"brief-{place}", "cron": "30 7 * * *", "timezone": zone, "target": target}
            await bt.schedules.put(f"brief-{place}", body)
        target = {"kind": "handler", "name": "print_invoices"}
        body = {"schedule_id": "invoices", "cron": "0 */6 * * *", "timezone": "UTC", "target": target}
        await bt.schedules.put("invoices", body)
        target = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": "p1"}
        await bt.sensors.put("mail", {"sensor_id": "mail", "sensor_type": "push", "target": target})

    async def _move_in(self, number: int) -> None:
        """Say where a person lives and when they sleep, and for some what they wish and care for."""
        bt, person, zone = self._bt, f"p{number}", ZONES[number % len(ZONES)]
        quiet = {"quiet_hours": [{"start": "22:00", "end": "07:00"}]}
        await bt.notifications.set_preferences(
            person, {"timezone": zone, **quiet, "addresses": {"push": f"device-{number}"}}
        )
        if number % 5 == 0:
            since = {"created_at": NEGLECTED_SINCE, "last_interaction_at": NEGLECTED_SINCE}
            await bt.scores.create({"user_id": person, "score": 50, **since})
        if number % 10 == 0:
            await bt.intents.create({"intent_id": f"nvda-{number}", "user_id": person, **WISH})

    async def ten_minutes(self) -> None:
        """Let people and signals act, then move time on."""
        happening: list[Awaitable[Any]] = [self._news() for _ in range(max(1, self._people // 25))]
        happening += [self._signal() for _ in range(max(1, self._people // 60))]
        happening += [self._visit() for _ in range(max(1, self._people // 100))]
        happening.append(self._bt.sensors.message("mail", Message(f"m{self._random.randrange(self._count + 5)}")))
        for ended in await asyncio.gather(*happening, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, BetimesError):
                raise ended
        await self._bt.advance(by_s=STEP_S)

    def _someone(self) -> str:
        return f"p{int(self._random.random() ** 2 * self._people)}"

    async def _news(self) -> None:
        self._count += 1
        kind, hint, title, message = self._random.choices(NEWS, (8, 6, 3, 4, 0.3))[0]
        await self._bt.notifications.send(
            {
                "event_id": f"news-{self._count}",
                "user_id": self._someone(),
                "event_type": kind,
                "source": "town",
                "title": title.format(self._random.choice(NAMES)),
                "channels": ["push", "in_app"],
                "message": message.format(self._random.randrange(2, 60)),
                **({"priority_hint": hint} if hint else {}),
            },
            trace=False,
        )

    async def _signal(self) -> None:
        self._count += 1
        await self._bt.runs.trigger(
            {
                "account_id": self._someone(),
                "trigger_type": "SIGNAL_ARRIVED",
                "idempotency_key": f"signal-{self._count - self._random.randrange(2)}",
            }
        )

    async def _visit(self) -> None:
        person = int(self._random.random() * self._people) // 5 * 5
        await self._bt.scores.interact(f"p{person}", {"type": "text"})

    async def new_outcomes(self) -> list[tuple[Segment, OutcomeView]]:
        """Return and count the outcomes since the last call."""
        engine, found = self._bt.engine, []
        while page := await engine.store.ledger(LedgerQuery(after=self._seen, limit=PAGE_MAX)):
            self._seen = page[-1].seq
            found += [(one, outcome) for one in page for outcome in outcomes_of(engine.kinds, one)]
        self.counts.update((DOMAIN_OF[segment.stream.kind].area, outcome.outcome) for segment, outcome in found)
        return found


async def _think(payload: Any) -> dict[str, Any]:
    """The expensive part."""
    return {"thought": True}


async def _print_invoices(payload: Any) -> None:
    """Fail as things outside do, so that there is something to mend."""
    raise RuntimeError("the printer is out of paper")


async def live(
    options: TownOptions, stopping: asyncio.Event, story: AsyncGenerator[StoryLine, None]
) -> AsyncGenerator[StoryLine, None]:
    """Yield where the town can be seen, then the story, then the town's lines until it ends or is to stop.

    The API ends first and the database last, so that whatever is under way when it is to stop is finished, and what
    the days came to is told however few there were. Of a story that is to stop, nothing follows.
    """
    with tempfile.TemporaryDirectory(prefix="betimes-demo-") as folder:
        clock = VirtualClock(START)
        url = f"sqlite:///{Path(folder) / 'town.db'}"
        bt = Betimes(url, clock=clock, policy=POLICY, report=lambda report: None)
        bt.role = "all"  # it serves, so that it is counted among the processes
        town = Town(bt, options.people)
        town.declare()
        async with bt:
            async with _api(bt, options.port) as address:
                yield StoryLine(scene="Where to look", what=address)
                async for told in story:
                    yield told
                if stopping.is_set():
                    return
                await town.settle(stopping)
                await town.new_outcomes()
                town.counts.clear()
                scene = f"{TOWN_SCENE} {options.people} people in {len(ZONES)} zones on one SQLite file"
                yield StoryLine(scene=scene, what=address)
                async for told in _days(town, clock, options, stopping, scene):
                    yield told
            async for told in _afterwards(bt, town):
                yield told


@asynccontextmanager
async def _api(bt: Betimes, port: int) -> AsyncIterator[str]:
    """Serve the API if its extra is installed; on any port if this one is taken."""
    try:
        demand_server()
    except MissingExtra as missing:
        yield f"no API: {missing}"
        return
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def announce(said: Any) -> None:
        if not ready.done():
            ready.set_result(said["url"])

    ending = asyncio.Event()
    configuration = _free_configuration(port)
    with listening(configuration) as listener:
        serving = asyncio.create_task(answer_requests(Serving(bt, configuration), listener, ending, announce))
        try:
            address = await _first(ready, serving)
            yield f"the console is at {address}/console, its API is at {address}, described at /docs; Ctrl-C ends it"
        finally:
            ending.set()
            await serving


def _free_configuration(port: int) -> Configuration:
    wanted = Configuration(server=ServerSettings(port=port, dev=True))
    try:
        listening(wanted).close()
    except Invalid:
        return Configuration(server=ServerSettings(port=0, dev=True))
    return wanted


async def _first(ready: asyncio.Future[str], serving: asyncio.Task[None]) -> str:
    """Return the address, or raise what kept it from being served."""
    serving.add_done_callback(lambda task: None if ready.done() else ready.cancel())
    with suppress(asyncio.CancelledError):
        return await ready
    await serving
    raise Invalid("the town's API stopped before it was ready")


async def _days(
    town: Town, clock: VirtualClock, options: TownOptions, stopping: asyncio.Event, scene: str
) -> AsyncIterator[StoryLine]:
    """Let the days pass in the time they may take; without an end, slowly from then on."""
    loop = asyncio.get_running_loop()
    steps = options.days * STEPS_A_DAY
    started_s = loop.time()
    first_s = FIRST_DAYS_S if options.seconds is None else options.seconds
    fresh: list[tuple[Segment, OutcomeView]] = []
    for step in count(1):
        is_over = options.seconds is not None and (step > steps or loop.time() > started_s + options.seconds)
        if stopping.is_set() or is_over:
            return
        await town.ten_minutes()
        fresh += await town.new_outcomes()
        if step % STEPS_A_LINE == 0:
            for segment, outcome in _remarkable(fresh):
                yield _outcome_line(scene, segment, outcome)
            yield StoryLine(scene=scene, at=render(clock()), what=_summary(fresh))
            fresh = []
        is_early = step <= steps
        pause_s = max(0.0, started_s + first_s * step / steps - loop.time()) if is_early else SLOW_STEP_S
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await stopping.wait()


def _summary(fresh: list[tuple[Segment, OutcomeView]]) -> str:
    counts = Counter((DOMAIN_OF[segment.stream.kind].area, outcome.outcome) for segment, outcome in fresh)
    domains = sorted({domain for domain, _ in counts})
    return " · ".join(f"{domain} {_list_counts(counts, domain, ' ')}" for domain in domains)


def _list_counts(counts: Counter[tuple[str, str]], domain: str, between: str) -> str:
    return between.join(f"{count:,} {name}" for (of, name), count in sorted(counts.items()) if of == domain)


def _remarkable(fresh: list[tuple[Segment, OutcomeView]]) -> list[tuple[Segment, OutcomeView]]:
    """Return one of each of the rarest answers."""
    counts = Counter((segment.stream.kind, outcome.outcome, outcome.reasons) for segment, outcome in fresh)
    rare = sorted(fresh, key=lambda one: counts[one[0].stream.kind, one[1].outcome, one[1].reasons])
    first = {(segment.stream.kind, outcome.outcome): (segment, outcome) for segment, outcome in reversed(rare)}
    return sorted(list(first.values())[-3:], key=lambda one: (one[0].at, one[0].seq))


def _outcome_line(scene: str, segment: Segment, outcome: OutcomeView) -> StoryLine:
    said = {"answer": outcome.outcome, "why": outcome.explanation}
    what = f"{segment.stream.kind} {segment.stream.id}"
    return StoryLine(scene=scene, at=render(segment.at), what=what, reasons=outcome.reasons, **said)


async def _afterwards(bt: Betimes, town: Town) -> AsyncIterator[StoryLine]:
    """Count the answers, and show that replaying the ledger gives the same state."""
    scene = "The town's days in numbers"
    for domain in sorted({domain for domain, _ in town.counts}):
        yield StoryLine(scene=scene, what=domain, answer=_list_counts(town.counts, domain, ", "))
    yield await replay(bt, scene)
