"""The recorded policy and every candidate, side by side through the same traffic.

Each world starts from the streams as the ledger has them when the window begins. Then every recorded command from
outside is given to all of them at its own instant, after each has rung its own alarms up to it. Recorded wakes and
commands between streams are not repeated: every world has its own. Of a recorded wake one thing is taken: how late it
was. The same alarm of the same stream rings as late in the other worlds; any other rings on time.

The world under the recorded policy is the control. Its decisions are compared with the ledger, segment by segment;
those of the others are compared with it, question by question: the same outside command, or the same key where one
stream asked another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from betimes.backtest.calls import RecordedCalls, with_effect
from betimes.backtest.control import Control, ControlCheck
from betimes.backtest.domain_rules import INPUTS, STARTS, SWEEPS
from betimes.backtest.plan import Plan
from betimes.backtest.tally import NOTHING, Sample, WorldAnswer, WorldTally, bump
from betimes.backtest.traffic import Chain, cause_of, pruned_refusal, role_of
from betimes.backtest.worlds import ACTOR, World
from betimes.catalogue import DOMAIN_OF, area_of
from betimes.core.deciders import Command, Settled
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import PolicyBook
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.held_work import GRACE
from betimes.engine.jobs import Job, Submission
from betimes.engine.memo import MemoTable
from betimes.engine.rehearsal import REQUEST, RehearsedStep
from betimes.engine.replay import Replayed
from betimes.engine.settings import EngineSettings

if TYPE_CHECKING:
    from betimes.backtest.partition import Lookout

_NONE = WorldAnswer(NOTHING)


class PartResult(msgspec.Struct):
    """The outcome of one part of the traffic."""

    control: Control
    before: WorldTally
    after: list[WorldTally]
    segments: int = 0
    commands: int = 0
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    providers: set[str] = set()
    """Providers whose values the recorded commands carry."""
    looked_at: list[tuple[StreamId, bool]] = []
    """Streams the ledger does not know of that were looked at, and whether they were written."""


class Lockstep:
    """Reads segments in commit order and tells at the end what came of them."""

    def __init__(
        self,
        kinds: Kinds,
        book: PolicyBook,
        settings: EngineSettings,
        plan: Plan,
        *,
        lookout: Lookout | None = None,
        recollection: MemoTable | None = None,
    ) -> None:
        """Rehearse the streams of the lookout's part, or all; worlds reuse decisions of the control."""
        self.kinds, self.book, self.settings = kinds, book, settings
        self._lookout = lookout
        self.recorded_calls = RecordedCalls()
        self.recollection = recollection or MemoTable()
        self.plan = plan
        self._chain = Chain(plan.since_at)
        self._base: dict[StreamId, Replayed] = {}
        self._keys: dict[KeyId, Recorded] = {}
        self._base_versions: dict[StreamId, int] = {}
        self._begun = False
        self.control = World(self, None)
        self.others = [World(self, candidate) for candidate in plan.candidates]
        self._worlds = (self.control, *self.others)
        self._at: Instant | None = None
        self._check = ControlCheck(kinds)
        self._asked: list[dict[KeyId, Question]] = [{} for _ in plan.candidates]
        self._places = {id(world): place for place, world in enumerate(self.others)}
        self._swept: tuple[str, str, Instant | None] | None = None
        self._result = PartResult(self._check.control, self.control.tally, [world.tally for world in self.others])

    @property
    def possible_from(self) -> Instant | None:
        return self._chain.possible_from

    def first_look(self, stream: StreamId) -> None:
        if self._lookout:
            self._lookout.first_look(stream)

    def is_outside(self, stream: StreamId) -> bool:
        """Return whether a stream is not in the sample: what is sent to it concerns nobody."""
        return self._lookout is not None and self._lookout.is_outside(stream)

    def reports(self, stream: StreamId) -> bool:
        return self.plan.domain is None or area_of(stream.kind) == self.plan.domain

    def _has_written(self, stream: StreamId) -> bool:
        """Return whether any world has written to a stream."""
        return any(world.rehearsal.version(stream) > 0 for world in self._worlds)

    # -- reading

    def read(self, segment: Segment) -> None:
        """Take in the next segment of the ledger."""
        if self._lookout and segment.stream.kind != "tenant" and not self._lookout.is_mine(segment.stream):
            self._overhear(segment)
            return
        self._chain.check(segment)
        since_at = self.plan.since_at
        if since_at is not None and segment.at < since_at:
            self._fold(segment, since_at)
        # Behind history that was pruned nothing can be rehearsed; `finish` says from when on it is possible.
        elif self._chain.possible_from is None:
            if not self._begun:
                self._begin(segment.at if since_at is None else since_at)
            self._rehearse(segment)

    def _fold(self, segment: Segment, since_at: Instant) -> None:
        replayed = self._base.get(segment.stream)
        if replayed is None:
            replayed = self._base[segment.stream] = Replayed(segment.stream, self.kinds.of(segment.stream))
        replayed.apply(segment)
        if segment.key and segment.at >= since_at - self.settings.key_retention_s * SECOND:
            self._keys[segment.key] = self.kinds.of(segment.stream).recorded(segment)

    def _begin(self, at: Instant) -> None:
        self._begun = True
        for world in self._worlds:
            world.begin(self._base, self._keys, at)
        self._base_versions = {stream: replayed.version for stream, replayed in self._base.items()}
        # Every world has it now, and a long time before the window need not stay in memory.
        self._base.clear()
        self._keys.clear()

    def _rehearse(self, segment: Segment) -> None:
        result = self._result
        result.segments += segment.stream.kind != "tenant"
        role = role_of(segment)
        cause = cause_of(segment) if role == "caused" else None
        began_before = cause is not None and cause.version <= self._base_versions.get(cause.source, 0)
        # What was sent at the instant before is applied before time moves on.
        self._settle_down()
        self._come_to(segment.at)
        if cause and self._is_waiting(cause):
            self._deliver(cause)
        elif role == "outside" or began_before:  # no world will produce what was caused before the window
            self._outside(segment)
        elif role == "settled":
            self._settle_call(segment)
        elif role == "wake":
            self._wake(segment.stream)
        if segment.stream.kind != "tenant":
            self._check.note_recorded(segment)

    def _come_to(self, at: Instant) -> None:
        """Move every world to this instant."""
        if at != self._at:
            # A memo is of one instant; none fits another.
            self.recollection.clear()
        self._at = at
        for world in self._worlds:
            world.rehearsal.advance_to(at)

    def _settle_down(self) -> None:
        """Deliver what was sent and is not waited for; first the control, which knows what is on record."""
        for world in self._worlds:
            world.rehearsal.settle_down()

    def _command(self, segment: Segment) -> Command:
        assert segment.command is not None
        return self.kinds.of(segment.stream).command(segment.command, segment)

    # -- alarms

    def is_rung_by_record(self, stream: StreamId, at: Instant) -> bool:
        """Return whether the recorded world has the same alarm, so that it is known how late it rang."""
        return self.control.rehearsal.alarm_at(stream) == at

    def _wake(self, stream: StreamId) -> None:
        at = self.control.rehearsal.alarm_at(stream)
        same = [world for world in self.others if world.rehearsal.alarm_at(stream) == at]
        for world in (self.control, *same):
            world.rehearsal.ring(stream)

    # -- what was held

    def _is_waiting(self, sent: EffectId) -> bool:
        """Return whether the control has a send that was not delivered yet."""
        return self.control.rehearsal.held.waits_for(sent)

    def is_sent_by_record(self, id: EffectId, waited: int) -> bool:
        """Return whether the recorded world has the same send waiting, so that its record says when it went.

        One that wrote nothing has no record, so nobody waits for long.
        """
        return waited < GRACE and self._is_waiting(id)

    def _deliver(self, held: EffectId) -> None:
        self.control.rehearsal.deliver(held, with_earlier=False)  # what wrote nothing is not recorded
        for world in self.others:
            world.rehearsal.deliver(held, with_earlier=True)

    # -- what came from outside

    def _outside(self, segment: Segment) -> None:
        command = self._command(segment)
        if command.__class__ is SWEEPS.get(segment.stream.kind):
            self._sweep_more(segment.stream, command)
        self._result.commands += segment.stream.kind != "tenant"
        # The control first: the others are compared with its answer and reuse its decisions.
        before = self.control.submit(_job(segment, command))
        input = INPUTS.get(command.__class__)
        if input and input.is_given(command):
            self._result.providers.add(input.provider)
        # Where the recorded policy had no use for the value, nobody asked for it and none is recorded.
        lacks_input = input if input and not input.is_used(self.control.reply) else None
        for world in self.others:
            adapted = self._adapt_command(world, segment.stream, command)
            if adapted is None:
                continue
            after = world.submit(_job(segment, adapted))
            if lacks_input and lacks_input.is_used(world.reply):
                bump(world.tally.fallbacks, lacks_input.provider)
            if segment.stream.kind != "tenant":
                self._compare(world, segment.stream, segment.key, before, after, segment.at, segment.seq)

    def _adapt_command(self, world: World, stream: StreamId, command: Command) -> Command | None:
        """Return the command as another world hears it, or `None` if it has no use for it."""
        if world.is_deaf_to(stream, command):
            return None
        if command.__class__ is STARTS.get(stream.kind):
            effect: str = command.effect  # type: ignore[attr-defined]
            # Its call has another name in another world; one that did not make it has nothing to announce.
            identity = self.recorded_calls.identity(stream.tenant, effect)
            if identity is not None:
                id = world.calls.waiting_call(identity)
                return replace(command, effect=id.handle) if id else None
        return command

    def _sweep_more(self, swept: StreamId, command: Command) -> None:
        """Sweep what is due under other policies only: that may be more than was recorded."""
        tenant, kind = swept.tenant, swept.kind
        at: Instant | None = command.at  # type: ignore[attr-defined]
        # A sweep writes one segment a stream, all with its instant; the first of them stands for the sweep.
        if self._swept == (tenant, kind, at) or at is None:
            return
        self._swept = (tenant, kind, at)
        for world in self.others:
            if self._has_same_policy(world, tenant, kind):
                continue
            known = {*self.control.rehearsal.due.find_due(kind, at, tenant)}
            for stream in world.rehearsal.due.find_due(kind, at, tenant):
                if stream not in known:  # the record says what became of those
                    after = world.submit(Job(Submission(stream=stream, command=command, actor=ACTOR)))
                    self._compare(world, stream, None, None, after, at, 0)

    def _has_same_policy(self, world: World, tenant: str, kind: str) -> bool:
        """Return whether a world decides this kind of stream under the recorded policy."""
        section = DOMAIN_OF[kind].policy
        recorded, policy = self.control.rehearsal.policy(tenant), world.rehearsal.policy(tenant)
        return not (section and policy and recorded) or policy[section] == recorded[section]

    def _overhear(self, segment: Segment) -> None:
        """Repeat a sweep of another part here, where another policy may have made something due."""
        if segment.stream.kind not in SWEEPS or self._chain.possible_from is not None:
            return
        since_at = self.plan.since_at
        if not self._begun and since_at is not None and segment.at >= since_at:
            self._begin(since_at)
        if not self._begun:
            return
        command = self._command(segment) if role_of(segment) == "outside" else None
        if command and command.__class__ is SWEEPS[segment.stream.kind]:
            self._settle_down()
            self._come_to(segment.at)
            self._sweep_more(segment.stream, command)

    def _settle_call(self, segment: Segment) -> None:
        command = self._command(segment)
        assert isinstance(command, Settled)
        tenant, stream = segment.stream.tenant, segment.stream
        # Before the call is ended, which forgets it.
        identity = self.recorded_calls.identity(tenant, command.effect)
        self.control.submit(_job(segment, command))
        self.recorded_calls.end_call(tenant, command.effect)
        for world in self.others:
            # It was made before the window, in all worlds alike.
            if identity is None:
                world.submit(_job(segment, command))
            elif id := world.calls.take(identity):
                world.submit(Job(Submission(stream=stream, command=with_effect(command, id)), cause=id.handle))
            elif stream.kind != "tenant":
                world.tally.gone += 1

    # -- comparing

    def note_step(self, world: World, step: RehearsedStep, answer: WorldAnswer | None) -> None:
        """Take in what a world has decided: the control for the ledger, the others for the control."""
        if world is self.control:
            self._check.note_rehearsed(step)
            for other in self.others:
                # The record has moved the stream on, so no record will say how late its alarm rang.
                other.rehearsal.release(step.stream)
        if step.job.cause and step.key and answer:
            places = range(len(self.others)) if world is self.control else (self._places[id(world)],)
            for place in places:
                self._match(place, step, answer, is_before=world is self.control)

    def _match(self, place: int, step: RehearsedStep, answer: WorldAnswer, *, is_before: bool) -> None:
        """Compare what one stream answered another, when both worlds have come to it."""
        assert step.key is not None
        asked = self._asked[place]
        other = asked.get(step.key)
        if other is None or other.is_before == is_before:
            asked[step.key] = Question(step.stream, answer, is_before, step.recorded.at)
            return
        del asked[step.key]
        before, after = (answer, other.answer) if is_before else (other.answer, answer)
        self._compare(self.others[place], step.stream, step.key, before, after, step.recorded.at, 0)

    def _compare(
        self,
        world: World,
        stream: StreamId,
        key: KeyId | None,
        before: WorldAnswer | None,
        after: WorldAnswer | None,
        at: Instant,
        seq: int,
    ) -> None:
        before, after = before or _NONE, after or _NONE
        if before.outcome != after.outcome and self.reports(stream):
            sample = Sample(at, seq, stream, key.key if key else "", before, after)
            world.tally.differs(sample, self.plan.samples_max)

    def finish(self, ends_at: Instant | None) -> PartResult:
        """Let the window end, if there is any, and settle what only one of the worlds came to."""
        if self._chain.possible_from is not None:
            raise pruned_refusal(self._chain.possible_from)
        if ends_at is not None:
            if not self._begun and self.plan.since_at is not None:
                self._begin(self.plan.since_at)
            self._settle_down()
            until_at = self.plan.until_at
            for world in self._worlds:
                # The end of the window is not part of it.
                world.rehearsal.advance_to(ends_at if until_at is None else min(ends_at, until_at - 1))
            for place, world in enumerate(self.others):
                for key, asked in self._asked[place].items():
                    before, after = (asked.answer, None) if asked.is_before else (None, asked.answer)
                    self._compare(world, asked.stream, key, before, after, asked.at, 0)
        self._check.finish()
        if self._lookout:
            self._result.looked_at = [(one, self._has_written(one)) for one in sorted(self._lookout.unknown)]
        return self._result


class Question(msgspec.Struct, frozen=True, gc=False):
    """The answer of one world to a stream that asked another, until the other world answers too."""

    stream: StreamId
    answer: WorldAnswer
    is_before: bool
    at: Instant


def _job(segment: Segment, command: Command) -> Job:
    asked = Submission(
        stream=segment.stream,
        command=command,
        key=segment.key.key if segment.key else None,
        collection=segment.key.collection if segment.key else "",
        request=REQUEST,
        actor=segment.actor,
        correlation=segment.correlation,
    )
    return Job(asked, cause=segment.effect_cause)
