"""Given, when, then: a decider's behaviour told without a store, an engine or a clock.

    given(GATE, Admitted("ann", at("09:00"))).at("09:00:30").when(Knock("bob")).then(Postponed("bob", at("09:01")))

`given` folds what happened before, `when` decides, `then` and its kin check. Each `when` folds what it decided, so that
scenarios go on; an alarm that has come due by then is rung first, as the engine would.

What the engine would report as a fault fails here, in a sentence: a wake that leaves its alarm due without writing
anything, effects without an event, events or states that do not come back from JSON as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Command, Decider, Decision, Effect, Event, Refusal, State, View, Wake
from betimes.core.instants import Instant, parse, render
from betimes.core.policies import Body, Policy, PolicyBook
from betimes.core.streams import StreamId

START = "2026-01-05T09:00:00Z"
WAKES_MAX = 1_000
"""Alarms rung ahead of one command before a scenario says that they never end."""


class Scenario(Generic[State]):
    """A stream under test, with its state, its policy and the time."""

    def __init__(self, decider: Decider[State], stream: StreamId, policy: Policy) -> None:
        self.decider = decider
        self.stream = stream
        self.policy = policy
        self.now: Instant = parse(START)
        self.state: State | None = None
        self.version = 0
        self.others: dict[StreamId, Any] = {}
        self.outcome: Decision | Refusal | None = None

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
        if not isinstance(command, (Wake, *self.decider.stops)):
            self._ring()
        self._decide(command, key)
        return self

    def wakes(self) -> Self:
        """Go to the stream's alarm and ring it."""
        alarm_at = self.alarm_at
        assert alarm_at is not None, "no alarm is set"
        self.now = max(self.now, alarm_at)
        self._decide(Wake(), None)
        return self

    @property
    def alarm_at(self) -> Instant | None:
        return None if self.state is None else self.decider.alarm(self.state)

    def _alarm_due(self) -> bool:
        return self.alarm_at is not None and self.alarm_at <= self.now

    def _ring(self) -> None:
        """Ring what is due ahead of a command."""
        for _ in range(WAKES_MAX):
            if not self._alarm_due():
                return
            self._decide(Wake(), None)
        raise AssertionError(f"the alarm of {self.stream} is still due after {WAKES_MAX:,} wakes: {self.outcome}")

    def _decide(self, command: Command, key: str | None) -> None:
        due, version = self._alarm_due(), self.version
        self.outcome = outcome = self._decided(command, key)
        if isinstance(outcome, Refusal) and outcome.settles is not None:
            self._decide(outcome.settles, None)
            self.outcome = outcome
        elif isinstance(self.outcome, Decision):
            _check_decision(self.stream, self.outcome)
            if self.outcome.events:
                self._fold(self.outcome.events)
        if isinstance(command, Wake) and due and self.version == version:
            raise AssertionError(
                f"the alarm of {self.stream} is due at {_shown(self.alarm_at)} and its wake wrote nothing; "
                f"it would ring for ever: {self.outcome}"
            )

    def _decided(self, command: Command, key: str | None) -> Decision | Refusal:
        """What the decider says, seeing what it asked for, and what it would make if that is there already."""
        needed = (self.decider.needs(self.stream, asked, self.policy) for asked in (command, Wake()))
        named = (*self.decider.reads(self.stream), *(stream for streams in needed for stream in streams))
        shown = dict.fromkeys(stream for stream in named if stream != self.stream)
        while True:
            others = {stream: self.others.get(stream) for stream in shown}
            view = View(self.stream, self.state, self.version, others, key)
            outcome = self.decider.decide(view, command, self.policy, self.now)
            also = outcome.also if isinstance(outcome, Decision) else {}
            there = [stream for stream in also if stream not in shown and self.others.get(stream) is not None]
            if not there:
                return outcome
            shown.update(dict.fromkeys(there))

    def _fold(self, events: tuple[Event, ...]) -> None:
        for event in events:
            _check_kept(event, self.decider.events, f"an event of {self.stream}")
            self.state = self.decider.fold(self.state, event)
        if self.state is not None:
            _check_kept(self.state, self.decider.state, f"the state of {self.stream}")
        self.version += 1

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
        scenario._fold((event,))
    return scenario


def _check_decision(stream: StreamId, decision: Decision) -> None:
    if stream in decision.also:
        raise AssertionError(f"a decision for {stream} names its own stream in `also`; its events belong in `events`")
    if not decision.events and (decision.also or decision.effects):
        raise AssertionError(
            f"a decision for {stream} has effects or other streams' events but no event of its own: {decision}"
        )


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
