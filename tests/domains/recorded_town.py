"""A town that was recorded, and its verdicts decided again: reproduced, and every alternative as good as its word."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec

from betimes.app.betimes import Betimes
from betimes.catalogue import DOMAIN_OF
from betimes.core.datetimes import instant
from betimes.core.segments import Segment
from betimes.core.setting_paths import with_settings
from betimes.demo.town import POLICY, START, Town
from betimes.engine.engine import Engine
from betimes.engine.redecision import Past, Redecided, decide_again, follow_on, load_past
from betimes.engine.store import PAGE_MAX, LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.ledger.alternative_search import AlternativeChange
from betimes.ledger.alternatives import find_alternatives
from betimes.ledger.outcomes import spell_outcome


class Examined(NamedTuple):
    """What deciding the verdicts of a town again came to."""

    verdicts: int
    reproduced: int
    changes: Counter[str]
    """Alternatives that were applied, by kind."""
    unexplained: list[str]
    """Verdicts that are not reproduced and do not say why."""
    broken: list[str]
    """Alternatives that, applied, did not give the answer they promised."""
    decisions_most: int


@asynccontextmanager
async def recorded_town(url: str, people: int, steps: int) -> AsyncIterator[Betimes]:
    """Yield an application after so many steps of ten minutes."""
    bt = Betimes(url, clock=VirtualClock(START), policy=POLICY, report=lambda report: None)
    town = Town(bt, people)
    town.declare()
    async with bt:
        await town.settle(asyncio.Event())
        for _ in range(steps):
            await town.ten_minutes()
        yield bt


async def verdicts_of(engine: Engine) -> list[Segment]:
    """Return every segment that judged something."""
    found: list[Segment] = []
    after = 0
    while page := await engine.store.ledger(LedgerQuery(after=after, limit=PAGE_MAX)):
        found += [segment for segment in page if segment.verdict]
        after = page[-1].seq
    return found


async def examine(bt: Betimes, random: Random, count: int) -> Examined:
    """Decide random verdicts of a town again, and apply every alternative that is told."""
    engine, segments = bt.engine, await verdicts_of(bt.engine)
    chosen = random.sample(segments, count) if count < len(segments) else segments
    reproduced, most, changes = 0, 0, Counter[str]()
    unexplained: list[str] = []
    broken: list[str] = []
    for segment in chosen:
        view = await find_alternatives(engine, segment)
        reproduced += view.reproduced
        most = max(most, view.decisions)
        if not view.reproduced and not view.why_not:
            unexplained.append(segment.handle)
        past = await load_past(engine, segment) if view.changes else None
        for change in view.changes if past else ():
            assert past
            changes[change.kind] += 1
            again = apply_change(engine, past, change)
            verdict = again.verdict if again else None
            events = again.events if again else ()
            told = verdict and (spell_outcome(segment.stream.kind, verdict, events), verdict.reasons)
            if told != (change.then.outcome, change.then.reasons):
                broken.append(f"{segment.handle}: {change} gives {told}")
    return Examined(len(chosen), reproduced, changes, unexplained, broken, most)


def apply_change(engine: Engine, past: Past, change: AlternativeChange) -> Redecided | None:
    """Decide as a change says, from nothing but what it says."""
    changed: dict[str, Any] = {}
    domain = DOMAIN_OF[past.segment.stream.kind]
    variations = domain.variations.get(past.segment.stream.kind)
    if change.kind == "time":
        at = instant(change.at)
        passed = [one for one in follow_on(engine, past) if one.at == at and one.verdict]
        if told := next((one for one in passed if one.verdict and one.verdict.reasons == change.then.reasons), None):
            return told
        changed = {"at": at}
    elif change.kind == "setting":
        changed = {"policy": _policy(engine, past, {change.path: change.after})}
    elif change.kind == "rule":
        assert variations
        names = variations.names(past.command, past.state, past.segment.at)
        off: dict[str, Any] = {}
        for rule in change.path.split("+"):
            for path, value in variations.switch_off(rule, names).items():
                off[path] = (*off.get(path, ()), *value) if isinstance(value, tuple) else value
        changed = {"policy": _policy(engine, past, off)}
    else:
        assert variations
        one = next(
            one
            for one in variations.vary(past.command, past.state)
            if (one.kind, one.path, one.after) == (change.kind, change.path, change.after)
        )
        changed = {"command": one.command, "state": one.state}
    return decide_again(engine, past, **changed)


def _policy(engine: Engine, past: Past, changes: dict[str, Any]) -> Any:
    body = with_settings(msgspec.json.decode(past.policy.body), changes)
    return engine.book.from_stored(msgspec.json.encode(body).decode())
