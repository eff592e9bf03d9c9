"""One command for many streams that are due, decided and written with as little as possible around it.

A sweep decides the same small thing for a million streams. Most of what a job carries (keys, sends, other streams,
verdicts, effects, a cached state) is not there then, and carrying it costs more than deciding. Here a stream that was
picked goes from its row to its new row in one loop. The decider is the same and so is everything that is written;
whatever is not plain (an alarm that is due, a verdict, an effect, a refusal, a failure of any kind) is left out and
decided as a job like any other, which is also what says what is wrong.

What a pass picks and makes is kept until its commit and holds no cycles, so it would be in vain to look through it
again and again: Python's collector rests meanwhile.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from betimes.core.canonical import encode
from betimes.core.deciders import Command, Decision, View
from betimes.core.instants import Instant
from betimes.core.segments import Recorded, Segment, chained_digest
from betimes.core.streams import StreamId
from betimes.engine.batch import Batch
from betimes.engine.codecs import Kind, Kinds
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Row, StreamWrite

_INSTANT = (int, type(None))
_new_tuple = tuple.__new__
"""Makes a named tuple in a third of the time its own constructor takes."""
TURN_S = 0.0005


class Plainly:
    """What is to be decided for every stream of a pass, and what came of those that were plain."""

    def __init__(self, command: Callable[[StreamId], Command], actor: str) -> None:
        self._command = command
        self._actor = actor
        self._asked: tuple[Command | None, str] = (None, "")
        self.done: list[Recorded] = []

    def decide(
        self,
        batch: Batch,
        picked: Iterable[tuple[StreamId, Row]],
        now: Instant,
        kinds: Kinds,
        settings: EngineSettings,
        turn_id: Callable[[], str],
    ) -> list[StreamId]:
        """Put what is plain into the working set; the streams that are not."""
        left: list[StreamId] = []
        for stream, row in picked:
            try:
                if not self._decide(batch, stream, row, now, kinds, settings, turn_id):
                    left.append(stream)
            except Exception:  # noqa: BLE001 — deciding it as a job tells what is wrong with it
                left.append(stream)
        return left

    def _decide(
        self,
        batch: Batch,
        stream: StreamId,
        row: Row,
        now: Instant,
        kinds: Kinds,
        settings: EngineSettings,
        turn_id: Callable[[], str],
    ) -> bool:
        """Decide for one stream; whether what came of it is plain, and is therefore written."""
        version, schema, text, at, alarm_at, _ = row
        now = max(now, at)
        policy = batch.policy(stream.tenant)
        if policy is None or text is None or (alarm_at is not None and alarm_at <= now):
            return False
        kind, command = kinds.of(stream), self._command(stream)
        state = kind.state(stream, schema, text)
        decision = kind.decider.decide(View(stream, state, version), command, policy, now)
        if decision.__class__ is not Decision or not decision.events:
            return False
        if decision.effects or decision.also or decision.verdict is not None:
            return False
        return self._write(
            batch, stream, row, now, kind, state, command, decision, policy.fingerprint, settings, turn_id
        )

    def _write(
        self,
        batch: Batch,
        stream: StreamId,
        row: Row,
        now: Instant,
        kind: Kind,
        state: Any,
        command: Command,
        decision: Decision,
        policy: str,
        settings: EngineSettings,
        turn_id: Callable[[], str],
    ) -> bool:
        """Fold the events and put the rows into the working set; `False`, and no trace, where they do not fit."""
        decider, events, reply = kind.decider, decision.events, decision.reply
        for event in events:
            if event.__class__ not in kind.event_classes:
                return False
            state = decider.fold(state, event)
        if state is None:
            return False
        alarm_at, listed = decider.alarm(state), decider.index(state)
        if alarm_at.__class__ not in _INSTANT or listed.due_at.__class__ not in _INSTANT:
            return False
        asked, text, happened = self._text_of(command), encode(state), encode(events)
        replied = None if reply is None else encode(reply)
        if (
            len(asked) > settings.command_chars_max
            or len(text) > settings.state_chars_max
            or len(happened) + len(replied or "") > settings.events_chars_max
        ):
            return False
        expected, prev, schema, turn, actor = row[0], row[5], decider.schema, turn_id(), self._actor
        version = expected + 1
        digest = chained_digest(
            prev, stream, version, turn, now, schema, asked, happened, policy, None, None, replied, actor, "", ""
        )
        batch.changes.segments.append(
            Segment(
                stream, version, turn, now, schema, asked, happened, policy, prev, digest, None, None, replied, actor
            )
        )
        columns = (
            stream,
            expected,
            version,
            schema,
            text,
            now,
            alarm_at,
            digest,
            listed.status,
            listed.owner,
            listed.due_at,
            listed.listed_at,
        )
        batch.written.append(_new_tuple(StreamWrite, columns))
        self.done.append(Recorded(stream, version, now, policy, None, reply))
        return True

    def _text_of(self, command: Command) -> str:
        known, text = self._asked
        if command is not known:
            text = encode(command)
            self._asked = (command, text)
        return text


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Python's cyclic collector rest, and let threads take turns often, as long as a pass lasts.

    A store that writes in a thread of its own needs the interpreter for a moment between statements. Meanwhile the loop
    above holds it, and by default would for 5 ms each time, which is as long as a statement takes.
    """
    collects, turn_s = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(turn_s, TURN_S))
    try:
        yield
    finally:
        if collects:
            gc.enable()
        if turn_s > TURN_S:
            sys.setswitchinterval(turn_s)
