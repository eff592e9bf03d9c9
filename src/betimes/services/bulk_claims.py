"""Bulk claims of intents by workers outside: the longest due first, past what others hold or must do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from betimes.core.errors import Refused
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domains.intents.model import Claimed, ClaimIntent, Definition
from betimes.services.caller import Service
from betimes.services.due_intents import DueIntents

ROUNDS_MAX = 3
"""How often those that somebody else took meanwhile are made up for by another look."""


async def claim_due(
    service: Service, command: ClaimIntent, limit: int, *, user_id: str | None, trigger_type: str | None
) -> list[Recorded]:
    """Claim up to `limit` due intents, of one user or type if given."""

    def fits(stream: StreamId, definition: Definition) -> bool:
        return definition.worker != "builtin" and trigger_type in (None, definition.trigger_type)

    taken: list[Recorded] = []
    if user_id is None and trigger_type is None:
        taken, is_all = await _claim_first(service, command, limit)
        if is_all:
            return taken
    due = DueIntents(service.engine, service.caller.tenant, fits, owner=user_id)
    for _ in range(ROUNDS_MAX):
        wanted = limit - len(taken)
        streams = await due.find(wanted)
        taken += await _claim_each(service, streams, command)
        if len(taken) >= limit or len(streams) < wanted:
            break
    return taken


async def _claim_first(service: Service, command: ClaimIntent, limit: int) -> tuple[list[Recorded], bool]:
    """Claim from the head of the queue in one transaction; whether nothing there was in the way."""
    caller = service.caller
    taken: Sequence[Recorded] = await service.engine.submit_due(
        ("intent",), lambda stream: command, limit, tenant=caller.tenant, actor=caller.actor
    )
    granted = [recorded for recorded in taken if isinstance(recorded.reply, Claimed)]
    return granted, len(granted) == len(taken)


async def _claim_each(service: Service, streams: Sequence[StreamId], command: ClaimIntent) -> list[Recorded]:
    """Claim these, without those that somebody else has taken."""
    granted: list[Recorded] = []
    for answer in await asyncio.gather(*(service.submit(one, command) for one in streams), return_exceptions=True):
        if isinstance(answer, Recorded):
            granted += [answer] if isinstance(answer.reply, Claimed) else []
        elif not isinstance(answer, Refused):
            raise answer
    return granted
