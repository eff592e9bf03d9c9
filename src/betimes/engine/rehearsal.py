"""A rehearsal: the engine's working set as a world of its own, where nothing is ever committed.

It has one batch that does not end. The `Batch` decides every command as it would for a store: alarms first, keys,
needs, streams that decisions make; its decisions are handed to the rehearsal, which keeps streams as they are now,
never their history; no text is made, since nobody will read it. Time is what it is told. Alarms ring when they are
due, in the order the engine rings them; commands to other streams follow their cause; calls are handed to whoever
rehearses, who says how they end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Call, Command, Decider, Decision, Event, Send
from betimes.core.errors import BetimesError
from betimes.core.instants import MINUTE, SECOND, Instant, earliest
from betimes.core.policies import Policy, PolicyBook
from betimes.core.segments import GENESIS, Recorded
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.batch import Batch, StreamExists
from betimes.engine.codecs import Cached, Kinds
from betimes.engine.held_work import HeldWork, SentCommand
from betimes.engine.jobs import WAKE, Job, Submission, correlation_of, note_streams
from betimes.engine.memo import DecisionMemo, MemoTable, Move, WatchedPolicy
from betimes.engine.memory_transaction import DueList, EndlessTx, EveryStream
from betimes.engine.policies import PoliciesInForce
from betimes.engine.settings import EngineSettings
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.engine.turn import LoadedStream, OtherEvents, Turn, fold_events

REQUEST = "rehearsed"
"""The request of every keyed command here. None is compared: where two did not agree, nothing was recorded."""
WAKES_AT_ONCE = 256
"""Streams due at one instant that are woken before what they sent is applied, like a batch of the engine."""
HELD_MAX = 1_000
SNOOZE = MINUTE


class RehearsedStep(msgspec.Struct, frozen=True, gc=False):
    """One command's outcome on its stream, as a segment would have recorded it."""

    stream: StreamId
    command: Command
    events: tuple[Event, ...]
    recorded: Recorded
    key: KeyId | None
    job: Job
    also: tuple[tuple[StreamId, int, tuple[Event, ...]], ...] = ()
    """Other streams it wrote: the stream, its new version, its events."""


class Rehearsal:
    """A world in memory. `told` hears of every step; `call` of every call, and says what follows from it at once."""

    def __init__(
        self,
        kinds: Kinds,
        book: PolicyBook,
        settings: EngineSettings,
        *,
        told: Callable[[RehearsedStep], None],
        call: Callable[[EffectId, Call, Instant], Iterable[Job]],
        first: Callable[[StreamId], None] = lambda stream: None,
        is_late: Callable[[StreamId, Instant], bool] = lambda stream, at: False,
        is_outside: Callable[[StreamId], bool] = lambda stream: False,
        is_recorded: Callable[[EffectId, int], bool] = lambda id, waited: False,
        swept: frozenset[str] = frozenset(),
        policy: Policy | None = None,
        teaches: MemoTable | None = None,
        learns: MemoTable | None = None,
    ) -> None:
        """`first` is told of every stream that is looked at; `swept`: kinds that `due` lists.

        An alarm that `is_late` waits for `ring` or `release`; what was held and `is_recorded` for `deliver`. What is
        sent to a stream that `is_outside` goes nowhere.
        With a `policy`, everything is decided by that one, whatever the streams of tenants say.
        """
        self._kinds, self._settings, self._policy = kinds, settings, policy
        self._given, self._moment = EveryStream(first), EndlessTx()
        policies = PoliciesInForce(book)
        self._batch = Batch(
            self._moment, kinds=kinds, cache=self._given, policies=policies, settings=settings, writer=self
        )
        self.held = HeldWork(self._batch, is_recorded)
        self._teaches = teaches
        self._learns = learns
        self._memo: DecisionMemo | None = None
        self._told = told
        self._is_late, self._is_outside = is_late, is_outside
        self._late: set[StreamId] = set()
        self._call = call
        self._alarms: list[tuple[Instant, StreamId]] = []
        self.due = DueList(swept, self._find)
        self._outbox: list[SentCommand] = []
        self._ends: deque[Job] = deque()
        self._expiring: list[tuple[Instant, KeyId]] = []
        self.failures: dict[str, int] = {}
        """Commands from within that could not be decided, by the error's code."""

    @property
    def now(self) -> Instant:
        return self._moment.now

    # -- streams

    def put(self, stream: StreamId, version: int, state: Any, at: Instant) -> None:
        """A stream as it is when the rehearsal begins, or as it shall be from here on."""
        decider = self._kinds.of(stream).decider
        alarm_at = None if state is None else decider.alarm(state)
        self._batch.forget_stream(stream)
        self._given.put(stream, Cached(version, state, at, alarm_at, GENESIS, 0))
        if alarm_at is not None:
            heappush(self._alarms, (alarm_at, stream))
        self._list(stream, decider, state)

    def remember(self, key: KeyId, recorded: Recorded) -> None:
        """A key that was used before the rehearsal began; what was promised then is taken from the verdict."""
        self._batch.answers[key] = (REQUEST, recorded)
        self._keep(key, recorded.at, recorded.verdict.until if recorded.verdict else None)

    def state(self, stream: StreamId) -> Any:
        return self._find(stream).state

    def version(self, stream: StreamId) -> int:
        """Return the version of a stream that was looked at; 0 of one that was not."""
        live = self._batch.loaded.get(stream)
        return live.version if live else 0

    def policy(self, tenant: str) -> Policy | None:
        return self._policy or self._batch.policy(tenant)

    def _find(self, stream: StreamId) -> LoadedStream:
        live = self._batch.loaded.get(stream) or self._batch.find_stream(stream)
        assert live  # every stream there is is here
        return live

    # -- time

    def begin_at(self, at: Instant) -> None:
        """Let it be this instant; what is due already rings with the first step on."""
        self._moment.now = at
        self.held.pass_time(at)

    def _next_alarm_at(self, until_at: Instant) -> Instant | None:
        """Return when the next alarm rings by itself, if by this instant; a later one is not looked at yet."""
        while self._alarms and self._alarms[0][0] <= until_at:
            at, stream = self._alarms[0]
            alarm_at = self.alarm_at(stream)
            # The entry of an alarm that moved stays in the heap; it counts only if the stream still rings by then.
            if alarm_at is not None and alarm_at <= at:
                if self._is_late(stream, alarm_at):
                    self._late.add(stream)
                elif not self.held.keep_alarm(stream):
                    return at
            heappop(self._alarms)
        return None

    def alarm_at(self, stream: StreamId) -> Instant | None:
        return self._find(stream).alarm_at

    def rings_at(self, stream: StreamId) -> Instant | None:
        """Return when the alarm of a stream can ring: not before its hold has ended."""
        alarm_at = self.alarm_at(stream)
        return None if alarm_at is None else max(alarm_at, self.held.until_at(stream))

    def release(self, stream: StreamId) -> None:
        """Nobody will ring a late alarm any more: it rings by itself."""
        if stream in self._late:
            self._late.remove(stream)
            self._expect_alarm(stream)

    def _expect_alarm(self, stream: StreamId) -> None:
        """Let the alarm of a stream, as it is now, ring by itself again."""
        if (at := self.alarm_at(stream)) is not None:
            heappush(self._alarms, (at, stream))

    def ring(self, stream: StreamId) -> None:
        """Ring the alarm of a stream now, if it is due."""
        self._late.discard(stream)
        if (at := self.alarm_at(stream)) is not None:
            self._wake_up(stream, at)

    def advance_to(self, at: Instant) -> None:
        """Ring everything that is due on the way and not late, in order, and apply what it sends."""
        while (next_at := earliest(self._next_alarm_at(at), self.held.next_look_at(at))) is not None:
            self.begin_at(max(self.now, next_at))
            self._let_go()
            self._ring_together()
            self.settle_down()
        if at > self._moment.now:
            self.begin_at(at)
            self._forget_keys()

    def _let_go(self) -> None:
        """Let what was held be due, if its hold has ended."""
        for stream, work in self.held.take_free(self.now):
            self._ends.extend(self._job_of_send(*sent) for sent in work.sends.values())
            self._ends.extend(work.ends)
            if work.rings:
                self._expect_alarm(stream)

    def _ring_together(self) -> None:
        woken: dict[StreamId, Instant] = {}
        while len(woken) < WAKES_AT_ONCE and (at := self._next_alarm_at(self._moment.now)) is not None:
            woken[heappop(self._alarms)[1]] = at
        for stream, at in woken.items():
            self._wake_up(stream, at)

    def _wake_up(self, stream: StreamId, at: Instant) -> None:
        try:
            self.decide(Job(Submission(stream=stream, command=WAKE)))
        except BetimesError as error:
            self._count_failure(error)
            heappush(self._alarms, (self._moment.now + SNOOZE, stream))
        else:
            if self.alarm_at(stream) == at:  # it has more to do at the same instant
                heappush(self._alarms, (at, stream))

    def _forget_keys(self) -> None:
        while self._expiring and self._expiring[0][0] <= self._moment.now:
            self._batch.answers.pop(heappop(self._expiring)[1], None)

    def _keep(self, key: KeyId, at: Instant, promised_at: Instant | None) -> None:
        """Remember a key as long as the engine does."""
        heappush(self._expiring, (max(at, promised_at or 0) + self._settings.key_retention_s * SECOND, key))

    # -- commands

    def decide(self, job: Job) -> Recorded:
        """Decide a command now; raise the error its caller would get. Its sends wait until `settle_down`."""
        for _ in range(HELD_MAX):
            recorded = self._take(job)
            if recorded is not None:
                return recorded
            self._batch.forget_held()
        raise BetimesError(f"{job.name} stayed locked at every attempt")

    def settle_down(self) -> None:
        """Apply all that was sent and all that follows from it."""
        while self._outbox or self._ends:
            self.settle_once()

    def settle_once(self) -> bool:
        """Apply what was sent so far in one batch, as the engine does, else what calls led to; was there any?"""
        sent = [one for one in sorted(self._outbox, key=attrgetter("id")) if not self.held.keep_send(one)]
        self._outbox.clear()
        jobs = [self._job_of_send(*one) for one in sent] or [*self._ends]
        if not sent:
            # Ends of calls wait while there are sends, which the engine applies first.
            self._ends.clear()
        for job in jobs:
            self._try(job)
        return bool(jobs)

    def deliver(self, id: EffectId, *, with_earlier: bool) -> None:
        """Apply a send that was held, after those its source made before it if asked for."""
        for sent in self.held.take_send(id, with_earlier=with_earlier):
            self._try(self._job_of_send(*sent))

    def _try(self, job: Job) -> None:
        try:
            self.decide(job)
        except BetimesError as error:
            self._count_failure(error)

    def _job_of_send(self, id: EffectId, send: Send, correlation: str) -> Job:
        """The command as its target reads it."""
        command = self._kinds.of(send.to).command(encode(send.command), id)
        collection, key = send.collection, send.key
        asked = Submission(
            stream=send.to, command=command, key=key, collection=collection, request=REQUEST, correlation=correlation
        )
        return Job(asked, cause=id.handle)

    def _count_failure(self, error: BetimesError) -> None:
        self.failures[error.code] = self.failures.get(error.code, 0) + 1

    # -- deciding

    def _take(self, job: Job) -> Recorded | None:
        """Decide a job, or follow the world that teaches; what is new, and no policy, is noted for those who learn."""
        assert job.stream is not None
        if job.key in self._batch.answers or job.stream.kind == DEPLOYMENT.kind:
            return self._batch.take(job, "", self._policy)
        if self._learns and (recorded := self._follow_memo(self._learns, job, job.stream)):
            return recorded
        if self._teaches:
            return self._take_and_note(self._teaches, job, job.stream)
        return self._batch.take(job, "", self._policy)

    def _take_and_note(self, table: MemoTable, job: Job, stream: StreamId) -> Recorded | None:
        """Decide a job and note all that mattered: the streams it may see, and the sections that were looked at."""
        policy = self.policy(stream.tenant)
        assert policy is not None
        watched = WatchedPolicy(policy)
        self._memo = memo = DecisionMemo(watched, self._moment.now)
        note_streams(self._kinds, job, watched)
        version = self._find(stream).version
        for name in (*job.streams, *job.reads):
            memo.saw(self._find(name))
        try:
            recorded = self._batch.take(job, "", watched)
        finally:
            self._memo = None
        if recorded:
            table.note(job, version, memo, recorded)
        return recorded

    def _follow_memo(self, table: MemoTable, job: Job, stream: StreamId) -> Recorded | None:
        """Do as the other world did, and record the same, if all that mattered to it is the very same here."""
        memo = table.find(stream, self._find(stream).version)
        if memo is None or memo.at != self._moment.now:
            return None
        if memo.key != job.key or memo.command != job.submission.command:
            return None
        policy = self.policy(stream.tenant)
        if policy is None or not memo.is_here(self._find) or not table.is_the_same_by(memo, policy):
            return None
        assert memo.recorded
        for move in memo.moves:
            self._carry_out(move, job)
            if move.key:
                self._batch.answers[move.key] = (REQUEST, move.recorded)
        return memo.recorded

    # -- what a decision leaves

    def write(
        self, turn: Turn, own: LoadedStream, command: Command, key: KeyId | None, decision: Decision, also: OtherEvents
    ) -> Recorded:
        """Take a decision of the batch: advance its streams, and let what follows from it wait."""
        for live in also:
            if live.created and live.stream in self._given:  # it was put here and nobody has looked at it yet
                self._batch.forget_stream(live.stream)
                raise StreamExists(live.stream)
        after = (_state_after(own, decision.events), *(_state_after(live, events) for live, events in also.items()))
        now, policy = turn.now, turn.policy.fingerprint
        recorded = Recorded(own.stream, own.version + 1, now, policy, decision.verdict, decision.reply)
        move = Move(own.stream, command, key, decision, recorded, after)
        if self._memo:
            for live in also:
                self._memo.saw(live)
            self._memo.moves.append(move)
        self._carry_out(move, turn.job)
        return recorded

    def _carry_out(self, move: Move, job: Job) -> None:
        """Put what a decision leaves into this world: states, alarms, its key, and what it sent and called."""
        stream, command, key, decision, recorded, after = move
        now = recorded.at
        for written, state, alarm_at in after:
            self._advance(self._batch.loaded[written], state, alarm_at, now)
        also = tuple((name, self._batch.loaded[name].version, events) for name, events in decision.also.items())
        if key:
            self._keep(key, now, decision.promised_at)
        self._told(RehearsedStep(stream, command, decision.events, recorded, key, job, also))
        for place, effect in enumerate(decision.effects):
            id = EffectId(*stream, recorded.version, place)
            if isinstance(effect, Send):
                if not self._is_outside(effect.to):
                    correlation = correlation_of(job.submission.correlation, effect.key)
                    self._outbox.append(SentCommand(id, effect, correlation))
            elif (ends := self._call(id, effect, now)) and not self.held.keep_ends(stream, ends):
                self._ends.extend(ends)

    def _advance(self, live: LoadedStream, state: Any, alarm_at: Instant | None, now: Instant) -> None:
        stream = live.stream
        live.state, live.at = state, now
        live.version += 1
        # As if it were committed: nothing of a rehearsal is left to be written.
        live.base = live.version
        if alarm_at is not None and alarm_at != live.alarm_at:
            heappush(self._alarms, (alarm_at, stream))
        live.alarm_at = alarm_at
        self._list(stream, live.decider, state)

    def _list(self, stream: StreamId, decider: Decider[Any], state: Any) -> None:
        """Note what others ask of a state: when it is due for a sweep, and what a tenant holds."""
        if state is not None and stream.kind in self.due:
            self.due.put(stream, decider.index(state).due_at)
        elif stream.kind == DEPLOYMENT.kind:
            self.held.note_tenant(stream.tenant, state, self.now)


def _state_after(live: LoadedStream, events: tuple[Event, ...]) -> tuple[StreamId, Any, Instant | None]:
    state = fold_events(live.decider, live.state, events)
    return live.stream, state, None if state is None else live.decider.alarm(state)
