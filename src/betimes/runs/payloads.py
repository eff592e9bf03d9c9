"""The payloads and the nominal time that a run sees: they stay in the segments of the triggers that brought them."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.engine.codecs import decode_text
from betimes.engine.store import Store
from betimes.runs.model import RunState, account_stream
from betimes.schedules.nominal_time import NominalTime


class _Trigger(msgspec.Struct):
    """The part of a trigger's command that its run sees."""

    payload: dict[str, Any] = {}
    nominal: NominalTime | None = None


_triggers = msgspec.json.Decoder(_Trigger)


class RunInput(msgspec.Struct, frozen=True):
    """The payloads and the nominal time that the triggers of a run brought."""

    payloads: list[Any] = []
    """In the order they came; those that were pruned are left out."""
    nominal: NominalTime | None = None
    """Of the last tick that asked for it, if a schedule did."""

    def body(self) -> dict[str, Any]:
        """Return the fields that the run's handler is given besides the detail."""
        return {**(self.nominal.body() if self.nominal else {}), "payloads": self.payloads}


async def run_input_of(store: Store, tenant: str, run: RunState) -> RunInput:
    """Read the input of a run from the segments of its triggers."""
    triggers = await _triggers_of(store, tenant, run)
    nominal = max((found.nominal for found in triggers if found.nominal), default=None, key=lambda it: it.scheduled_for)
    return RunInput([found.payload for found in triggers], nominal)


async def _triggers_of(store: Store, tenant: str, run: RunState) -> list[_Trigger]:
    account = account_stream(tenant, run.account_id)
    triggers: list[_Trigger] = []
    for version in run.segments:
        _, segments = await store.history(account, version - 1, 1)
        triggers += [
            decode_text(_triggers, segment.command, "the trigger of", segment)
            for segment in segments
            if segment.version == version and segment.command
        ]
    return triggers
