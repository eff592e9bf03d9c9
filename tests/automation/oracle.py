"""What must hold of schedules and sensors, read from the events alone: none of their rules, plans or folds is asked.

Schedules: between two changes of a definition, the occurrences of its expression and what was recorded are the same,
one to one. Sensors: versions move by one, cursors follow each other, what is stale causes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from betimes.core.instants import SECOND, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.testing.simulator import World
from betimes.testing.simulator.invariants import events_of

Event = dict[str, Any]


def check_automation(world: World) -> Iterator[str]:
    histories = world.server.database.histories
    for stream, history in sorted(histories.items()):
        if stream.kind == "schedule":
            yield from Schedule(stream, world.now()).check(history)
        elif stream.kind == "sensor":
            yield from _sensor(stream, history)
        elif stream.kind == "backfill":
            yield from _backfill(stream, history)
    yield from _ticks_are_unique(world)
    yield from _runs_follow_requests(world)


class Schedule:
    """One schedule's history, segment by segment."""

    def __init__(self, stream: StreamId, now: Instant) -> None:
        self.stream = stream
        self.now = now
        self.definition: Event | None = None
        self.enabled = False
        self.floor = 0

    def check(self, history: list[Segment]) -> Iterator[str]:
        for segment in history:
            yield from self._segment(segment, events_of(segment))
        if self.definition and self.enabled:
            owed = self._occurrences(self.floor, self.now)
            if len(owed) > (1 if self.definition.get("jitter_seconds") else 0):
                yield f"{self.stream} never dealt with {owed}"

    def _segment(self, segment: Segment, events: list[Event]) -> Iterator[str]:
        yield from self._covered(segment, events)
        for event in events:
            match event["type"]:
                case "ScheduleDefined" | "ScheduleEnabled" | "ScheduleDeleted":
                    if owed := self._occurrences(self.floor, event["at"]):
                        yield f"{segment.handle} leaves {owed} unrecorded"
                    self._changed(event)
                case "ScheduleDisabled":
                    self.enabled = False
                case _:
                    pass

    def _changed(self, event: Event) -> None:
        self.floor = event["at"]
        if event["type"] == "ScheduleDeleted":
            self.definition, self.enabled = None, False
        elif event["type"] == "ScheduleDefined":
            self.definition = event["definition"]
            self.enabled = self.definition.get("enabled", True)
        else:
            self.enabled = True

    def _covered(self, segment: Segment, events: list[Event]) -> Iterator[str]:
        """What this segment fires and skips is what occurred since the last one that did, each instant once."""
        found: list[Instant] = []
        for event in events:
            if event["type"] == "ScheduleTicked" and event.get("cause", "cron") in ("cron", "catchup"):
                found.append(event["scheduled_for"])
                if event["fired_at"] < event["scheduled_for"]:
                    yield f"{segment.handle} fires before the time"
                if event.get("error"):
                    yield f"{segment.handle} has a tick that failed: {event['error']}"
            elif event["type"] == "TicksSkipped":
                inside = self._occurrences(event["first"] - 1, event["last"])
                if event.get("count") != len(inside):
                    yield f"{segment.handle} counts {event.get('count')} where there are {len(inside)}"
                found += inside
        if not found:
            return
        expected = self._occurrences(self.floor, max(found))
        if sorted(found) != expected:
            yield f"{segment.handle} records {sorted(found)} where {expected} occurred"
        self.floor = max(found)

    def _occurrences(self, after: Instant, until: Instant) -> list[Instant]:
        if self.definition is None:
            return []
        step = int(self.definition["cron"].split()[0].removeprefix("*/"))
        until = min(until, self.definition["ends_at"] - 1)
        seconds = range(after // SECOND // step * step, until // SECOND + 1, step)
        return [second * SECOND for second in seconds if after < second * SECOND <= until]


def _sensor(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    version, cursor, out = 0, None, None
    messages: Counter[str] = Counter()
    for segment in history:
        events = events_of(segment)
        for event in events:
            kind = event["type"]
            if kind == "EvaluationStarted":
                if out is not None:
                    yield f"{segment.handle} starts an evaluation while another is out"
                out = event["evaluation_id"]
            elif kind in ("SensorDefined", "SensorEnabled", "SensorDisabled", "CursorReset"):
                if event["state_version"] != version + 1:
                    yield f"{segment.handle} moves the version from {version} to {event['state_version']}"
                version = event["state_version"]
                out = out if kind == "CursorReset" else None
                cursor = event["cursor"] if kind == "CursorReset" else cursor
            elif kind == "MessageReceived":
                messages[event["message_id"]] += 1
            elif kind == "SensorEvaluated":
                if message := event.get("message_id"):
                    messages[message] += 1
                yield from _evaluated(segment, events, event, version, cursor)
                if event["cause"] != "message" and event["status"] in ("triggered", "no_change"):
                    version, cursor = event["state_version"], event.get("cursor")
                out = None if event["evaluation_id"] == out or event.get("is_broken") else out
    for message, count in messages.items():
        if count > 1:
            yield f"{stream} took the message {message} {count} times"


def _evaluated(segment: Segment, events: list[Event], event: Event, version: int, cursor: Any) -> Iterator[str]:
    runs = [other for other in events if other["type"] == "RunRequested"]
    if event["cause"] == "message":
        return
    if event["status"] in ("triggered", "no_change"):
        if (event["expected_state_version"], event["state_version"]) != (version, version + 1):
            yield f"{segment.handle} accepts {event['expected_state_version']} at version {version}"
        if event.get("cursor_before") != cursor:
            yield f"{segment.handle} begins with the cursor {event.get('cursor_before')}, not {cursor}"
        if event["cause"] == "poll" and event.get("cursor") != (cursor or 0) + 1:
            yield f"{segment.handle} brings the cursor from {cursor} to {event.get('cursor')}"
    else:
        if runs:
            yield f"{segment.handle} is {event['status']} and asks for runs"
        if event.get("cursor") != cursor or event["state_version"] != version:
            yield f"{segment.handle} is {event['status']} and moves the sensor"


def _backfill(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    """What it asked for has ended, unless it was cancelled or paused; at no time were there too many."""
    running: set[str] = set()
    limit, is_open = 0, False
    for segment in history:
        for event in events_of(segment):
            match event["type"]:
                case "BackfillStarted":
                    limit, is_open = event["max_concurrency"], True
                case "BackfillAdvanced":
                    running |= set(event.get("running", ()))
                case "BackfillRunFinished":
                    running.discard(event["run_id"])
                case "BackfillPaused" | "BackfillEnded":
                    is_open = False
                case "BackfillResumed":
                    is_open = True
                case _:
                    pass
            if len(running) > limit:
                yield f"{segment.handle} has {len(running)} runs at once"
    if is_open:
        yield f"{stream} never ended"


def _ticks_are_unique(world: World) -> Iterator[str]:
    ticks: Counter[tuple[str, bool, Instant]] = Counter()
    for segment in world.server.database.segments:
        if segment.stream.kind == "schedule":
            for event in events_of(segment):
                if event["type"] == "ScheduleTicked":
                    ticks[segment.stream.id, event.get("cause") == "manual", event["scheduled_for"]] += 1
    for tick, count in ticks.items():
        if count > 1:
            yield f"the tick {tick} happened {count} times"


def _runs_follow_requests(world: World) -> Iterator[str]:
    """Every request that was not a repetition made one run in its own turn, and no run was made otherwise."""
    requested: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for segment in world.server.database.segments:
        for event in events_of(segment):
            if event["type"] == "RunRequested" and event.get("outcome", "requested") == "requested":
                requested[segment.turn, event["run_id"]] += 1
            elif event["type"] == "RunAsked":
                asked[segment.turn, segment.stream.id] += 1
    for turn, run_id in (requested - asked) + (asked - requested):
        yield f"the run {run_id} and its request in {turn} do not belong together"
    for run_id, count in Counter(run_id for _, run_id in asked).items():
        if count > 1:
            yield f"the run {run_id} was asked for {count} times"
