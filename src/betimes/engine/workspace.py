"""One batch in memory: the streams it locked, the turns decided on them, and everything they will write.

A workspace does no I/O. It is filled from a transaction's rows and the cache, takes jobs one after the other, each
seeing what the ones before it decided, and ends as `changes` for one commit. A job that fails leaves nothing behind
except alarms that were rung ahead of it, which were due anyway.

**Alarm first.** A command that finds its stream's alarm due is preceded by the `Wake` in the same turn, so no outcome
depends on how late the alarm loop is. Commands that stop the stream are not: what is owed then is theirs to record.

**Held.** A job whose streams are not all here, because somebody else holds one or because the policy in force asks
for more than was locked, is handed back, and so is every later job that shares a stream with it: commands of one
stream keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from betimes.core.deciders import Command, Decision, Refusal, View, Wake
from betimes.core.errors import BetimesError, Fault, KeyConflict, NewerVersion, Refused, UnknownKind
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import KeyId, StreamId
from betimes.domains.tenant.model import DEPLOYMENT, tenant_stream
from betimes.engine.cache import Cached, StateCache
from betimes.engine.jobs import WAKE, Job
from betimes.engine.kinds import Kinds
from betimes.engine.policies import PoliciesInForce
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Changes, DeadSend, Tx
from betimes.engine.writing import ENTRY_CHARS, Live, Turn, write

HELD: Final = None


class Workspace:
    """The working set of one batch."""

    def __init__(
        self, tx: Tx, *, kinds: Kinds, cache: StateCache, policies: PoliciesInForce, settings: EngineSettings
    ) -> None:
        self._tx = tx
        self._kinds = kinds
        self._cache = cache
        self._policies = policies
        self._settings = settings
        self._lives: dict[StreamId, Live] = {}
        self._blocked: set[StreamId] = set()
        self._blocked_sources: set[StreamId] = set()
        self._used: dict[KeyId, tuple[str, Recorded]] = {}
        self.changes = Changes()
        self._policies_used: dict[str, Policy] = {}
        self.unsaved: dict[str, Policy] = {}
        """Policies in force that the store does not keep yet; nothing is decided under them before it does."""

    def take(self, job: Job, turn_id: str) -> Recorded | None:
        """Decide a job. `HELD` if it must wait for another batch; raises what its caller should be told."""
        if job.stream is None:
            return self._settle_only(job)
        streams = self._streams_of(job, job.stream)
        if streams is HELD or not self._ready(streams) or not self._sendable(job):
            self._block(job)
            return HELD
        first = self._seen(job)
        if first is None:
            recorded = self._turn(job, streams, job.command, turn_id, job.key)
        else:
            recorded = self._repeat(job, streams, first, turn_id)
        if recorded is not HELD:
            self._finish(job)
        return recorded

    def give_up(self, job: Job, error: BetimesError) -> None:
        """What a job that failed leaves behind, so that it does not come back for ever.

        A send that was refused is done with; one its target could not decide is a dead letter; one that this process
        does not know how to decide is left for another. An effect that ended has ended, even if its stream could not
        be told.
        """
        if job.send is None or isinstance(error, Refused):
            self._finish(job)
        elif job.send in self._tx.sends and not isinstance(error, UnknownKind | NewerVersion):
            self.changes.sends_dead.append(DeadSend(job.send, self._tx.now, str(error)))

    def _finish(self, job: Job) -> None:
        if job.send:
            self.changes.sends_applied.append(job.send)
        if job.ended:
            self.changes.settlements.append(job.ended.settlement(self._tx.now))

    def keep(self) -> None:
        """After the commit: remember the states as they are now."""
        for stream, live in self._lives.items():
            self._cache.put(stream, live.cached())

    def first_alarm_at(self) -> Instant | None:
        return min((write.alarm_at for write in self.changes.streams if write.alarm_at is not None), default=None)

    def created(self) -> tuple[StreamId, ...]:
        """Streams written without having been locked."""
        return tuple(stream for stream, live in self._lives.items() if live.created)

    def seal(self) -> bool:
        """Put one row per stream that moved into the changes; whether there is anything to commit."""
        changes = self.changes
        changes.streams = [live.row() for live in self._lives.values() if live.version != live.base]
        return bool(changes.streams or changes.sends_applied or changes.sends_dead or changes.settlements)

    # -- what a job needs

    def _streams_of(self, job: Job, stream: StreamId) -> tuple[StreamId, ...] | None:
        policy = self._policy(stream.tenant)
        return HELD if policy is None else streams_of(self._kinds, job, stream, policy)

    def _policy(self, tenant: str) -> Policy | None:
        known = self._policies_used.get(tenant)
        if known is None:
            deployment, own = self._live(DEPLOYMENT), self._live(tenant_stream(tenant))
            if deployment is None or own is None:
                return None
            known = self._policies.effective(tenant, deployment.state, own.state)
            if not self._policies.is_saved(known):
                self.unsaved[known.fingerprint] = known
                return None
            self._policies_used[tenant] = known
        return known

    def _ready(self, streams: Iterable[StreamId]) -> bool:
        return all(stream not in self._blocked and self._live(stream) is not None for stream in streams)

    def _sendable(self, job: Job) -> bool:
        return job.send is None or (job.send in self._tx.sends and job.send.source not in self._blocked_sources)

    def _block(self, job: Job) -> None:
        if job.stream:
            self._blocked.add(job.stream)
        if job.send:
            self._blocked_sources.add(job.send.source)

    def _live(self, stream: StreamId) -> Live | None:
        live = self._lives.get(stream)
        if live is None:
            live = self._loaded(stream)
            if live:
                self._lives[stream] = live
        return live

    def _loaded(self, stream: StreamId) -> Live | None:
        kind = self._kinds.of(stream)
        if stream in self._tx.unchanged:
            entry = self._cache.get(stream)
            return Live(stream, kind, entry) if entry else None
        row = self._tx.rows.get(stream)
        if row is None:
            return None
        state = kind.state(stream, row.schema, row.state)
        chars = ENTRY_CHARS + len(row.state or "")
        return Live(stream, kind, Cached(row.version, state, row.at, row.alarm_at, row.digest, chars))

    # -- keys

    def _seen(self, job: Job) -> Recorded | None:
        if job.key is None:
            return None
        request, first = self._used.get(job.key) or self._seen_before(job.key)
        if first is not None and request != job.request:
            raise KeyConflict(
                f"the key {job.key.key!r} was used for another request in {job.key.collection!r}, recorded as "
                f"{first.segment_id}; send the new request under a key of its own"
            )
        return first

    def _seen_before(self, key: KeyId) -> tuple[str, Recorded | None]:
        seen = self._tx.seen.get(key)
        if seen is None:
            return "", None
        return seen.request, self._kinds.of(seen.segment.stream).recorded(seen.segment)

    def _repeat(self, job: Job, streams: tuple[StreamId, ...], first: Recorded, turn_id: str) -> Recorded | None:
        """A key that was seen: answered from the record, or by what the decider makes of the repetition."""
        assert job.stream is not None
        repeated = self._kinds.of(job.stream).decider.repeated
        if repeated is None:
            return first
        try:
            command = repeated(job.command, first)
        except Exception as error:
            raise Fault(f"repeating {job.name} failed: {error!r}") from error
        return self._turn(job, streams, command, turn_id, None)

    # -- turns

    def _turn(
        self, job: Job, streams: tuple[StreamId, ...], command: Command, turn_id: str, key: KeyId | None
    ) -> Recorded | None:
        lives = {stream: self._lives[stream] for stream in streams}
        own = self._lives[streams[0]]
        now = max(self._tx.now, *(live.at for live in lives.values()))
        turn = Turn(turn_id, now, self._policies_used[own.stream.tenant], job)
        if isinstance(command, Wake):
            return self._wake(turn, own, lives)
        if not isinstance(command, own.kind.decider.stops) and not self._ring(turn, own, lives):
            self._block(job)
            return HELD
        return self._step(turn, own, lives, command, key)

    def _ring(self, turn: Turn, own: Live, lives: dict[StreamId, Live]) -> bool:
        """Ring what is due ahead of a command; `False` if there is more than one turn may do."""
        for _ in range(self._settings.wakes_before_command_max):
            if own.alarm_at is None or own.alarm_at > turn.now:
                return True
            self._wake(turn, own, lives)
        return False

    def _wake(self, turn: Turn, own: Live, lives: dict[StreamId, Live]) -> Recorded:
        if own.alarm_at is None or own.alarm_at > turn.now:
            return Recorded(own.stream, own.version, own.at, turn.policy.fingerprint)
        before = own.version
        recorded = self._step(turn, own, lives, WAKE, None)
        if own.version == before:
            raise Fault(f"the alarm of {own.stream} is due and its wake wrote nothing; it would ring for ever")
        return recorded

    def _step(
        self, turn: Turn, own: Live, lives: dict[StreamId, Live], command: Command, key: KeyId | None
    ) -> Recorded:
        others = {stream: live.state for stream, live in lives.items() if live is not own}
        view = View(own.stream, own.state, own.version, others, key.key if key else None)
        decision = _decide(own, view, command, turn)
        if not decision.events:
            return _unwritten(own, turn, decision)
        touched = [(own, decision.events), *((self._other(s, lives), e) for s, e in decision.also.items())]
        recorded = write(self.changes, turn, touched, command, key, decision, self._settings)
        if key:
            self._used[key] = (turn.job.request, replace(recorded, replayed=True))
        return recorded

    def _other(self, stream: StreamId, lives: dict[StreamId, Live]) -> Live:
        """A stream the decision also writes: one it asked for, or a new one it makes."""
        live = lives.get(stream)
        if live is None:
            live = self._lives.get(stream)
        if live is None:
            live = self._lives[stream] = Live.new(stream, self._kinds.of(stream))
        return live

    def _settle_only(self, job: Job) -> Recorded:
        assert job.ended is not None
        self._finish(job)
        return Recorded(job.ended.id.source, job.ended.id.version, self._tx.now, "")


def streams_of(kinds: Kinds, job: Job, stream: StreamId, policy: Policy) -> tuple[StreamId, ...]:
    """The streams a job must hold, its own first; those a wake ahead of it needs are among them."""
    decider = kinds.of(stream).decider
    needed = decider.needs(stream, job.command, policy)
    woken = decider.needs(stream, WAKE, policy)
    if not needed and not woken and not job.also_locks:
        return (stream,)
    return tuple(dict.fromkeys((stream, *needed, *woken, *job.also_locks)))


def _decide(own: Live, view: View[Any], command: Command, turn: Turn) -> Decision:
    try:
        decision = own.kind.decider.decide(view, command, turn.policy, turn.now)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"deciding {type(command).__name__} for {own.stream} failed: {error!r}") from error
    if isinstance(decision, Refusal):
        raise Refused(decision.reason, decision.message)
    return decision


def _unwritten(own: Live, turn: Turn, decision: Decision) -> Recorded:
    if decision.also or decision.effects:
        raise Fault(f"a decision for {own.stream} has effects or other streams' events but no event of its own")
    return Recorded(
        own.stream, own.version, turn.now, turn.policy.fingerprint, verdict=decision.verdict, reply=decision.reply
    )
