"""One turn: ring what is due, decide, fold, and hand what was decided to whoever writes it.

    ring what is due ─► decide ─► fold ─► encode and chain ─► index
                                  └────── `turn_rows` ──────────┘

This is the only walk of a command through the engine. A batch takes it for a store, a sweep's too; a rehearsal in
memory. Each is a `TurnSite`: it knows the streams and says who writes a decision. Whoever reads history folds it
with `fold_events`.

**Alarm first.** A command that finds its stream's alarm due is preceded by the `Wake` in the same turn, so no outcome
depends on how late the alarm loop is. Commands that stop the stream are not: what is owed then is theirs to record.
Nor are those of a stream that is held, which rings when the hold has ended.

It is the hottest path of the engine: names for error messages are made only when there is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from betimes.core.deciders import Command, Decider, Decision, Event, Index, Refusal, View, Wake
from betimes.core.errors import BetimesError, Fault, Refused, WakeFailed
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import GENESIS, Recorded, Segment
from betimes.core.streams import KeyId, StreamId
from betimes.engine.codecs import ENTRY_CHARS, Cached, Kind
from betimes.engine.holds import TenantHold
from betimes.engine.jobs import WAKE, Job, Submission
from betimes.engine.store import StreamWrite

_NO_INDEX = Index()
INSTANT_TYPES = (int, type(None))
_DECISIONS = (Decision, Refusal)


class Turn(msgspec.Struct, frozen=True, gc=False):
    """The values that all segments of one turn share."""

    id: str
    now: Instant
    policy: Policy
    job: Job
    asked: Submission
    hold: TenantHold | None = None
    """Of the tenant, if it has or lately had one."""


class LoadedStream:
    """A stream in the working set: as it was locked (`base`), and as the batch has left it so far."""

    __slots__ = (
        "alarm_at",
        "at",
        "base",
        "chars",
        "created",
        "decider",
        "digest",
        "entry",
        "index",
        "kind",
        "state",
        "stream",
        "text",
        "version",
    )

    def __init__(self, stream: StreamId, kind: Kind, entry: Cached) -> None:
        self.stream = stream
        self.kind = kind
        self.entry = entry
        self.decider = kind.decider
        self.base = self.version = entry.version
        self.state, self.at, self.alarm_at = entry.state, entry.at, entry.alarm_at
        self.digest, self.chars = entry.digest, entry.chars
        self.text: str | None = None
        self.index = _NO_INDEX
        self.created = False

    @classmethod
    def new(cls, stream: StreamId, kind: Kind) -> LoadedStream:
        """A stream that a decision creates without having requested it."""
        live = cls(stream, kind, Cached(0, None, 0, None, GENESIS, 0))
        live.created = True
        return live

    def cache_entry(self) -> Cached:
        # Nothing was written, so the entry in the cache is still the stream.
        if self.version == self.base:
            return self.entry
        return Cached(self.version, self.state, self.at, self.alarm_at, self.digest, self.chars)

    def row(self) -> StreamWrite:
        index = self.index
        return StreamWrite(
            self.stream,
            self.base,
            self.version,
            self.decider.schema,
            self.text,
            self.at,
            self.alarm_at,
            self.digest,
            index.status,
            index.owner,
            index.due_at,
            index.listed_at,
        )

    def advance(self, after: StreamUpdate) -> None:
        self.state, self.text, self.alarm_at, self.index = after.state, after.text, after.alarm_at, after.listed
        segment = after.segment
        self.version, self.at, self.digest = segment.version, segment.at, segment.digest
        self.chars = ENTRY_CHARS + len(self.text or "")


class StreamUpdate(msgspec.Struct, frozen=True, gc=False):
    """A stream after a decision, not yet put in place."""

    state: Any
    text: str | None
    alarm_at: Instant | None
    listed: Index
    segment: Segment


OtherEvents: TypeAlias = Mapping[LoadedStream, tuple[Event, ...]]
"""The events that a decision has for other streams than its own."""


class DecisionSink(Protocol):
    """A taker of decisions: it folds their events and keeps what follows."""

    def write(
        self, turn: Turn, own: LoadedStream, command: Command, key: KeyId | None, decision: Decision, also: OtherEvents
    ) -> Recorded:
        """Advance the streams of a decision and return what is recorded of it."""


class TurnSite(Protocol):
    """Where turns take place: it knows the streams, and says who takes a decision."""

    @property
    def writer(self) -> DecisionSink: ...

    def view_others(self, turn: Turn, loaded: list[LoadedStream]) -> Mapping[StreamId, Any]:
        """Return the states a decision may see besides its own: those it holds, and those it only looks at."""

    def find_other(self, stream: StreamId, loaded: list[LoadedStream]) -> LoadedStream:
        """Return another stream that the decision writes: one it requested, or a new one it creates."""

    def keep_answer(self, turn: Turn, own: LoadedStream, key: KeyId | None, recorded: Recorded) -> None:
        """Remember what was recorded, for repeats of the key in the same batch."""


def turn_instant(now: Instant, loaded: list[LoadedStream]) -> Instant:
    """Return the instant of a turn: the store's time, or the last instant of a stream it holds if that is later."""
    return max(now, max(live.at for live in loaded)) if len(loaded) > 1 else max(now, loaded[0].at)


def take_turn(
    site: TurnSite, turn: Turn, loaded: list[LoadedStream], command: Command, key: KeyId | None, wakes_max: int
) -> Recorded | None:
    """Ring what is due, then decide the command; `None` if more is due than one turn may ring.

    The command's own stream is the first of those loaded.
    """
    own = loaded[0]
    # A hold comes before alarms: what is due under it rings after its end, each in its order.
    if turn.hold is not None and own.stream.kind in turn.hold.kinds:
        return take_held_turn(site, turn, turn.hold, loaded, command, key)
    if command.__class__ is Wake:
        return wake_stream(site, turn, loaded)
    rings = own.alarm_at is not None and not isinstance(command, own.decider.stops)
    # A command that stops the stream records what is owed itself, so nothing is rung before it.
    if rings and not ring_due(site, turn, loaded, wakes_max):
        return None
    return step(site, turn, loaded, command, key)


def take_held_turn(
    site: TurnSite, turn: Turn, hold: TenantHold, loaded: list[LoadedStream], command: Command, key: KeyId | None
) -> Recorded:
    """Decide a command of a stream that must not fire: ring nothing and hand nothing out; what was asked is decided."""
    own = loaded[0]
    if command.__class__ is Wake:
        return Recorded(own.stream, own.version, own.at, turn.policy.fingerprint)
    if isinstance(command, own.decider.claims):
        raise Refused(
            "HELD", f"{own.stream.kind} {own.stream.id!r} is {hold.describe()}; nothing can be claimed until it ends"
        )
    return step(site, turn, loaded, command, key)


def ring_due(site: TurnSite, turn: Turn, loaded: list[LoadedStream], wakes_max: int) -> bool:
    """Ring what is due ahead of a command; return `False` if there is more than one turn may do."""
    own = loaded[0]
    # Bounded, since a stream may be hours behind and its neighbours in the batch wait.
    for _ in range(wakes_max):
        if own.alarm_at is None or own.alarm_at > turn.now:
            return True
        try:
            wake_stream(site, turn, loaded)
        except BetimesError as error:
            raise WakeFailed(f"{turn.job.name} is waiting behind an alarm whose wake fails: {error}") from error
    return False


def wake_stream(site: TurnSite, turn: Turn, loaded: list[LoadedStream]) -> Recorded:
    """Ring a stream's alarm, if it is due; raise `Fault` if that changes nothing."""
    own = loaded[0]
    if own.alarm_at is None or own.alarm_at > turn.now:
        return Recorded(own.stream, own.version, own.at, turn.policy.fingerprint)
    before = own.version
    # A decider that judges lateness must not blame the stream for the time it was held.
    held_until_at = turn.hold.released.get(own.stream.kind, 0) if turn.hold else 0
    wake = Wake(held_until_at) if own.alarm_at < held_until_at else WAKE
    recorded = step(site, turn, loaded, wake, None)
    if own.version == before:
        raise Fault(f"the alarm of {own.stream} is due and its wake wrote nothing, so it would ring for ever")
    return recorded


def step(site: TurnSite, turn: Turn, loaded: list[LoadedStream], command: Command, key: KeyId | None) -> Recorded:
    """Decide one command and write what was decided; raise `Refused` if it is refused."""
    own = loaded[0]
    others = site.view_others(turn, loaded)
    view = View(own.stream, own.state, own.version, others, key.key if key else None, turn.asked.correlation)
    decision = decide_command(own, view, command, turn)
    if isinstance(decision, Refusal):
        if decision.settles is not None:
            # It was owed anyway, so it is written although the command is refused.
            step(site, turn, loaded, decision.settles, None)
        raise Refused(decision.reason, decision.message)
    if not decision.events and not uses_up_key(key, turn, own, decision):
        policy = turn.policy.fingerprint
        return Recorded(own.stream, own.version, turn.now, policy, decision.verdict, decision.reply)
    # All other streams are found before anything is written, since finding one may hand the command back.
    also = {site.find_other(name, loaded): events for name, events in decision.also.items()} if decision.also else {}
    recorded = site.writer.write(turn, own, command, key, decision, also)
    site.keep_answer(turn, own, key, recorded)
    return recorded


def uses_up_key(key: KeyId | None, turn: Turn, own: LoadedStream, decision: Decision) -> bool:
    """Return whether a decision without events is written all the same: a segment without events keeps its answer.

    A caller who asks again under the key must be told the same, whatever became of the stream meanwhile. A command with
    a cause is applied exactly once by its effect; nobody asks again. An invalid one may be asked again, put right.
    """
    if decision.also or decision.effects:
        raise Fault(f"a decision for {own.stream} has effects or other streams' events but no event of its own")
    return key is not None and not turn.job.cause and not decision.is_invalid


def decide_command(own: LoadedStream, view: View[Any], command: Command, turn: Turn) -> Decision | Refusal:
    """Return what the decider makes of a command; raise `Fault` if it fails or answers something else."""
    try:
        decision = own.decider.decide(view, command, turn.policy, turn.now)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"deciding {type(command).__name__} for {own.stream} failed: {error!r}") from error
    if isinstance(decision, _DECISIONS):
        return decision
    raise Fault(f"deciding {type(command).__name__} for {own.stream} gave {decision!r}, not a Decision or a Refusal")


def fold_events(decider: Decider[Any], state: Any, events: Iterable[Event]) -> Any:
    """Return the state after events."""
    for event in events:
        state = decider.fold(state, event)
    return state


def fold_stream(
    kind: Kind, stream: StreamId, state: Any, events: tuple[Event, ...]
) -> tuple[Any, Instant | None, Index]:
    """Return the state after events, its alarm and its index; raise `Fault` for what could not be read again."""
    decider = kind.decider
    try:
        for event in events:
            # One of a class that is not declared would be written, and never decoded again.
            if event.__class__ not in kind.event_classes:
                raise Fault(f"a decision for {stream} has the event {event!r}; its decider's `events` do not name it")
            state = decider.fold(state, event)
        if state is None:
            return None, None, _NO_INDEX
        alarm_at, listed = decider.alarm(state), decider.index(state)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"folding {stream} failed: {error!r}") from error
    # By class, because `True` is an `int` too.
    if alarm_at.__class__ not in INSTANT_TYPES or listed.due_at.__class__ not in INSTANT_TYPES:
        raise Fault(f"the alarm {alarm_at!r} or due_at {listed.due_at!r} of {stream} is not an instant: an int or None")
    return state, alarm_at, listed
