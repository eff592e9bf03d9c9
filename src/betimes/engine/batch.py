"""One batch in memory: the streams it locked, the turns decided on them, and everything they will write.

A batch does no I/O. It is filled from a transaction's rows and the cache, takes jobs one after the other, each
seeing what the ones before it decided, and ends as `changes` for one commit. A job that fails leaves nothing behind
except alarms that were rung ahead of it, which were due anyway.

Each job is one turn (`turn`), of which the batch is the site. The decisions go to its `writer`: one that makes rows of
them, or in a rehearsal the world that is rehearsed.

**Held.** A job whose streams are not all here, because somebody else holds one or because the policy in force asks
for more than was locked, is handed back, and so is every later job of its stream, or that looks at one it may write:
commands of one stream keep their order, and what is written to a shared one is seen by whoever comes behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.deciders import Command
from betimes.core.errors import (
    BetimesError,
    Fault,
    KeyConflict,
    NewerVersion,
    PolicyInvalid,
    Refused,
    UnknownKind,
    WakeFailed,
)
from betimes.core.policies import Policy
from betimes.core.segments import Recorded
from betimes.core.streams import EffectId, KeyId, StreamId, checked_stream
from betimes.engine.codecs import Cached, Kinds, StateCache
from betimes.engine.holds import TenantHold, hold_in_force, tenant_hold
from betimes.engine.jobs import NEWS_PLACE, Ended, Job, Sent, note_streams
from betimes.engine.policies import PoliciesInForce
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Changes, DeadSend, EffectWrite, Tx
from betimes.engine.tenants.model import DEPLOYMENT, TenantState, tenant_stream
from betimes.engine.turn import DecisionSink, LoadedStream, Turn, take_turn, turn_instant
from betimes.engine.turn_rows import DecisionWriter

HELD: Final = None
HELD_LONG = 1_000_000
"""More than any job is handed back before it is given up."""
_NO_OTHERS: Mapping[StreamId, Any] = {}


class StreamExists(Exception):
    """A decision makes a stream it did not ask for, and it is there already: it must be decided seeing it."""

    def __init__(self, stream: StreamId) -> None:
        self.stream = stream


class Batch:
    """The working set of one batch."""

    heeds_holds = True

    def __init__(
        self,
        tx: Tx,
        *,
        kinds: Kinds,
        cache: StateCache,
        policies: PoliciesInForce,
        settings: EngineSettings,
        writer: DecisionSink | None = None,
    ) -> None:
        self._tx = tx
        self._kinds = kinds
        self._cache = cache
        self._policies = policies
        self._settings = settings
        self.loaded: dict[StreamId, LoadedStream] = {}
        self._blocked: set[StreamId] = set()
        self._blocked_sources: set[StreamId] = set()
        self._unsettled: set[StreamId] = set()  # what a held job may still write, and others look at
        self.answers: dict[KeyId, tuple[str, Recorded]] = {}
        """The request and the answer of every key used here."""
        self.changes = Changes()
        rows = DecisionWriter(self.changes, settings)
        self.writer = writer or rows
        self.rung, self.written = rows.rung, rows.written
        self._policies_used: dict[str, Policy] = {}
        self._policies_named: dict[str, Policy] = {}
        self.holds: dict[str, TenantHold] = {}
        """Of tenants that have one, or lately had."""

    def still_needed(self, jobs: Sequence[Job]) -> set[StreamId]:
        """Return the streams that jobs need under the policy in force and that the one last seen did not name."""
        more: set[StreamId] = set()
        for tenant, guessed in {job.tenant: job.policy for job in jobs if job.stream}.items():
            with suppress(BetimesError):  # whoever asked is told when the job is taken
                policy = self.policy(tenant)
                if policy is not None and policy is not guessed:
                    more.update(self._needed_under(policy, tenant, jobs))
        return more - self._tx.rows.keys() - self._tx.unchanged if more else more

    def _needed_under(self, policy: Policy, tenant: str, jobs: Sequence[Job]) -> Iterator[StreamId]:
        for job in jobs:
            if job.stream and job.tenant == tenant:
                note_streams(self._kinds, job, policy)
                yield from job.streams

    def take(self, job: Job, turn_id: str, policy: Policy | None = None) -> Recorded | None:
        """Decide a job, by the policy in force unless another is given; raise the error its caller should get.

        Return `HELD` if it must wait for another batch.
        """
        stream = job.stream
        if stream is None:
            return self._settle_only(job)
        # The policy in force is found inside the transaction, whatever was guessed when its streams were asked for.
        policy = policy or self._policies_used.get(stream.tenant) or self._policy_for(stream)
        lives = self._lives_of(job, policy) if policy else None
        # Known by now: finding the policy has noted the hold of the tenant, and a send stays within its tenant.
        if job.send and self.holds and self.is_held(job.send.source):
            job.held_count = HELD_LONG  # nobody need try it again before the hold has ended
            self._blocked_sources.add(job.send.source)  # if that is in this very batch, the next must not overtake it
            return HELD
        if job.send and not self._sendable(job.send):
            self._blocked_sources.add(job.send.source)  # gone, or not free: its target need not wait for that
            return HELD
        if job.unreadable:
            raise job.unreadable
        if policy is None or lives is None:
            return self._hold(job)
        try:
            recorded = self._decide(job, turn_id, policy, lives)
        except StreamExists as made:
            job.also_locks, job.policy = (*job.also_locks, made.stream), None
            return self._hold(job)
        if recorded is not HELD and (job.send or job.ended):
            self._finish(job)
        return recorded

    def give_up(self, job: Job, error: BetimesError) -> None:
        """Write what keeps a failed job from being retried for ever.

        A send that was refused is done with; one that could not be decided is a dead letter, or left for later behind a
        wake that fails. An effect that ended has ended; if its stream could not be told, a send of its own tells it.
        """
        if isinstance(error, Refused):  # an answer like any other: asking again would give the same
            self._finish(job)
        elif job.ended:
            self._tell_later(job, job.ended)
        elif job.send is None:
            return
        # Left as it is: a newer process, or the wake once it works again, lets it pass.
        elif isinstance(error, UnknownKind | NewerVersion | WakeFailed):
            self._blocked_sources.add(job.send.source)
        elif job.send in self._tx.sends:
            # PostgreSQL keeps no NUL in a text.
            self.changes.sends_dead.append(DeadSend(job.send, self._tx.now, str(error).replace("\0", "\ufffd")))
            self._tx.sends.discard(job.send)

    def _tell_later(self, job: Job, ended: Ended) -> None:
        self._finish(job)
        news = ended.id._replace(place=ended.id.place + NEWS_PLACE)
        sent = Sent(msgspec.Raw(encode(job.submission.command).encode()), correlation=job.submission.correlation)
        # As old as its call. Its id comes before those of sends its source made since, so they wait for it; were it
        # younger than they are, a look at the oldest sends that is full of them would never find it.
        created_at = min(ended.created_at, self._tx.now)
        self.changes.effects.append(EffectWrite(news, SEND, encode(sent), created_at, self._tx.now, to=job.stream))

    def _finish(self, job: Job) -> None:
        if job.send:
            self.changes.sends_applied.append(job.send)
            self._tx.sends.discard(job.send)
        if job.ended:
            self.changes.settlements.append(job.ended.settlement(self._tx.now))

    def keep(self, *, swept: Sequence[str] = ()) -> None:
        """Cache the states as they are now, after the commit; of kinds that are swept only those that were cached.

        A sweep would drive out whatever else is cached; what it leaves outdated there would only lead to conflicts.
        """
        cache = self._cache
        for stream, live in self.loaded.items():
            if live.version == live.base and cache.get(stream) is live.entry:
                cache.move_to_end(stream)  # used, so it leaves later
            elif stream.kind not in swept or stream in cache:
                cache.put(stream, live.cache_entry())
            if stream.kind == DEPLOYMENT.kind and (self._policies.holds.by_tenant or (live.state and live.state.hold)):
                self._policies.holds.note(stream.tenant, hold_in_force(live.state, self._tx.now), live.version)
        self._policies.saved.update(self.changes.policies)

    def created_streams(self) -> tuple[StreamId, ...]:
        """Return the streams that are written without having been locked."""
        return tuple(stream for stream, live in self.loaded.items() if live.created)

    def seal(self) -> bool:
        """Put one row per stream that moved into the changes; whether there is anything to commit."""
        changes = self.changes
        changes.streams = [live.row() for live in self.loaded.values() if live.version != live.base]
        if changes.segments:
            named, saved = self._policies_named, self._policies.saved
            # Segments name a policy by its fingerprint, so a body not known to be stored goes into the same commit.
            changes.policies = {name: policy.body for name, policy in named.items() if name not in saved}
        return bool(changes.streams or changes.sends_applied or changes.sends_dead or changes.settlements)

    # -- what a job needs

    def _policy_for(self, stream: StreamId) -> Policy | None:
        """The policy in force. If that does not fit the code any more, a better one can still be put in its place."""
        try:
            return self.policy(stream.tenant)
        except PolicyInvalid:
            if stream.kind != DEPLOYMENT.kind:
                raise
            return self._policies.repairing()

    def policy(self, tenant: str) -> Policy | None:
        """Return the policy in force for a tenant as this batch sees it; `None` if that is not here."""
        known = self._policies_used.get(tenant)
        if known is None:
            deployment, own = self.find_stream(DEPLOYMENT), self.find_stream(tenant_stream(tenant))
            if deployment is None or own is None:
                return None
            if own.state is not None or self.holds:
                self.note_hold(tenant, own.state)
            known = self._policies.effective(tenant, deployment.state, own.state)
            self._policies_used[tenant] = self._policies_named[known.fingerprint] = known
        return known

    def note_hold(self, tenant: str, state: TenantState | None) -> None:
        """See what must not fire, and what could not until lately."""
        if self.heeds_holds and state is not None and (state.hold or state.released):
            self.holds[tenant] = tenant_hold(self._kinds, state, self._tx.now)
        elif self.holds:
            self.holds.pop(tenant, None)

    def find_stream(self, stream: StreamId) -> LoadedStream | None:
        """Return a stream as the batch has left it so far; `None` if another transaction holds it."""
        live = self.loaded.get(stream)
        if live is not None:
            return live
        kind = self._kinds.by_name[stream.kind]
        # Of a stream that is cached at its version the store sends no row, only that it is unchanged.
        row, entry = self._tx.rows.get(stream), self._cache.get(stream)
        if row is not None:
            if entry is None or entry.version != row.version:
                entry = Cached.of_row(kind, stream, row)
        elif entry is None or stream not in self._tx.unchanged:
            return None
        live = self.loaded[stream] = LoadedStream(stream, kind, entry)
        return live

    def _lives_of(self, job: Job, policy: Policy) -> list[LoadedStream] | None:
        """The job's streams, its own first, if all are here and none is waited for by an earlier job."""
        if job.policy is not policy:
            note_streams(self._kinds, job, policy)
        lives = []
        for name in job.streams:
            live = self.find_stream(name)
            if live is None or (self._blocked and name in self._blocked):
                return None
            lives.append(live)
        # A read stream that a held job may still write must wait too: whoever comes behind sees what it writes.
        for name in job.reads:
            if name in self._unsettled or self.find_stream(name) is None:
                return None
        return lives

    def is_held(self, stream: StreamId) -> bool:
        """Return whether a stream must not fire now."""
        hold = self.holds.get(stream.tenant)
        return hold is not None and stream.kind in hold.kinds

    def _sendable(self, send: EffectId) -> bool:
        return send in self._tx.sends and send.source not in self._blocked_sources

    def _hold(self, job: Job) -> Recorded | None:
        """Hand a job back, and with it every later one of its stream or source, or that looks at one of its streams."""
        if job.stream:
            self._blocked.add(job.stream)
            self._unsettled.update(job.streams)
        if job.send:
            self._blocked_sources.add(job.send.source)
        return HELD

    def forget_held(self) -> None:
        """Stop waiting for streams that were held."""
        self._blocked.clear()
        self._blocked_sources.clear()
        self._unsettled.clear()

    def forget_stream(self, stream: StreamId) -> None:
        """Drop a stream, so that it is loaded again when needed, and the policies, which may depend on it."""
        self.loaded.pop(stream, None)
        self._policies_used.clear()

    # -- keys

    def _repeat(self, job: Job, own: LoadedStream, first: Recorded) -> Command | None:
        """Return the command that a repeated key still leads to; `None` if the recorded answer is all."""
        repeated = own.decider.repeated
        try:
            return repeated(job.submission.command, first) if repeated else None
        except Exception as error:
            raise Fault(f"repeating {job.name} failed: {error!r}") from error

    def _find_answer(self, job: Job, key: KeyId) -> Recorded:
        """Return the answer to a key that was used; raise `KeyConflict` if it was for another request."""
        if used := self.answers.get(key):
            request, first = used[0], replace(used[1], replayed=True)
        else:
            seen = self._tx.seen[key]
            request, first = seen.request, self._kinds.of(seen.segment.stream).recorded(seen.segment)
        if request != job.request:
            raise KeyConflict(
                f"the key {key.key!r} was used for another request in {key.collection!r}, recorded as "
                f"{first.segment_id}; send the new request under a key of its own"
            )
        return first

    # -- turns

    def _decide(self, job: Job, turn_id: str, policy: Policy, lives: list[LoadedStream]) -> Recorded | None:
        """Return the recorded answer if the job's key was seen, else what is decided now."""
        command, key = job.submission.command, job.key
        if key and (key in self.answers or key in self._tx.seen):
            first = self._find_answer(job, key)
            again = self._repeat(job, lives[0], first)
            if again is None:
                return first
            command, key = again, None  # the key has its answer; what still follows from it is a command without one
        hold = self.holds.get(lives[0].stream.tenant) if self.holds else None
        turn = Turn(turn_id, turn_instant(self._tx.now, lives), policy, job, job.submission, hold)
        recorded = take_turn(self, turn, lives, command, key, self._settings.wakes_before_command_max)
        if recorded is None:
            job.held_count = -1  # there was progress: it waits for nobody
            return self._hold(job)
        return recorded

    def keep_answer(self, turn: Turn, own: LoadedStream, key: KeyId | None, recorded: Recorded) -> None:
        if key:
            self.answers[key] = (turn.job.request, recorded)
        if own.stream.kind == "tenant":
            self._policies_used.clear()  # whatever comes behind it in the batch goes by the new one

    def view_others(self, turn: Turn, lives: list[LoadedStream]) -> Mapping[StreamId, Any]:
        reads = turn.job.reads
        if len(lives) == 1 and not reads:
            return _NO_OTHERS
        looked_at = {name: self.loaded[name].state for name in reads}
        return looked_at | {live.stream: live.state for live in lives[1:]}

    def find_other(self, stream: StreamId, lives: list[LoadedStream]) -> LoadedStream:
        if stream == lives[0].stream:
            raise Fault(f"a decision for {stream} names its own stream in `also`; its events belong in `events`")
        for live in lives[1:]:
            if live.stream == stream:
                return live
        # It was not asked for, so it must be new: one that exists has to be locked and seen before it is written.
        here = self.loaded.get(stream)
        if here is None:
            if checked_stream(*stream).tenant != lives[0].stream.tenant:
                raise Fault(f"a decision for {lives[0].stream} writes to another tenant, {stream}")
            here = self.loaded[stream] = LoadedStream.new(stream, self._kinds.of(stream))
        elif here.version:
            raise StreamExists(stream)
        return here

    def _settle_only(self, job: Job) -> Recorded:
        assert job.ended is not None
        self._finish(job)
        return Recorded(job.ended.id.source, job.ended.id.version, self._tx.now, "")
