"""Redecision: a segment's command decided again, by the one turn, with everything as it was then.

The stream is replayed to the version before the segment, the streams that the decision saw besides to where they stood
before it in the ledger, and the policy is the one the segment names. Then the command is decided in a `Rehearsal` of
its own: as recorded, or with another command, state, policy or instant. Nothing is written.

At another instant the stream's alarms ring first, each at its own instant, so that what waited ahead of the command has
taken its place by then. `follow_on` goes on from the segment itself: what the stream's alarms make of it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.deciders import Command, Event, Wake
from betimes.core.errors import BetimesError, Invalid
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict, within_bound
from betimes.engine.codecs import Kinds, checkpoint_of, repair_of
from betimes.engine.engine import Engine
from betimes.engine.jobs import Job, Submission, note_streams
from betimes.engine.queries import LedgerQuery
from betimes.engine.rehearsal import Rehearsal, RehearsedStep
from betimes.engine.replay import Replayed, fold_segment
from betimes.engine.store import PAGE_MAX, Store
from betimes.engine.tenants.model import HOLD_MAX, TenantState, tenant_stream

SEGMENTS_MAX = 20_000
"""Segments that are read to find out how things stood."""
SLICE = 200
"""Segments that are folded at a stretch."""
ALARMS_MAX = 64
"""Alarms that ring on the way to another instant, or after a segment."""
PAGES_MAX = 20
"""Pages of a tenant's history that are read to find out what was held."""


class NotReproducible(Invalid):
    """How things stood cannot be found out any more."""


class PastStream(NamedTuple):
    """A stream as it was."""

    version: int
    state: Any
    at: Instant


class Redecided(NamedTuple):
    """The outcome of a repeated decision."""

    verdict: Verdict | None
    events: tuple[Event, ...]
    reply: Any = None
    at: Instant = 0


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """How things stood when a segment was decided."""

    segment: Segment
    command: Command
    streams: Mapping[StreamId, PastStream]
    policy: Policy
    tenant: TenantState | None = None
    """Its holds, if it has or lately had one."""

    @property
    def state(self) -> Any:
        """The state of the segment's own stream before it."""
        return self.streams[self.segment.stream].state


async def load_past(engine: Engine, segment: Segment) -> Past:
    """Return how things stood before a segment; raise `NotReproducible` with what is gone."""
    stream, kinds = segment.stream, engine.kinds
    if segment.command is None:
        raise NotReproducible("another stream's command wrote it; ask about the first segment of its turn")
    if checkpoint_of(segment) or repair_of(segment):
        raise NotReproducible("it stands for history that was pruned or repaired; nothing was decided")
    policy = await recorded_policy(engine, segment.policy)
    command = kinds.of(stream).command(segment.command, segment)
    job = _job(segment, command)
    reader = _Reader(engine, segment)
    note_streams(kinds, job, policy)
    # A stream that is both held and looked at is replayed once.
    streams = {name: await reader.read(name) for name in dict.fromkeys((*job.streams, *job.reads))}
    tenant = await read_past_holds(engine.store, kinds, segment)
    return Past(segment=segment, command=command, streams=streams, policy=policy, tenant=tenant)


async def recorded_policy(engine: Engine, fingerprint: str) -> Policy:
    """Return the policy that a segment names; raise `NotReproducible` if it is gone or does not fit this version."""
    body = await engine.store.policy(fingerprint)
    if body is None:
        raise NotReproducible(f"the policy {fingerprint} is not stored any more")
    try:
        return engine.book.from_stored(body)
    except Invalid as error:
        raise NotReproducible(f"the policy {fingerprint} does not fit this version: {error}") from error


class _Reader:
    """Replays streams to where they stood before a segment, reading so many segments at most."""

    def __init__(self, engine: Engine, segment: Segment) -> None:
        self._store: Store = engine.store
        self._kinds = engine.kinds
        self._segment = segment
        self._left = SEGMENTS_MAX

    async def read(self, stream: StreamId) -> PastStream:
        replayed = Replayed(stream, self._kinds.of(stream))
        while True:
            _, page = await self._store.history(stream, replayed.version, PAGE_MAX)
            for one in page:
                if self._is_later(one):
                    return self._past(replayed, one)
                replayed.follow(one)
                if one.version % SLICE == 0:
                    await asyncio.sleep(0)  # others have their turn too
            self._left -= len(page)
            if len(page) < PAGE_MAX:
                return self._past(replayed, None)
            if self._left <= 0:
                raise NotReproducible(f"more than {SEGMENTS_MAX:,} segments would have to be read; prune, or export")

    def _is_later(self, one: Segment) -> bool:
        mine = self._segment
        if one.stream == mine.stream:
            return one.version >= mine.version
        # Rows of one turn are written together: the decision saw none of the others, whatever their positions are.
        return one.seq >= mine.seq or (one.turn == mine.turn and bool(mine.turn))

    def _past(self, replayed: Replayed, following: Segment | None) -> PastStream:
        if replayed.unread and replayed.error:
            raise NotReproducible(f"the history of {replayed.stream} cannot be read: {replayed.error}")
        # The first segment that is left is not the first that was written: what came before is not known.
        if replayed.segments == 0 and following is not None and following.version > 1:
            raise NotReproducible(f"the history of {replayed.stream} so early was pruned")
        return PastStream(replayed.version, replayed.state, replayed.at)


def _job(segment: Segment, command: Command) -> Job:
    key = segment.key
    asked = Submission(
        stream=segment.stream,
        command=command,
        key=key.key if key else None,
        collection=key.collection if key else "",
        actor=segment.actor,
        correlation=segment.correlation,
    )
    return Job(asked, cause=segment.effect_cause)


def decide_again(
    engine: Engine,
    past: Past,
    *,
    command: Command | None = None,
    state: Any = None,
    policy: Policy | None = None,
    at: Instant | None = None,
) -> Redecided | None:
    """Decide the command of a segment again, with whatever is given in place of what was; `None` if it is refused."""
    segment, steps = past.segment, list[RehearsedStep]()
    world = _world_of(engine, past, policy or past.policy, steps, state)
    command = past.command if command is None else command
    # A wake is the alarm itself: ringing it ahead of its own command would decide it twice.
    if at is not None and not isinstance(command, Wake):
        for _ in _ring_alarms(world, segment.stream, steps, at):
            pass
    world.begin_at(segment.at if at is None else at)
    try:
        recorded: Recorded = world.decide(_job(segment, command))
    except BetimesError:
        return None
    # The last of them is the command itself; alarms that were rung ahead of it come before.
    own_steps = [step for step in steps if step.stream == segment.stream]
    return Redecided(recorded.verdict, own_steps[-1].events if own_steps else (), recorded.reply, recorded.at)


def follow_on(engine: Engine, past: Past) -> Iterator[Redecided]:
    """Yield what a segment decided, then what the alarms of its stream decide in turn if nothing else happens."""
    steps: list[RehearsedStep] = []
    world = _world_of(engine, past, past.policy, steps, None)
    try:
        world.decide(_job(past.segment, past.command))
    except BetimesError:
        return
    yield from map(_redecided, steps[-1:])
    for rung in _ring_alarms(world, past.segment.stream, steps, None):
        yield from map(_redecided, rung)


def _redecided(step: RehearsedStep) -> Redecided:
    return Redecided(step.recorded.verdict, step.events, step.recorded.reply, step.recorded.at)


def _world_of(engine: Engine, past: Past, policy: Policy, steps: list[RehearsedStep], state: Any) -> Rehearsal:
    """Return a world as it was at the instant of a segment, but for the state of its stream if one is given."""
    segment = past.segment
    world = Rehearsal(
        engine.kinds,
        engine.book,
        engine.settings,
        told=steps.append,
        # Calls lead to nothing: only what this very command decides is asked for.
        call=lambda id, call, at: (),
        policy=policy,
    )
    for name, (version, was, last_at) in past.streams.items():
        own = state if state is not None and name == segment.stream else was
        world.put(name, version, own, last_at)
    world.held.note_tenant(segment.stream.tenant, past.tenant, segment.at)
    world.begin_at(segment.at)
    return world


def _ring_alarms(
    world: Rehearsal, stream: StreamId, steps: list[RehearsedStep], until_at: Instant | None
) -> Iterator[list[RehearsedStep]]:
    """Ring a stream's alarms before an instant, each at its own or after its hold; yield what was decided at each."""
    for _ in range(ALARMS_MAX):
        alarm_at, told = world.rings_at(stream), len(steps)
        if alarm_at is None or (until_at is not None and alarm_at >= until_at):
            return
        world.begin_at(max(world.now, alarm_at))
        world.ring(stream)
        if len(steps) == told:
            return  # its wake fails, or leads nowhere
        yield [step for step in steps[told:] if step.stream == stream]


def is_reproduced(engine: Engine, past: Past, again: Redecided | None) -> bool:
    """Return whether deciding again gave the recorded verdict and events, byte for byte."""
    segment = past.segment
    recorded = engine.kinds.of(segment.stream).recorded(segment).verdict
    if again is None or encode(again.events) != segment.events:
        return False
    # A verdict is cut to its bound when it is stored, so the one decided now is cut before they are compared.
    verdict = again.verdict and within_bound(again.verdict)
    return encode(verdict) == encode(_named(engine, recorded))


def _named(engine: Engine, verdict: Verdict | None) -> Verdict | None:
    """Return a verdict with the names of its rules, if it was recorded before there were any."""
    table = engine.kinds.tables.get(verdict.table) if verdict else None
    return table.with_rule_names(verdict) if verdict and table else verdict


# -- holds that were in force


async def read_past_holds(store: Store, kinds: Kinds, segment: Segment) -> TenantState | None:
    """Return the holds of a segment's tenant as they were before it; `None` if there were none.

    What ended longer ago than a hold may last is left out: all that waited for it has rung since.
    """
    stream = tenant_stream(segment.stream.tenant)
    kind, row = kinds.of(stream), (await store.load([stream])).get(stream)
    state = kind.state(stream, row.schema, row.state) if row else None
    # Most tenants never had a hold, and their history need not be read.
    if state is None or not (state.hold or state.released):
        return None
    past = TenantState()
    for one in reversed(await _read_hold_changes(store, stream, segment)):
        past = fold_segment(kind, past, one)
    return past


async def _read_hold_changes(store: Store, stream: StreamId, segment: Segment) -> list[Segment]:
    """Read the segments before another that say what is held, the newest first."""
    found: list[Segment] = []
    query = LedgerQuery(
        after=segment.seq, backwards=True, tenant=stream.tenant, kind=stream.kind, id=stream.id, limit=PAGE_MAX
    )
    for _ in range(PAGES_MAX):
        page = await store.ledger(query)
        for one in page:
            # A hold that still matters ended at most one longest hold ago, and was set at most another before that.
            if one.at < segment.at - 2 * HOLD_MAX:
                return found
            starts = checkpoint_of(one) or repair_of(one)
            # By the tag in the text: most segments of a tenant are about its keys and its policy, and need no decoding.
            if starts or '"Hold' in one.events:
                found.append(one)
            if starts:
                return found
        if len(page) < PAGE_MAX:
            break
        query = replace(query, after=page[-1].seq)
    return found
