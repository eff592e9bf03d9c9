"""The rows of a decision: folded, encoded, chained by digests, and checked against every bound.

Everything is computed before anything is changed, so a decision that cannot be written leaves no trace in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from betimes.core.canonical import CANONICAL, encode
from betimes.core.deciders import Call, Command, Decision, Effect, Event, Wake
from betimes.core.errors import Fault, TooLarge
from betimes.core.instants import SECOND, Instant
from betimes.core.segments import Recorded, Segment, chained_digest, write_note
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.core.verdicts import TRACE_BYTES_MAX, Verdict, within_bound
from betimes.engine.jobs import Sent, correlation_of
from betimes.engine.reports import Written
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Changes, EffectWrite, KeyWrite
from betimes.engine.turn import INSTANT_TYPES, LoadedStream, OtherEvents, StreamUpdate, Turn, fold_stream


class DecisionWriter:
    """Adds the rows of decisions to the changes of a batch."""

    def __init__(self, changes: Changes, settings: EngineSettings) -> None:
        self._changes = changes
        self._settings = settings
        self._asked: tuple[Command | None, str] = (None, "")
        self.rung: list[tuple[str, Instant, int]] = []
        """Of every alarm that rang: whose it is, when, and how late."""
        self.written: list[Written] = []

    def write(
        self, turn: Turn, own: LoadedStream, command: Command, key: KeyId | None, decision: Decision, also: OtherEvents
    ) -> Recorded:
        """Add a decision's rows. The first segment is the command's own stream's and carries the command."""
        stream, reply, settings, changes = own.stream, decision.reply, self._settings, self._changes
        verdict, judged = _check_verdict(decision.verdict, own)
        asked = self._command_text(command, stream)
        if turn.asked.note and command.__class__ is turn.asked.command.__class__:  # not what rings ahead of it
            asked = write_note(command, asked, turn.asked.note)
        replied = None if reply is None else text_of(reply, settings.events_chars_max, "the reply of", stream)
        first = self._update(own, decision.events, turn, asked, key, judged, replied)
        afters = [(live, self._update(live, events, turn)) for live, events in also.items()]
        if decision.effects:
            changes.effects += _effects(own, decision.effects, turn, settings)
        # From here on nothing can fail: a decision that cannot be written has left the batch as it was.
        if command.__class__ is Wake and own.alarm_at is not None:
            now, due_at = turn.now, command.held_until_at or own.alarm_at
            self.rung.append((stream.tenant, now, now - due_at))
        own.advance(first)
        changes.segments.append(first.segment)
        self.written.append((first.segment, decision.events, verdict))
        for live, after in afters:
            live.advance(after)
            changes.segments.append(after.segment)
            self.written.append((after.segment, also[live], None))
        if key:
            # Counted from the last promise: a repeat must meet its key as long as what it asked for may still be open.
            kept_until = max(turn.now, decision.promised_at or 0) + settings.key_retention_s * SECOND
            changes.keys.append(KeyWrite(key, turn.job.request, stream, own.version, kept_until))
        return Recorded(stream, own.version, turn.now, turn.policy.fingerprint, verdict, reply)

    def _command_text(self, command: Command, stream: StreamId) -> str:
        """Return the text of a command; a sweep and the alarms give the same one to many streams, so it is kept."""
        known, text = self._asked
        if command is not known:
            text = text_of(command, self._settings.command_chars_max, "the command to", stream)
            self._asked = (command, text)
        return text

    def _update(
        self,
        live: LoadedStream,
        events: tuple[Event, ...],
        turn: Turn,
        command: str | None = None,
        key: KeyId | None = None,
        verdict: str | None = None,
        reply: str | None = None,
    ) -> StreamUpdate:
        """Return a stream as events leave it, and the segment that says so, chained to the one before."""
        stream, settings, schema, prev = live.stream, self._settings, live.decider.schema, live.digest
        version, at, policy = live.version + 1, turn.now, turn.policy.fingerprint
        actor, correlation, cause = turn.asked.actor, turn.asked.correlation, turn.job.cause or turn.asked.cause
        state, alarm_at, listed = fold_stream(live.kind, stream, live.state, events)
        text = None if state is None else text_of(state, settings.state_chars_max, "the state of", stream)
        told = text_of(events, settings.events_chars_max, "the events of", stream)
        said = (key, verdict, reply, actor, correlation, cause)
        digest = chained_digest(prev, stream, version, turn.id, at, schema, command, told, policy, *said)
        segment = Segment(stream, version, turn.id, at, schema, command, told, policy, prev, digest, *said)
        return StreamUpdate(state, text, alarm_at, listed, segment)


def _check_verdict(verdict: Verdict | None, own: LoadedStream) -> tuple[Verdict | None, str | None]:
    """The verdict, its trace within the bound, and its text."""
    if verdict is None:
        return None, None
    known = own.decider.reasons
    for reason in verdict.reasons if known else ():
        if reason not in known:
            raise Fault(f"a verdict for {own.stream} has the reason {reason!r}; its decider's are {sorted(known)}")
    # Far above the bound that is kept: a long trace is shortened below, only an absurd one is refused.
    text = text_of(verdict, TRACE_BYTES_MAX * 1024, "the verdict for", own.stream)
    if len(text) <= TRACE_BYTES_MAX:
        return verdict, text
    bounded = within_bound(verdict)
    return bounded, encode(bounded)


def _effects(own: LoadedStream, effects: Sequence[Effect], turn: Turn, settings: EngineSettings) -> list[EffectWrite]:
    if len(effects) > settings.effects_max:
        raise TooLarge(f"a decision for {own.stream} has {len(effects)} effects; at most {settings.effects_max} fit")
    # Effects are named by the segment that asks for them, and the stream has not advanced yet.
    version = own.version + 1
    return [
        _effect(own.stream, EffectId(*own.stream, version, place), effect, turn, settings)
        for place, effect in enumerate(effects)
    ]


def _effect(source: StreamId, id: EffectId, effect: Effect, turn: Turn, settings: EngineSettings) -> EffectWrite:
    to = effect.report_to if isinstance(effect, Call) else effect.to
    if to and to.tenant != id.tenant:
        raise Fault(f"an effect of {source} is addressed to another tenant, {to}; it must stay within its own")
    if isinstance(effect, Call):
        _check_call(effect, source)
        payload = text_of(effect.payload, settings.effect_chars_max, "an effect of", source)
        return EffectWrite(
            id,
            effect.executor,
            payload,
            turn.now,
            effect.not_before_at or turn.now,
            effect.at_most_once,
            1 if effect.at_most_once else effect.attempts_max,
            effect.lease_s,
            effect.report_to,
        )
    command = text_of(effect.command, settings.effect_chars_max, "a command from", source)
    sent = Sent(
        msgspec.Raw(command.encode()),
        effect.key,
        effect.collection,
        effect.request,
        correlation_of(turn.asked.correlation, effect.key),
        effect.authority,
        effect.authority is not None and isinstance(effect.command, Mapping),
    )
    return EffectWrite(id, SEND, encode(sent), turn.now, turn.now, to=effect.to)


def _check_call(call: Call, source: StreamId) -> None:
    if call.executor == SEND or not call.executor:
        raise Fault(f"a call of {source} names the executor {call.executor!r}, which is reserved; give it another name")
    # By class, because `True` is an `int` too.
    if call.lease_s.__class__ is not int or call.attempts_max.__class__ is not int:
        raise Fault(f"a call of {source} has a lease or a number of attempts that is not a whole number")
    if call.lease_s < 1 or call.attempts_max < 1 or call.not_before_at.__class__ not in INSTANT_TYPES:
        raise Fault(f"a call of {source} has a lease or attempts under 1, or a not_before_at that is no instant")


def text_of(value: Any, chars_max: int, what: str, stream: StreamId) -> str:
    """Canonical text of something a decider or caller made: a `Fault` if it has none, `TooLarge` past its bound."""
    try:
        text = CANONICAL.encode(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Fault(f"{what} {stream} cannot be encoded as JSON: {error}") from error
    if len(text) > chars_max:
        raise TooLarge(f"{what} {stream} is {len(text):,} characters long; at most {chars_max:,} fit. Make it shorter")
    return text
