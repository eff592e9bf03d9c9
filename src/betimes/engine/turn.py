"""From a decision to rows: folding its events, encoding, chaining digests, checking every bound.

Everything is computed before anything is changed, so a decision that cannot be written leaves no trace in the batch.
This is the hottest path of the engine: names for error messages are made only when there is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.deciders import Call, Command, Decision, Effect, Event, Index, Refusal, View
from betimes.core.errors import BetimesError, Fault, TooLarge
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.segments import GENESIS, Recorded, Segment, chained_digest
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.core.verdicts import TRACE_BYTES_MAX, Verdict, within_bound
from betimes.engine.cache import Cached
from betimes.engine.codecs import Kind
from betimes.engine.jobs import Job, Sent, correlation_of
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Changes, EffectWrite, KeyWrite, StreamWrite

ENTRY_CHARS = 256
"""What a cached state costs besides its text."""
_NO_INDEX = Index()
_INSTANT = (int, type(None))


class Turn(msgspec.Struct, frozen=True, gc=False):
    """What all segments of one turn share."""

    id: str
    now: Instant
    policy: Policy
    job: Job


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
        self.decider = kind.decider
        self.base = self.version = entry.version
        self.state, self.at, self.alarm_at = entry.state, entry.at, entry.alarm_at
        self.digest, self.chars = entry.digest, entry.chars
        self.text: str | None = None
        self.index = _NO_INDEX
        self.created = False

    @classmethod
    def new(cls, stream: StreamId, kind: Kind) -> LoadedStream:
        """A stream that a decision makes without having asked for it."""
        live = cls(stream, kind, Cached(0, None, 0, None, GENESIS, 0))
        live.created = True
        return live

    def cached(self) -> Cached:
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


class SegmentHeader(msgspec.Struct, frozen=True, gc=False):
    """What only the first segment of a command carries."""

    command: str | None = None
    key: KeyId | None = None
    verdict: str | None = None
    reply: str | None = None


_NOTHING_SAID = SegmentHeader()


def write(
    changes: Changes,
    turn: Turn,
    own: LoadedStream,
    command: Command,
    key: KeyId | None,
    decision: Decision,
    others: Mapping[LoadedStream, tuple[Event, ...]],
    settings: EngineSettings,
) -> Recorded:
    """Add a decision's rows to the batch. The first segment is the command's own stream's and carries the command."""
    stream, reply = own.stream, decision.reply
    verdict, judged = _judged(decision.verdict, own)
    asked = text_of(command, settings.command_chars_max, "the command to", stream)
    replied = None if reply is None else text_of(reply, settings.events_chars_max, "the reply of", stream)
    first = _after(own, decision.events, turn, settings, SegmentHeader(asked, key, judged, replied))
    afters = [(live, _after(live, events, turn, settings, _NOTHING_SAID)) for live, events in others.items()]
    if decision.effects:
        changes.effects += _effects(own, decision.effects, turn, settings)
    own.advance(first)
    changes.segments.append(first.segment)
    for live, after in afters:
        live.advance(after)
        changes.segments.append(after.segment)
    if key:
        kept_until = max(turn.now, decision.promised_at or 0) + settings.key_retention_s * SECOND
        changes.keys.append(KeyWrite(key, turn.job.request, stream, own.version, kept_until))
    return Recorded(stream, own.version, turn.now, turn.policy.fingerprint, verdict, reply)


def uses_up_key(key: KeyId | None, turn: Turn, own: LoadedStream, decision: Decision) -> bool:
    """Return whether a decision without events is written all the same: a segment without events keeps its answer.

    Who asks again under the key must be told the same, whatever became of the stream meanwhile. A command with a cause
    is applied exactly once by its effect; nobody asks again. An invalid one may be asked again, put right.
    """
    if decision.also or decision.effects:
        raise Fault(f"a decision for {own.stream} has effects or other streams' events but no event of its own")
    return key is not None and not turn.job.cause and not decision.is_invalid


def _judged(verdict: Verdict | None, own: LoadedStream) -> tuple[Verdict | None, str | None]:
    """The verdict, its trace within the bound, and its text."""
    if verdict is None:
        return None, None
    known = own.decider.reasons
    if known and not all(reason in known for reason in verdict.reasons):
        raise Fault(f"a verdict for {own.stream} has the reasons {verdict.reasons}; its decider's are {sorted(known)}")
    text = text_of(verdict, TRACE_BYTES_MAX * 1024, "the verdict for", own.stream)
    if len(text) <= TRACE_BYTES_MAX:
        return verdict, text
    bounded = within_bound(verdict)
    return bounded, encode(bounded)


def _after(
    live: LoadedStream, events: tuple[Event, ...], turn: Turn, settings: EngineSettings, said: SegmentHeader
) -> StreamUpdate:
    stream, decider, job = live.stream, live.decider, turn.job
    _check_events(live, events)
    state, alarm_at, listed = _folded(live, events)
    text = None if state is None else text_of(state, settings.state_chars_max, "the state of", stream)
    written = text_of(events, settings.events_chars_max, "the events of", stream)
    version, now, policy = live.version + 1, turn.now, turn.policy.fingerprint
    digest = chained_digest(
        live.digest,
        stream,
        version,
        turn.id,
        now,
        decider.schema,
        said.command,
        written,
        policy,
        said.key,
        said.verdict,
        said.reply,
        job.actor,
        job.correlation,
        job.cause,
    )
    segment = Segment(
        stream,
        version,
        turn.id,
        now,
        decider.schema,
        said.command,
        written,
        policy,
        live.digest,
        digest,
        said.key,
        said.verdict,
        said.reply,
        job.actor,
        job.correlation,
        job.cause,
    )
    return StreamUpdate(state, text, alarm_at, listed, segment)


def _check_events(live: LoadedStream, events: tuple[Event, ...]) -> None:
    """What is written must be readable again: events are of the kind's own classes."""
    known = live.kind.event_classes
    for event in events:
        if event.__class__ not in known:
            raise Fault(
                f"a decision for {live.stream} has the event {event!r}, which its decider's `events` do not name"
            )


def _folded(live: LoadedStream, events: tuple[Event, ...]) -> tuple[Any, Instant | None, Index]:
    decider, state = live.decider, live.state
    try:
        for event in events:
            state = decider.fold(state, event)
        if state is None:
            return None, None, _NO_INDEX
        alarm_at, listed = decider.alarm(state), decider.index(state)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"folding {live.stream} failed: {error!r}") from error
    if alarm_at.__class__ not in _INSTANT or listed.due_at.__class__ not in _INSTANT:
        raise Fault(
            f"the alarm {alarm_at!r} or due_at {listed.due_at!r} of {live.stream} is not an instant: an int or None"
        )
    return state, alarm_at, listed


def _effects(own: LoadedStream, effects: Sequence[Effect], turn: Turn, settings: EngineSettings) -> list[EffectWrite]:
    if len(effects) > settings.effects_max:
        raise TooLarge(f"a decision for {own.stream} has {len(effects)} effects; at most {settings.effects_max} fit")
    version = own.version + 1
    return [
        _effect(EffectId(*own.stream, version, place), effect, turn, settings) for place, effect in enumerate(effects)
    ]


def _effect(id: EffectId, effect: Effect, turn: Turn, settings: EngineSettings) -> EffectWrite:
    to = effect.report_to if isinstance(effect, Call) else effect.to
    if to and to.tenant != id.tenant:
        raise Fault(f"an effect of {id.source} is addressed to another tenant, {to}; it must stay within its own")
    if isinstance(effect, Call):
        _check_call(effect, id)
        payload = text_of(effect.payload, settings.effect_chars_max, "an effect of", id.source)
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
    command = text_of(effect.command, settings.effect_chars_max, "a command from", id.source)
    sent = Sent(
        msgspec.Raw(command.encode()),
        effect.key,
        effect.collection,
        effect.request,
        correlation_of(turn.job.correlation, effect.key),
        effect.authority,
        effect.authority is not None and isinstance(effect.command, Mapping),
    )
    return EffectWrite(id, SEND, encode(sent), turn.now, turn.now, to=effect.to)


def _check_call(call: Call, id: EffectId) -> None:
    if call.executor == SEND or not call.executor:
        raise Fault(
            f"a call of {id.source} names the executor {call.executor!r}, which is reserved; give it another name"
        )
    if call.lease_s.__class__ is not int or call.attempts_max.__class__ is not int:
        raise Fault(f"a call of {id.source} has a lease or a number of attempts that is not a whole number")
    if call.lease_s < 1 or call.attempts_max < 1 or call.not_before_at.__class__ not in _INSTANT:
        raise Fault(f"a call of {id.source} has a lease or attempts under 1, or a not_before_at that is no instant")


def text_of(value: Any, chars_max: int, what: str, stream: StreamId) -> str:
    """Canonical text of something a decider or caller made: a `Fault` if it has none, `TooLarge` past its bound."""
    try:
        text = encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Fault(f"{what} {stream} cannot be encoded as JSON: {error}") from error
    if len(text) > chars_max:
        raise TooLarge(f"{what} {stream} is {len(text):,} characters long; at most {chars_max:,} fit. Send less")
    return text


def decide_command(own: LoadedStream, view: View[Any], command: Command, turn: Turn) -> Decision | Refusal:
    """Return what the decider makes of a command; raise `Fault` if it fails or answers something else."""
    try:
        decision = own.decider.decide(view, command, turn.policy, turn.now)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"deciding {type(command).__name__} for {own.stream} failed: {error!r}") from error
    if isinstance(decision, Decision | Refusal):
        return decision
    raise Fault(f"deciding {type(command).__name__} for {own.stream} gave {decision!r}, not a Decision or a Refusal")
