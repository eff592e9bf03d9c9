"""From a decision to rows: folding its events, encoding, chaining digests, checking every bound.

Everything is computed before anything is changed, so a decision that cannot be written leaves no trace in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from betimes.core.deciders import Call, Command, Decision, Effect, Event, Index
from betimes.core.errors import BetimesError, Fault, TooLarge
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import GENESIS, Recorded, Segment, chained_digest
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.core.verdicts import within_bound
from betimes.engine.cache import Cached
from betimes.engine.jobs import Job, Sent
from betimes.engine.kinds import Kind, encoded
from betimes.engine.settings import EngineSettings
from betimes.engine.store import SEND, Changes, EffectWrite, KeyWrite, StreamWrite

ENTRY_CHARS = 256
"""What a cached state costs besides its text."""
_NO_INDEX = Index()


class Turn(NamedTuple):
    """What all segments of one turn share."""

    id: str
    now: Instant
    policy: Policy
    job: Job


class Live:
    """A stream in the working set: as it was locked (`base`), and as the batch has left it so far."""

    __slots__ = (
        "alarm_at", "at", "base", "chars", "created", "digest", "index", "kind", "state", "stream", "text", "version",
    )  # fmt: skip

    def __init__(self, stream: StreamId, kind: Kind, entry: Cached) -> None:
        self.stream = stream
        self.kind = kind
        self.base = self.version = entry.version
        self.state = entry.state
        self.at = entry.at
        self.alarm_at = entry.alarm_at
        self.digest = entry.digest
        self.chars = entry.chars
        self.text: str | None = None
        self.index = _NO_INDEX
        self.created = False

    @classmethod
    def new(cls, stream: StreamId, kind: Kind) -> Live:
        live = cls(stream, kind, Cached(0, None, 0, None, GENESIS, 0))
        live.created = True
        return live

    def cached(self) -> Cached:
        return Cached(self.version, self.state, self.at, self.alarm_at, self.digest, self.chars)

    def row(self) -> StreamWrite:
        index = self.index
        return StreamWrite(
            self.stream, self.base, self.version, self.kind.decider.schema, self.text, self.at, self.alarm_at,
            self.digest, index.status, index.owner, index.due_at,
        )  # fmt: skip

    def advance(self, after: After) -> None:
        self.version += 1
        self.state, self.text, self.alarm_at, self.index = after.state, after.text, after.alarm_at, after.listed
        self.at, self.digest = after.segment.at, after.segment.digest
        self.chars = ENTRY_CHARS + len(after.text or "")


class After(NamedTuple):
    """A stream after a decision, not yet put in place."""

    state: Any
    text: str | None
    alarm_at: Instant | None
    listed: Index
    segment: Segment


def write(
    changes: Changes,
    turn: Turn,
    touched: Sequence[tuple[Live, tuple[Event, ...]]],
    command: Command,
    key: KeyId | None,
    decision: Decision,
    settings: EngineSettings,
) -> Recorded:
    """Add a decision's rows to the batch. The first stream is the command's own; its segment carries the command."""
    own = touched[0][0]
    verdict = within_bound(decision.verdict) if decision.verdict else None
    first = _after(own, touched[0][1], turn, settings, command=command, key=key, verdict=verdict, reply=decision.reply)
    afters = [first, *(_after(live, events, turn, settings) for live, events in touched[1:])]
    effects = _effects(own, decision.effects, turn, settings)
    for (live, _), after in zip(touched, afters, strict=True):
        live.advance(after)
        changes.segments.append(after.segment)
    changes.effects += effects
    if key:
        kept_until = max(turn.now, decision.promised_at or 0) + settings.key_retention_us
        changes.keys.append(KeyWrite(key, turn.job.request, own.stream, own.version, kept_until))
    return Recorded(own.stream, own.version, turn.now, turn.policy.fingerprint, verdict=verdict, reply=decision.reply)


def _after(
    live: Live,
    events: tuple[Event, ...],
    turn: Turn,
    settings: EngineSettings,
    *,
    command: Command | None = None,
    key: KeyId | None = None,
    verdict: Any = None,
    reply: Any = None,
) -> After:
    stream = live.stream
    state, alarm_at, index = _folded(live, events)
    text = None if state is None else _bounded(state, f"the state of {stream}", settings.state_chars_max)
    written = _bounded(events, f"the events of {stream}", settings.events_chars_max)
    asked = None if command is None else _bounded(command, f"the command to {stream}", settings.command_chars_max)
    judged = None if verdict is None else encoded(verdict, f"the verdict for {stream}")
    replied = None if reply is None else _bounded(reply, f"the reply of {stream}", settings.events_chars_max)
    job, version, schema, policy = turn.job, live.version + 1, live.kind.decider.schema, turn.policy.fingerprint
    own_digest = chained_digest(
        live.digest, stream, version, turn.id, turn.now, schema, asked, written, policy, key, judged, replied,
        job.actor, job.correlation, job.cause,
    )  # fmt: skip
    segment = Segment(
        stream, version, turn.id, turn.now, schema, asked, written, policy, live.digest, own_digest, key, judged,
        replied, job.actor, job.correlation, job.cause,
    )  # fmt: skip
    return After(state, text, alarm_at, index, segment)


def _folded(live: Live, events: tuple[Event, ...]) -> tuple[Any, Instant | None, Index]:
    decider = live.kind.decider
    state = live.state
    try:
        for event in events:
            state = decider.fold(state, event)
        return (state, None, _NO_INDEX) if state is None else (state, decider.alarm(state), decider.index(state))
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"folding {live.stream} failed: {error!r}") from error


def _effects(own: Live, effects: tuple[Effect, ...], turn: Turn, settings: EngineSettings) -> list[EffectWrite]:
    if len(effects) > settings.effects_max:
        raise TooLarge(f"a decision for {own.stream} has {len(effects)} effects; at most {settings.effects_max} fit")
    version = own.version + 1
    return [
        _effect(EffectId(*own.stream, version, place), effect, turn, settings) for place, effect in enumerate(effects)
    ]


def _effect(id: EffectId, effect: Effect, turn: Turn, settings: EngineSettings) -> EffectWrite:
    name = f"the effect {id.handle}"
    if isinstance(effect, Call):
        payload = _bounded(effect.payload, name, settings.effect_chars_max)
        return EffectWrite(
            id, effect.executor, payload, turn.now, effect.not_before_at or turn.now, effect.at_most_once,
            1 if effect.at_most_once else effect.attempts_max, effect.lease_s, effect.report,
        )  # fmt: skip
    if effect.to.tenant != id.tenant:
        raise Fault(f"{name} is addressed to another tenant, {effect.to}; a command stays within its tenant")
    command = msgspec.Raw(encoded(effect.command, name).encode())
    sent = Sent(command, effect.key, effect.collection, effect.request, turn.job.correlation)
    return EffectWrite(id, SEND, _bounded(sent, name, settings.effect_chars_max), turn.now, turn.now, to=effect.to)


def _bounded(value: Any, name: str, chars_max: int) -> str:
    text = encoded(value, name)
    if len(text) > chars_max:
        raise TooLarge(f"{name} is {len(text):,} characters long; at most {chars_max:,} fit. Send less, or a reference")
    return text
