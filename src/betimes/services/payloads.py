"""The payloads that a run sees: they stay in the segments of the triggers that brought them."""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.domains.runs.model import RunState, account_stream
from betimes.engine.store import Store


class _Trigger(msgspec.Struct):
    """The part of a trigger's command that its run sees."""

    payload: dict[str, Any] = {}


_triggers = msgspec.json.Decoder(_Trigger)


async def payloads_of(store: Store, tenant: str, run: RunState) -> list[Any]:
    """The payloads of the triggers that led to a run, in the order they came; those that were pruned are left out."""
    account = account_stream(tenant, run.account_id)
    payloads: list[Any] = []
    for version in run.segments:
        _, segments = await store.history(account, version - 1, 1)
        payloads += [_triggers.decode(segment.command).payload for segment in segments
                     if segment.version == version and segment.command]  # fmt: skip
    return payloads
