"""The fast path of a sweep: one command for many streams that are due, with as little as possible around it.

A sweep decides the same small thing for a million streams. Most of what a job carries (keys, sends, other streams,
verdicts, effects, a cached state) is not there then, and carrying it costs more than deciding. Here a stream that was
picked goes from its row to its new row in one loop, by the same steps as any turn (`fold_stream`, `chain_segment`);
whatever is more (an alarm that is due, a verdict, an effect, a refusal, a failure of any kind) is left out and
decided as a job like any other, which is also what says what is wrong.

Python's collector rests meanwhile: all that a pass picks and makes is kept until its commit and holds no cycles, so
looking through it again and again would be in vain.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from betimes.core.deciders import Command, Decision, Index, View
from betimes.core.instants import Instant
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.batch import Batch
from betimes.engine.codecs import Kind, Kinds
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Row, StreamWrite
from betimes.engine.turn import fold_stream
from betimes.engine.turn_rows import chain_segment, text_of

_new_tuple = tuple.__new__
"""Makes a named tuple in a third of the time its own constructor takes."""
TURN_S = 0.0005


class FastPath:
    """The command of a sweep, decided for every stream of a pass that allows it; `done` is what was recorded."""

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
        """Put what can be decided here into the batch; return the streams that need a job."""
        left: list[StreamId] = []
        for stream, row in picked:
            try:
                if not self._decide(batch, stream, row, max(now, row[3]), kinds.of(stream), settings, turn_id):
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
        kind: Kind,
        settings: EngineSettings,
        turn_id: Callable[[], str],
    ) -> bool:
        """Decide for one stream and put its rows into the batch; return `False` if it needs a job."""
        version, schema, text, _, alarm_at, _ = row
        policy = batch.policy(stream.tenant)
        if policy is None or text is None or (alarm_at is not None and alarm_at <= now):
            return False
        command, state = self._command(stream), kind.state(stream, schema, text)
        decision = kind.decider.decide(View(stream, state, version), command, policy, now)
        if decision.__class__ is not Decision or not decision.events:
            return False
        if decision.effects or decision.also or decision.verdict is not None:
            return False
        update = fold_stream(kind, stream, state, decision.events)
        if update[0] is None:
            return False
        said = self._text_of(command, stream, settings), _said_texts(decision, stream, settings)
        self._put(batch, stream, row, (turn_id(), now, kind.decider.schema, policy.fingerprint), said, update, settings)
        self.done.append(Recorded(stream, version + 1, now, policy.fingerprint, None, decision.reply))
        return True

    def _put(
        self,
        batch: Batch,
        stream: StreamId,
        row: Row,
        turn: tuple[str, Instant, int, str],
        said: tuple[str, tuple[str, str | None]],
        update: tuple[Any, Instant | None, Index],
        settings: EngineSettings,
    ) -> None:
        """Put a stream's segment and its new row into the batch; raise, and leave no trace, where they do not fit."""
        (turn_id, now, schema, policy), (command, (events, reply)), (state, alarm_at, listed) = turn, said, update
        text = text_of(state, settings.state_chars_max, "the state of", stream)
        version, rest = row[0] + 1, (None, None, reply, self._actor, "", "")
        segment = chain_segment(row[5], stream, version, turn_id, now, schema, command, events, policy, *rest)
        index = (listed.status, listed.owner, listed.due_at, listed.listed_at)
        columns = (stream, row[0], version, schema, text, now, alarm_at, segment.digest, *index)
        batch.changes.segments.append(segment)
        batch.written.append(_new_tuple(StreamWrite, columns))

    def _text_of(self, command: Command, stream: StreamId, settings: EngineSettings) -> str:
        """Return the text of a command, encoded once for all streams that are given the same."""
        known, text = self._asked
        if command is not known:
            text = text_of(command, settings.command_chars_max, "the command to", stream)
            self._asked = (command, text)
        return text


def _said_texts(decision: Decision, stream: StreamId, settings: EngineSettings) -> tuple[str, str | None]:
    """Return a decision's events and its reply as texts."""
    events = text_of(decision.events, settings.events_chars_max, "the events of", stream)
    if decision.reply is None:
        return events, None
    return events, text_of(decision.reply, settings.events_chars_max, "the reply of", stream)


@contextmanager
def pause_collector() -> Iterator[None]:
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
