"""Requests for runs by schedules and sensors: names, fingerprints, duplicates and conflicts.

A run is named by its key, which is unique in its tenant. The same key with the same fingerprint is the same run, and
asking again changes nothing; with another fingerprint the first run stays, and the conflict is recorded on it. A
request writes `RunAsked` on the run's stream in the turn of whoever asks, together with the one effect that brings
about the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.canonical import fingerprint
from betimes.core.deciders import Effect, Event
from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId
from betimes.domain.targets import Cause, CommandTarget, Target, effect_of
from betimes.runs.model import RunAsked, RunConflicted, RunState, run_id_of, run_stream
from betimes.schedules.nominal_time import NO_NOMINAL_TIME, NominalTime

SELECTION_MAX = 1_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Selection = Annotated[tuple[Name, ...], msgspec.Meta(max_length=SELECTION_MAX)]
RequestOutcome: TypeAlias = Literal["requested", "duplicate", "conflict"]


class RunRequested(StoredMessage):
    """A run was requested. Fields that are `None` are those of the snapshot of its tick or evaluation."""

    run_key: str
    run_id: str
    fingerprint: str
    outcome: RequestOutcome = "requested"
    target: Target | None = None
    asset_selection: tuple[str, ...] | None = None
    partition_selection: tuple[str, ...] | None = None
    payload: dict[str, Any] | None = None


class WantedRun(msgspec.Struct, frozen=True):
    """One run to ask for."""

    run_key: str
    target: Target
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] | None = None
    payload: dict[str, Any] = {}
    nominal: NominalTime | None = None

    def fingerprint(self) -> str:
        """Return the digest of everything that must agree for it to be the same run."""
        # Selections are sets: the same names in another order ask for the same run.
        partitions = self.partition_selection
        return fingerprint((self.target, sorted(self.asset_selection), partitions and sorted(partitions), self.payload))

    def body(self, run_id: str) -> dict[str, Any]:
        """Return the body that a handler or webhook receives."""
        return {
            "run_id": run_id,
            "run_key": self.run_key,
            **(self.nominal.body() if self.nominal else NO_NOMINAL_TIME),
            "asset_selection": self.asset_selection,
            "partition_selection": self.partition_selection,
            "payload": self.payload,
        }


class RunRequests:
    """Collects the runs that one turn asks for, with their events and effects."""

    def __init__(
        self,
        asked_by: StreamId,
        others: Mapping[StreamId, Any],
        now: Instant,
        *,
        tell: bool = False,
        authority: tuple[str, ...] | None = None,
    ) -> None:
        self._authority = authority
        self._asked_by = asked_by
        self._others = others
        self._now = now
        self.tells = tell
        self._asked: dict[StreamId, str] = {}
        self.also: dict[StreamId, tuple[Event, ...]] = {}
        self.effects: list[Effect] = []

    def existing_run(self, run_key: str) -> RunState | None:
        """Return the run that has this key already, if this turn has loaded it."""
        found = self._others.get(self._stream(run_key))
        return found if isinstance(found, RunState) else None

    def ask(self, run: WantedRun) -> RunRequested:
        """Ask for a run unless it exists; return the event that records the outcome."""
        stream, print_ = self._stream(run.run_key), run.fingerprint()
        known = self._known_fingerprint(stream)
        if known is None:
            outcome: RequestOutcome = "requested"
            self._request(stream, run, print_)
        elif known == print_:
            outcome = "duplicate"
        else:
            outcome = "conflict"
            conflict = RunConflicted(print_, self._asked_by, self._now)
            self.also[stream] = (*self.also.get(stream, ()), conflict)
        return RunRequested(run.run_key, stream.id, print_, outcome)

    def _stream(self, run_key: str) -> StreamId:
        tenant = self._asked_by.tenant
        return run_stream(tenant, run_id_of(tenant, run_key))

    def _known_fingerprint(self, stream: StreamId) -> str | None:
        """Return the fingerprint of a run that was requested before, in this turn or an earlier one."""
        found = self._others.get(stream)
        return found.fingerprint if isinstance(found, RunState) else self._asked.get(stream)

    def _request(self, stream: StreamId, run: WantedRun, print_: str) -> None:
        kind = str(run.target.__struct_config__.tag)
        tell = self.tells and not ends_at_once(run.target)
        # A turn may ask for one key twice, and the first is not among what was loaded.
        self._asked[stream] = print_
        self.also[stream] = (RunAsked(run.run_key, print_, kind, self._asked_by, self._now, tell),)
        cause = Cause(
            key=run.run_key,
            at=self._now,
            payload=run.payload,
            body=run.body(stream.id),
            report_to=stream,
            is_run=True,
            nominal=run.nominal,
            authority=self._authority,
        )
        self.effects.append(effect_of(stream.tenant, run.target, cause))


def ends_at_once(target: Target) -> bool:
    """Return whether there is no end to wait for: a command is applied in the turn that takes it."""
    return isinstance(target, CommandTarget)


def run_streams(tenant: str, run_keys: Iterable[str]) -> tuple[StreamId, ...]:
    """Return the streams of these runs, each once: a turn must load them to know which runs exist."""
    return tuple(run_stream(tenant, run_id_of(tenant, key)) for key in dict.fromkeys(run_keys))
