"""What must hold after every run, whatever the domain.

Each invariant reads what was seen from outside (attempts, calls, the server's record) and the ledger, and yields a
sentence for everything that contradicts it. Nothing here asks the engine what it thinks it did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Index
from betimes.core.errors import BetimesError, StoreError, Unknown
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import PolicyBook
from betimes.core.segments import GENESIS, Recorded, Segment, segment_digest
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import Job
from betimes.engine.store import SEND
from betimes.engine.tenants.decide import tenant_decider
from betimes.engine.tenants.model import DEPLOYMENT, tenant_stream
from betimes.engine.turn import fold_events

if TYPE_CHECKING:
    from betimes.testing.simulator.world import World

Invariant: TypeAlias = "Callable[[World], Iterator[str]]"

EXPECTED_REPORTS = frozenset({"call_dead", "call_failed", "call_abandoned", "calls_orphaned", "drain_incomplete"})
"""What engines may say under faults, besides what a store's error or an injected bug explains."""
INJECTED = "a bug in a decider"
UNDER_WAY = 30 * SECOND
"""How long after a hold was set a transaction may commit that began before."""


def command_name(segment: Segment) -> str:
    """The type of the command a segment carries, if it carries one."""
    return "" if segment.command is None else str(msgspec.json.decode(segment.command)["type"])


def events_of(segment: Segment) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = msgspec.json.decode(segment.events)
    return events


# -- the ledger


def the_ledger_is_whole(world: World) -> Iterator[str]:
    """Versions without gaps, digests that chain, time that never goes back, one run of rows per turn."""
    for stream, history in world.server.database.histories.items():
        before, digest, at = 0, GENESIS, 0
        for segment in history:
            if segment.version != before + 1:
                yield f"{stream} has version {segment.version} after {before}"
            if segment.prev != digest or segment_digest(segment) != segment.digest:
                yield f"the digests of {stream} do not chain at version {segment.version}"
            if segment.at < at:
                yield f"time went back by {at - segment.at} µs in {stream} at version {segment.version}"
            before, digest, at = segment.version, segment.digest, segment.at
    turns = [turn for turn, _ in groupby(segment.turn for segment in world.server.database.segments)]
    yield from (f"turn {turn} is in pieces" for turn, count in Counter(turns).items() if count > 1)


def replaying_gives_every_row(world: World) -> Iterator[str]:
    """Folded from empty, the ledger gives each row byte for byte; wakes and commands keep to the alarm on the way."""
    kinds = Kinds([*world.workload.deciders, tenant_decider(PolicyBook(world.workload.sections))])
    database = world.server.database
    for stream in sorted(database.rows.keys() | database.histories.keys()):
        kind, state = kinds.of(stream), None
        alarm_at: Instant | None = None
        stops = {stop.__name__ for stop in kind.decider.stops}
        held = (
            [] if stream.kind == DEPLOYMENT.kind else list(_holds(database.histories.get(tenant_stream(stream[0]), [])))
        )
        for segment in database.histories.get(stream, ()):
            alarm_at = None if state is None else kind.decider.alarm(state)
            yield from _heeds_alarm(segment, alarm_at, stops, held)
            state = fold_events(kind.decider, state, kind.events(segment))
        yield from _row_differs(world, stream, kind.decider, state)


def _holds(history: list[Segment]) -> Iterator[tuple[Instant, Instant]]:
    """Return from when until when nothing of a tenant was to fire."""
    since_at: Instant | None = None
    until_at = 0
    for segment in history:
        for event in events_of(segment):
            if event["type"] == "HoldSet":
                since_at, until_at = event["at"] if since_at is None else since_at, event["until_at"]
            elif event["type"] == "HoldEnded" and since_at is not None:
                yield since_at, min(event["at"], until_at)
                since_at = None
    if since_at is not None:
        yield since_at, until_at


def _heeds_alarm(
    segment: Segment, alarm_at: int | None, stops: set[str], held: list[tuple[Instant, Instant]]
) -> Iterator[str]:
    name, is_due = command_name(segment), alarm_at is not None and alarm_at <= segment.at
    if name == "Wake" and any(since_at + UNDER_WAY < segment.at < until_at for since_at, until_at in held):
        yield f"{segment.stream} was woken at {segment.at} although it was held, version {segment.version}"
    if any(since_at <= segment.at <= until_at for since_at, until_at in held):
        return  # what is due waits for the end of the hold
    if name == "Wake" and not is_due:
        yield f"{segment.stream} was woken at {segment.at}, before its alarm ({alarm_at}), version {segment.version}"
    elif name and name != "Wake" and name not in stops and is_due:
        yield f"{segment.stream} decided {name} at {segment.at} though its alarm was due, version {segment.version}"


def _row_differs(world: World, stream: StreamId, decider: Any, state: Any) -> Iterator[str]:
    row, history = world.server.database.rows.get(stream), world.server.database.histories.get(stream, [])
    if row is None or not history:
        yield f"{stream} has {'a row but no history' if row else 'a history but no row'}"
        return
    index = Index() if state is None else decider.index(state)
    expected = {
        "version": len(history),
        "state": None if state is None else encode(state),
        "at": history[-1].at,
        "alarm_at": None if state is None else decider.alarm(state),
        "digest": history[-1].digest,
        **{name: getattr(index, name) for name in ("status", "owner", "due_at", "listed_at")},
    }
    actual = {name: getattr(row, name) for name in expected}
    if actual != expected:
        yield f"the row of {stream} is {actual}, its history gives {expected}"


def policies_are_kept(world: World) -> Iterator[str]:
    """Every policy a segment names is on record."""
    kept = world.server.database.policies
    for segment in world.server.database.segments:
        if segment.policy not in kept:
            yield f"{segment.handle} was decided under the policy {segment.policy}, which nobody kept"


def no_policy_is_older_than_the_last_committed(world: World) -> Iterator[str]:
    """Each segment names the policy that was in force when its transaction read it, or one set by the same commit."""
    book = PolicyBook(world.workload.sections)
    changes: dict[StreamId, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for segment in world.server.database.segments:
        read_to, committed_after = world.server.record.reads.get(segment.turn, (0, 0))
        streams = (DEPLOYMENT, tenant_stream(segment.stream.tenant))
        read = [[{}, *(body for seq, body in changes[stream] if seq <= read_to)][-1:] for stream in streams]
        own = [[body for seq, body in changes[stream] if seq > committed_after] for stream in streams]
        possible = product(*(before + new for before, new in zip(read, own, strict=True)))
        if segment.policy not in {book.effective(*layers).fingerprint for layers in possible}:
            yield f"{segment.handle} was decided under {segment.policy}, which was not in force"
        if segment.stream.kind == "tenant":
            bodies = (event["policy"] for event in events_of(segment) if event["type"] == "PolicySet")
            changes[segment.stream] += [(segment.seq, body) for body in bodies]


# -- answers


def each_key_is_used_once(world: World) -> Iterator[str]:
    """A key led to at most one segment, and is on record with it."""
    counts = Counter(segment.key for segment in world.server.database.segments if segment.key)
    yield from (f"the key {key} led to {count} segments" for key, count in counts.items() if count > 1)
    missing = counts.keys() - world.server.database.keys.keys()
    yield from (f"the key {key} was used and is not on record" for key in sorted(missing))


def answers_are_on_the_ledger(world: World) -> Iterator[str]:
    """What was acknowledged is on the ledger exactly once and says what was answered; what was refused is not."""
    settled = {command.__name__ for command in world.workload.settles}
    written: dict[str, list[Segment]] = defaultdict(list)
    for segment in world.server.database.segments:
        if not segment.cause and command_name(segment) not in ("", "Wake"):
            written[segment.correlation].append(segment)
    for attempt in world.attempts:
        asked = type(attempt.submission.command).__name__
        own = [
            segment
            for segment in written[attempt.submission.correlation]
            if asked in settled or command_name(segment) not in settled
        ]
        match attempt.outcome:
            case Recorded() as recorded:
                yield from _acknowledged(world, attempt.number, attempt.submission, recorded, own)
            case BetimesError() as error if not isinstance(error, Unknown) and own:
                yield f"a{attempt.number} was told {error!r} and wrote {own[0].handle} all the same"
        if len(own) > 1:
            yield f"a{attempt.number} was carried out {len(own)} times: {[segment.handle for segment in own]}"
    for recorded in world.swept:
        if world.server.database.segment(recorded.stream, recorded.version) is None:
            yield f"a sweep was answered {recorded.segment_id}, which is not on the ledger"


def _acknowledged(world: World, number: int, submission: Any, recorded: Recorded, own: list[Segment]) -> Iterator[str]:
    segment = world.server.database.segment(recorded.stream, recorded.version)
    if not own and not recorded.replayed and isinstance(submission.command, world.workload.may_write_nothing):
        return
    if segment is None:
        yield f"a{number} was answered {recorded.segment_id}, which is not on the ledger"
    elif recorded.replayed and (segment.key != Job(submission).key or own):
        yield f"a{number} was answered from {segment.handle}, which has another key, or wrote something itself"
    elif not recorded.replayed and own != [segment]:
        yield f"a{number} was answered {segment.handle}, which is not its own"
    elif (segment.at, segment.policy, segment.verdict, segment.reply) != _answered(recorded):
        yield f"a{number} was answered otherwise than {segment.handle} says"


def _answered(recorded: Recorded) -> tuple[Any, ...]:
    verdict = None if recorded.verdict is None else encode(recorded.verdict)
    reply = None if recorded.reply is None else encode(recorded.reply)
    return recorded.at, recorded.policy, verdict, reply


def commands_of_a_stream_keep_their_order(world: World) -> Iterator[str]:
    """Of the commands one worker accepted for one stream, an earlier one is on the ledger before a later one."""
    lanes: dict[tuple[str, StreamId], list[tuple[int, int]]] = defaultdict(list)
    for attempt in world.attempts:
        if isinstance(attempt.outcome, Recorded) and not attempt.outcome.replayed:
            lanes[attempt.worker, attempt.submission.stream].append((attempt.place, attempt.outcome.version))
    for (worker, stream), accepted in lanes.items():
        for (_, earlier), (_, later) in pairwise(sorted(accepted)):
            if later < earlier:
                yield f"{worker} accepted what became version {earlier} of {stream} before what became {later}"


# -- effects


def everything_owed_was_done(world: World) -> Iterator[str]:
    """Nothing is left pending or leased, no alarm is due, and nothing rests that should not."""
    database, now = world.server.database, world.now()
    for id, effect in database.effects.items():
        if effect.status in ("pending", "leased"):
            yield f"the effect {id.handle} is still {effect.status}"
    for row in database.rows.values():
        if row.alarm_at is not None and row.alarm_at <= now:
            yield f"the alarm of {row.stream} is still due"


def sends_are_applied_once_and_in_order(world: World) -> Iterator[str]:
    """Each command to another stream led to one segment of its target; those of one source in the order sent."""
    applied: dict[tuple[str, str], list[Segment]] = defaultdict(list)
    for segment in world.server.database.segments:
        applied[segment.stream.tenant, segment.cause].append(segment)
    lanes: dict[tuple[StreamId, StreamId], list[int]] = defaultdict(list)
    for id, effect in sorted(world.server.record.effects.items()):
        if effect.executor == SEND and effect.to:
            found = [s for s in applied[id.tenant, id.handle] if command_name(s) not in ("", "Wake")]
            if len(found) > 1:
                yield f"the command {id.handle} was applied {len(found)} times"
            lanes[id.source, effect.to] += [segment.version for segment in found]
    for (source, target), versions in lanes.items():
        if versions != sorted(versions):
            yield f"the commands of {source} reached {target} out of order: {versions}"


def calls_keep_their_promise(world: World) -> Iterator[str]:
    """At most once is never twice; at least once is once at least; a call that reports is reported exactly once."""
    made = defaultdict(list)
    for call in world.calls:
        made[call.call.id].append(call)
    told = Counter((s.stream.tenant, s.cause) for s in world.server.database.segments if command_name(s) == "Settled")
    for id, effect in world.server.record.effects.items():
        if effect.executor == SEND:
            continue
        starts, row = made.get(id, []), world.server.database.effects.get(id)
        if row is None:
            yield f"the call {id.handle} is gone"
        elif effect.executor not in world.workload.executors:
            pass  # the engine's own, which no test stands in for
        elif row.status == "done" and not any(start.end == "done" for start in starts):
            yield f"the call {id.handle} is done and nobody did it"
        elif row.status == "dead" and row.attempts < effect.attempts_max and "gave up" not in {s.end for s in starts}:
            yield f"the call {id.handle} is dead after {row.attempts} of {effect.attempts_max} attempts"
        if effect.at_most_once and len(starts) > 1:
            yield f"the call {id.handle} is for at most once and was started {len(starts)} times"
        if effect.to and told[id.tenant, id.handle] != 1:
            yield f"the end of {id.handle} was told {told[id.tenant, id.handle]} times"
    yield from (
        f"somebody called {id.handle}, which no commit asked for"
        for id in made
        if id not in world.server.record.effects
    )


def no_stale_fence_settles(world: World) -> Iterator[str]:
    """Only the newest lease of an effect can end it."""
    for ending in world.server.record.endings:
        if ending.fence != ending.newest_fence:
            yield f"{ending.effect.handle} was settled by lease {ending.fence}; the newest was {ending.newest_fence}"


# -- the guards and the workers


def locks_exclude(world: World) -> Iterator[str]:
    """Where no lock can be lost, nobody is refused by the comparison of versions, keys and sends."""
    yield from world.server.record.lock_failures


def workers_are_well(world: World) -> Iterator[str]:
    """No task of an engine ended by itself, and nobody reported what no fault explains."""
    for worker in world.workers:
        for task in worker.engine._tasks:
            if task.done() and not task.cancelled() and not worker.has_closed:
                yield f"a task of {worker.name} ended: {task.exception()!r}"
        for report in worker.reports:
            explained = isinstance(report.error, StoreError) or INJECTED in str(report.error)
            if not explained and report.what not in EXPECTED_REPORTS:
                yield f"{worker.name} reported {report.what}: {report.name}: {report.error}"
    for failure in world.loop.failures:
        yield f"nobody saw {failure.get('exception')!r}: {failure.get('message')}"


INVARIANTS: tuple[Invariant, ...] = (
    the_ledger_is_whole,
    replaying_gives_every_row,
    policies_are_kept,
    no_policy_is_older_than_the_last_committed,
    each_key_is_used_once,
    answers_are_on_the_ledger,
    commands_of_a_stream_keep_their_order,
    everything_owed_was_done,
    sends_are_applied_once_and_in_order,
    calls_keep_their_promise,
    no_stale_fence_settles,
    locks_exclude,
    workers_are_well,
)
