"""Asking for runs: names, fingerprints, duplicates and conflicts.

A run is named by its key, which is the tenant's. The same key with the same fingerprint means the same run and changes
nothing; with another fingerprint the first stays, and the conflict is recorded on it. Whatever asks writes `RunAsked`
on the run's stream in its own turn, together with the one effect that brings about the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from betimes.core.canonical import fingerprint
from betimes.core.deciders import Effect, Event
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domain.targets import Cause, CommandTarget, Target, effect_of
from betimes.runs.model import RunAsked, RunConflicted, RunState, run_id_of, run_stream
from betimes.schedules.model import Outcome
from betimes.schedules.nominal_time import NO_NOMINAL_TIME, NominalTime


class Wanted(msgspec.Struct, frozen=True):
    """One run that is wanted."""

    run_key: str
    target: Target
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] | None = None
    payload: dict[str, Any] = {}
    nominal: NominalTime | None = None

    def fingerprint(self) -> str:
        """What must agree for it to be the same run."""
        partitions = self.partition_selection
        return fingerprint((self.target, sorted(self.asset_selection), partitions and sorted(partitions), self.payload))

    def body(self, run_id: str) -> dict[str, Any]:
        """What a handler or webhook is given."""
        return {
            "run_id": run_id,
            "run_key": self.run_key,
            **(self.nominal.body() if self.nominal else NO_NOMINAL_TIME),
            "asset_selection": self.asset_selection,
            "partition_selection": self.partition_selection,
            "payload": self.payload,
        }


class Answered(msgspec.Struct, frozen=True):
    run_key: str
    run_id: str
    fingerprint: str
    outcome: Outcome


class Requests:
    """The runs that one turn asks for, gathered one after the other."""

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

    def existing(self, run_key: str) -> RunState | None:
        """The run that has this key already, if this turn has seen it."""
        found = self._others.get(self._stream(run_key))
        return found if isinstance(found, RunState) else None

    def ask(self, wanted: Wanted) -> Answered:
        stream, print_ = self._stream(wanted.run_key), wanted.fingerprint()
        known = self._known(stream)
        if known is None:
            outcome: Outcome = "requested"
            self._request(stream, wanted, print_)
        elif known == print_:
            outcome = "duplicate"
        else:
            outcome = "conflict"
            conflict = RunConflicted(print_, self._asked_by, self._now)
            self.also[stream] = (*self.also.get(stream, ()), conflict)
        return Answered(wanted.run_key, stream.id, print_, outcome)

    def _stream(self, run_key: str) -> StreamId:
        tenant = self._asked_by.tenant
        return run_stream(tenant, run_id_of(tenant, run_key))

    def _known(self, stream: StreamId) -> str | None:
        """The fingerprint of a run that was asked for before, in this turn or an earlier one."""
        found = self._others.get(stream)
        return found.fingerprint if isinstance(found, RunState) else self._asked.get(stream)

    def _request(self, stream: StreamId, wanted: Wanted, print_: str) -> None:
        kind = str(wanted.target.__struct_config__.tag)
        tell = self.tells and not isinstance(wanted.target, CommandTarget)
        self._asked[stream] = print_
        self.also[stream] = (RunAsked(wanted.run_key, print_, kind, self._asked_by, self._now, tell),)
        body = wanted.body(stream.id)
        cause = Cause(
            key=wanted.run_key,
            at=self._now,
            payload=wanted.payload,
            body=body,
            report_to=stream,
            is_run=True,
            nominal=wanted.nominal,
            authority=self._authority,
        )
        self.effects.append(effect_of(stream.tenant, wanted.target, cause))


def ends_at_once(target: Target) -> bool:
    """A command is applied with the turn that takes it; there is nothing to wait for."""
    return isinstance(target, CommandTarget)


def runs_of(tenant: str, run_keys: Iterable[str]) -> tuple[StreamId, ...]:
    """The streams an evaluation must see to answer at once."""
    return tuple(run_stream(tenant, run_id_of(tenant, key)) for key in dict.fromkeys(run_keys))
