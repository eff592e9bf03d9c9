"""Given, when, then: a decider's behaviour told without a store, an engine or a clock.

    given(GATE, Admitted("ann", at("09:00"))).at("09:00:30").when(Knock("bob")).then(Postponed("bob", at("09:01")))

`given` folds what happened before, `when` decides, `then` and its kin check. Each `when` is a turn of the engine
(`engine.turn`): an alarm that has come due is rung first, what is decided is folded, so that scenarios go on.

What the engine would report as a fault fails here, in a sentence: a wake that leaves its alarm due without writing
anything, effects without an event, texts past their bounds. So do events or states that do not come back from JSON as
they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.deciders import Command, Decider, Decision, Effect, Event, Refusal, State, View, Wake
from betimes.core.errors import BetimesError, Fault, Refused
from betimes.core.instants import Instant, parse, render
from betimes.core.policies import Body, Policy, PolicyBook
from betimes.core.segments import Recorded
from betimes.core.streams import KeyId, StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import WAKE, Job, Submission, note_streams
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Changes
from betimes.engine.turn import LoadedStream, OtherEvents, Turn, fold_events, fold_stream, take_turn, turn_instant
from betimes.engine.turn_rows import DecisionWriter

SETTINGS = EngineSettings()
START = "2026-01-05T09:00:00Z"
WAKES_MAX = 1_000
"""Alarms rung ahead of one command before a scenario says that they never end."""


class _SeenLater(Exception):
    """A decision makes a stream that is there already: it must be decided seeing it."""

    def __init__(self, stream: StreamId) -> None:
        self.stream = stream


class Scenario(Generic[State]):
    """A stream under test, with its policy and the time: the site of its turns (`engine.turn`)."""

    def __init__(self, decider: Decider[State], stream: StreamId, policy: Policy) -> None:
        self.decider = decider
        self.policy = policy
        self.now: Instant = parse(START)
        self.others: dict[StreamId, Any] = {}
        self.outcome: Decision | Refusal | None = None
        self._kinds = Kinds([replace(decider, decide=self._decide)])
        self._own = LoadedStream.new(stream, self._kinds.of(stream))
        self._shown: tuple[StreamId, ...] = ()

    @property
    def stream(self) -> StreamId:
        return self._own.stream

    @stream.setter
    def stream(self, stream: StreamId) -> None:
        self._own.stream = stream

    @property
    def state(self) -> State | None:
        state: State | None = self._own.state
        return state

    @state.setter
    def state(self, state: State | None) -> None:
        self._own.state, self._own.alarm_at = state, None if state is None else self.decider.alarm(state)

    @property
    def version(self) -> int:
        return self._own.version

    @property
    def alarm_at(self) -> Instant | None:
        return self._own.alarm_at

    def with_others(self, states: Mapping[StreamId, Any]) -> Self:
        """States of other streams. A decision sees those its decider's `needs` and `reads` name, and no others."""
        self.others.update(states)
        return self

    def at(self, when: Instant | str) -> Self:
        """Go to an instant."""
        self.now = parse(when) if isinstance(when, str) else when
        return self

    def when(self, command: Command, key: str | None = None) -> Self:
        """Decide a command now and fold what follows."""
        job = Job(Submission(stream=self.stream, command=command, key=key))
        while (there := self._take(job)) is not None:
            job.also_locks = (*job.also_locks, there)
        return self

    def wakes(self) -> Self:
        """Go to the stream's alarm and ring it."""
        assert self.alarm_at is not None, "no alarm is set"
        self.now = max(self.now, self.alarm_at)
        return self.when(WAKE)

    # -- the site of a turn

    def _take(self, job: Job) -> StreamId | None:
        """Take the turn of a command; return a stream that it must be taken again with."""
        asked, own = job.submission, self._own
        self.outcome = Decision()  # of a wake that comes too early
        self._raised: Exception | None = None
        note_streams(self._kinds, job, self.policy)
        self._shown = (*job.reads, *job.streams[1:])
        turn = Turn("", turn_instant(self.now, [own]), self.policy, job, asked)
        try:
            recorded = take_turn(self, turn, [own], asked.command, job.key, WAKES_MAX)
        except _SeenLater as made:
            return made.stream
        except BetimesError as error:
            if self._raised is not None:
                raise self._raised from None  # a decider's own error reaches the test as it is
            if not isinstance(error, Refused) or isinstance(asked.command, Wake):
                raise AssertionError(f"{error}: {self.outcome}") from error
        else:
            assert recorded, f"the alarm of {self.stream} is still due after {WAKES_MAX:,} wakes: {self.outcome}"
        return None

    def _decide(self, view: View[State], command: Command, policy: Policy, now: Instant) -> Decision | Refusal:
        """Decide as the decider does, and keep the outcome; what settles a refusal does not replace it."""
        refused = self.outcome if isinstance(self.outcome, Refusal) else None
        try:
            outcome = self.decider.decide(view, command, policy, now)
        except Exception as error:
            self._raised = error
            raise
        self.outcome = refused if refused and refused.settles is command else outcome
        return outcome

    @property
    def writer(self) -> Self:
        return self

    def view_others(self, turn: Turn, loaded: list[LoadedStream]) -> Mapping[StreamId, Any]:
        return {stream: self.others.get(stream) for stream in self._shown if stream != self.stream}

    def find_other(self, stream: StreamId, loaded: list[LoadedStream]) -> LoadedStream:
        if stream == self.stream:
            raise Fault(f"a decision for {stream} names its own stream in `also`; its events belong in `events`")
        if stream not in self._shown and self.others.get(stream) is not None:
            raise _SeenLater(stream)
        return LoadedStream.new(stream, self._own.kind)

    def write(
        self, turn: Turn, own: LoadedStream, command: Command, key: KeyId | None, decision: Decision, also: OtherEvents
    ) -> Recorded:
        """Check and fold a decision as a batch does; the events of other streams are only compared."""
        self._check_kept(decision.events)
        return DecisionWriter(Changes(), SETTINGS).write(turn, own, command, key, decision, {})

    def keep_answer(self, turn: Turn, own: LoadedStream, key: KeyId | None, recorded: Recorded) -> None:
        """Remember nothing: whoever repeats a key here asks again."""

    def _check_kept(self, events: tuple[Event, ...]) -> None:
        for event in events:
            _check_kept(event, self.decider.events, f"an event of {self.stream}")
        state = fold_events(self.decider, self.state, events)
        if state is not None:
            _check_kept(state, self.decider.state, f"the state of {self.stream}")

    def happened(self, event: Event) -> None:
        """Fold what happened before."""
        own = self._own
        self._check_kept((event,))
        own.state, own.alarm_at, own.index = fold_stream(own.kind, self.stream, own.state, (event,))
        own.version += 1

    # -- then

    @property
    def decision(self) -> Decision:
        assert isinstance(self.outcome, Decision), f"refused: {self.outcome}"
        return self.outcome

    def then(self, *events: Event) -> Self:
        """Exactly these events followed."""
        assert self.decision.events == events, f"\nexpected {events}\n     got {self.decision.events}"
        return self

    def then_nothing(self) -> Self:
        return self.then()

    def then_verdict(self, answer: str, *reasons: str, until: Instant | str | None = None) -> Self:
        """The verdict has this answer and these reasons (and lasts until then, if given)."""
        verdict = self.decision.verdict
        assert verdict is not None, "there is no verdict"
        got = (verdict.answer, verdict.reasons)
        assert got == (answer, reasons), f"expected {(answer, reasons)}, got {got}"
        if until is not None:
            wanted = parse(until) if isinstance(until, str) else until
            assert verdict.until == wanted, f"until {_shown(verdict.until)}, not {_shown(wanted)}"
        return self

    def then_effects(self, *effects: Effect) -> Self:
        assert self.decision.effects == effects, f"\nexpected {effects}\n     got {self.decision.effects}"
        return self

    def then_also(self, stream: StreamId, *events: Event) -> Self:
        """Exactly these events followed in another stream."""
        got = self.decision.also.get(stream, ())
        assert got == events, f"in {stream}\nexpected {events}\n     got {got}"
        return self

    def then_refused(self, reason: str) -> Self:
        assert isinstance(self.outcome, Refusal), f"not refused: {self.outcome}"
        assert self.outcome.reason == reason, f"refused as {self.outcome.reason}: {self.outcome.message}"
        return self

    def then_alarm(self, when: Instant | str | None) -> Self:
        wanted = parse(when) if isinstance(when, str) else when
        assert self.alarm_at == wanted, f"the alarm is at {_shown(self.alarm_at)}, not {_shown(wanted)}"
        return self


def given(
    decider: Decider[State],
    *events: Event,
    stream: StreamId | None = None,
    sections: Mapping[str, type[msgspec.Struct]] | None = None,
    policy: Body | None = None,
) -> Scenario[State]:
    """A stream to which these events happened, at 2026-01-05T09:00:00Z unless said otherwise."""
    effective = PolicyBook(sections).effective(policy or {})
    scenario = Scenario(decider, stream or StreamId("tenant", decider.kind, "subject"), effective)
    for event in events:
        scenario.happened(event)
    return scenario


def _check_kept(value: Any, kind: Any, what: str) -> None:
    """What is written must come back as it was: the ledger is folded again from its text."""
    try:
        text = encode(value)
        again = msgspec.json.decode(text, type=kind)
        same = again == value and encode(again) == text
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise AssertionError(f"{what} cannot be written and read back: {value!r}: {error}") from error
    assert same, f"{what} does not come back as it was written\nwritten {value!r}\n   read {again!r}"


def _shown(at: Instant | None) -> str:
    return "never" if at is None else render(at)
