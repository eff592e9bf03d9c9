"""A world: one policy, and all that follows from it when it hears the recorded traffic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from betimes.backtest.calls import OtherCalls, RecordedCalls
from betimes.backtest.domain_rules import SWEEPS
from betimes.backtest.plan import Candidate
from betimes.backtest.tally import REFUSED, Watch, WorldAnswer, WorldTally, answer_of, bump
from betimes.core.deciders import Command, Reconsider, Wake
from betimes.core.errors import BetimesError, Refused
from betimes.core.instants import Instant
from betimes.core.policies import PolicyBook
from betimes.core.segments import Recorded
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import Job, Submission
from betimes.engine.memo import MemoTable
from betimes.engine.rehearsal import Rehearsal, RehearsedStep
from betimes.engine.replay import Replayed
from betimes.engine.settings import EngineSettings
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy, TenantState, tenant_stream

ACTOR = "backtest"
_NO_TENANT = TenantState()


class Among(Protocol):
    """The things that worlds share; `Lockstep` provides them."""

    kinds: Kinds
    book: PolicyBook
    settings: EngineSettings
    recorded_calls: RecordedCalls
    recollection: MemoTable

    def first_look(self, stream: StreamId) -> None: ...

    def is_outside(self, stream: StreamId) -> bool: ...
    def is_rung_by_record(self, stream: StreamId, at: Instant) -> bool: ...
    def is_sent_by_record(self, id: EffectId, waited: int) -> bool: ...
    def reports(self, stream: StreamId) -> bool: ...
    def note_step(self, world: World, step: RehearsedStep, answer: WorldAnswer | None) -> None: ...


class World:
    """One policy and all that follows from it."""

    def __init__(self, among: Among, candidate: Candidate | None) -> None:
        """Without a candidate it is the control."""
        self.candidate = candidate
        self.tally = WorldTally()
        self.reply: Any = None
        """Of the last command that was submitted."""
        self._among = among
        recorded = among.recorded_calls
        self.calls = OtherCalls(recorded, lambda executor: bump(self.tally.fallbacks, executor))
        self.rehearsal = Rehearsal(
            among.kinds,
            among.book,
            among.settings,
            told=self._note_step,
            swept=frozenset(SWEEPS),
            call=self.calls.note_call if candidate else recorded.note_call,
            first=among.first_look,
            is_outside=among.is_outside,
            # The control rings nothing by itself: of its alarms and sends the record says when.
            is_late=among.is_rung_by_record if candidate else _always,
            is_recorded=among.is_sent_by_record if candidate else _always,
            teaches=None if candidate else among.recollection,
            learns=among.recollection if candidate else None,
        )
        self._watch = Watch(self.tally, self.rehearsal.state)
        self._current: Job | None = None
        self._own: WorldAnswer | None = None
        self._replaced: StreamId | None = None
        if candidate:
            self._replaced = tenant_stream(candidate.tenant) if candidate.tenant else DEPLOYMENT

    def begin(self, base: Mapping[StreamId, Replayed], keys: Mapping[KeyId, Recorded], at: Instant) -> None:
        """Put every stream back as it was, and the candidate in force; streams then reconsider their instants."""
        self.rehearsal.begin_at(at)
        for stream, replayed in base.items():
            self.rehearsal.put(stream, replayed.version, replayed.state, replayed.at)
        for key, recorded in keys.items():
            self.rehearsal.remember(key, recorded)
        if self.candidate is None or self._replaced is None:
            return
        # The candidate stands where the policy was put in force, so that deciders find it as they always do.
        state: TenantState = self.rehearsal.state(self._replaced) or _NO_TENANT
        named = f"{ACTOR}:{self.candidate.name}"
        chosen = replace(state, policy=self.candidate.policy, fingerprint=named, visits=None)
        version = base[self._replaced].version if self._replaced in base else 0
        self.rehearsal.put(self._replaced, version, chosen, at)
        # As after any change of policy: instants that follow from it are derived anew.
        for stream in sorted(base):
            if self._among.kinds.of(stream).decider.heeds and self.rehearsal.state(stream) is not None:
                self.submit(Job(Submission(stream=stream, command=Reconsider(), actor=ACTOR)))

    def is_deaf_to(self, stream: StreamId, command: Command) -> bool:
        """Return whether the command changes the policy that the candidate replaces."""
        return stream == self._replaced and isinstance(command, SetPolicy)

    def submit(self, job: Job) -> WorldAnswer | None:
        """Decide a command and return the answer."""
        self._current, self._own, self.reply = job, None, None
        try:
            recorded = self.rehearsal.decide(job)
        except BetimesError as error:
            reason = error.reason if isinstance(error, Refused) else error.code
            bump(self.tally.refused, reason)
            return WorldAnswer(REFUSED, (reason,))
        self.reply = recorded.reply
        return self._answer_to(job, recorded)

    def _answer_to(self, job: Job, recorded: Recorded) -> WorldAnswer | None:
        """Return the answer of the command's own step, or of one that wrote nothing."""
        return self._own or answer_of(
            RehearsedStep(recorded.stream, job.submission.command, (), recorded, job.key, job)
        )

    def _note_step(self, step: RehearsedStep) -> None:
        if step.stream.kind == "tenant":
            return
        answer = answer_of(step)
        # An alarm that is rung ahead of a command belongs to its job, and is not its answer.
        if step.job is self._current and step.command.__class__ is not Wake:
            self._own = answer
        if self._among.reports(step.stream):
            self._watch.count_step(step, answer)
        self._among.note_step(self, step, answer)


def _always(*_: object) -> bool:
    return True
