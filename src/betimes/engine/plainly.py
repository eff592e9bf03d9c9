"""One command for many streams that are due, decided and written with as little as possible around it.

A sweep decides the same small thing for a million streams. Most of what a job carries (keys, sends, other streams,
verdicts, effects, a cached state) is not there then, and carrying it costs more than deciding. Here a stream that was
picked goes from its row to its new row in one loop. The decider is the same and so is everything that is written;
whatever is not plain (an alarm that is due, a verdict, an effect, a refusal, a failure of any kind) is left out and
decided as a job like any other, which is also what says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeGuard

from betimes.core.canonical import encode
from betimes.core.deciders import Command, Decision, Index, Refusal, View
from betimes.core.instants import Instant
from betimes.core.segments import Recorded, Segment, chained_digest
from betimes.core.streams import StreamId
from betimes.engine.kinds import Kinds
from betimes.engine.settings import EngineSettings
from betimes.engine.store import Row, StreamWrite
from betimes.engine.workspace import Workspace

_INSTANT = (int, type(None))


class Plainly:
    """What is to be decided for every stream of a pass, and what came of those that were plain."""

    def __init__(self, command: Callable[[StreamId], Command], actor: str) -> None:
        self._command = command
        self._actor = actor
        self._asked: tuple[Command | None, str] = (None, "")
        self.done: list[Recorded] = []

    def decide(
        self,
        workspace: Workspace,
        picked: Iterable[tuple[StreamId, Row]],
        now: Instant,
        kinds: Kinds,
        settings: EngineSettings,
        turn_id: Callable[[], str],
    ) -> list[StreamId]:
        """Put what is plain into the working set; the streams that are not."""
        left: list[StreamId] = []
        for stream, row in picked:
            at = row[3]
            try:
                after = _after(stream, row, now if now > at else at, self._command(stream), kinds, workspace)
                if after is None:
                    left.append(stream)
                else:
                    self._write(workspace, stream, row, after, settings, turn_id())
            except Exception:  # noqa: BLE001 — deciding it as a job tells what is wrong with it
                left.append(stream)
        return left

    def _write(
        self, workspace: Workspace, stream: StreamId, row: Row, after: _After, settings: EngineSettings, turn: str
    ) -> None:
        command, now, state, decision, alarm_at, listed, schema, policy = after
        asked, text, events = self._text_of(command), encode(state), encode(decision.events)
        reply = decision.reply
        replied = None if reply is None else encode(reply)
        if (
            len(asked) > settings.command_chars_max
            or len(text) > settings.state_chars_max
            or len(events) + len(replied or "") > settings.events_chars_max
        ):
            raise ValueError("past a bound")
        expected, prev, actor = row[0], row[5], self._actor
        version = expected + 1
        digest = chained_digest(
            prev, stream, version, turn, now, schema, asked, events, policy, None, None, replied, actor, "", ""
        )
        workspace.changes.segments.append(
            Segment(
                stream, version, turn, now, schema, asked, events, policy, prev, digest, None, None, replied, actor
            )
        )  # fmt: skip
        workspace.written.append(
            StreamWrite(
                stream, expected, version, schema, text, now, alarm_at, digest, listed.status, listed.owner,
                listed.due_at,
            )
        )  # fmt: skip
        self.done.append(Recorded(stream, version, now, policy, None, reply))

    def _text_of(self, command: Command) -> str:
        known, text = self._asked
        if command is not known:
            text = encode(command)
            self._asked = (command, text)
        return text


_After: TypeAlias = tuple[Command, Instant, Any, Decision, Instant | None, Index, int, str]
"""The command, when, the state it leads to, the decision, alarm and index, schema and policy."""


def _after(
    stream: StreamId, row: Row, now: Instant, command: Command, kinds: Kinds, workspace: Workspace
) -> _After | None:
    """What the command leads to, if that is plain."""
    version, schema, text, _, alarm_at, _ = row
    policy = workspace.policy(stream.tenant)
    if policy is None or text is None or (alarm_at is not None and alarm_at <= now):
        return None
    kind = kinds.of(stream)
    decider = kind.decider
    state: Any = kind.state(stream, schema, text)
    decision = decider.decide(View(stream, state, version), command, policy, now)
    if not _is_plain(decision):
        return None
    for event in decision.events:
        if event.__class__ not in kind.event_classes:
            return None
        state = decider.fold(state, event)
    if state is None:
        return None
    alarm_at, listed = decider.alarm(state), decider.index(state)
    if alarm_at.__class__ not in _INSTANT or listed.due_at.__class__ not in _INSTANT:
        return None
    return command, now, state, decision, alarm_at, listed, decider.schema, policy.fingerprint


def _is_plain(decision: Decision | Refusal) -> TypeGuard[Decision]:
    if decision.__class__ is not Decision:
        return False
    return bool(decision.events) and not decision.effects and not decision.also and decision.verdict is None
