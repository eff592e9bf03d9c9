"""Bulk claims of intents by workers outside: the longest due first, past what others hold or must do."""

from __future__ import annotations

from collections.abc import Sequence

from betimes.core.errors import BetimesError, Refused
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.domain.service import Service
from betimes.intents.due import DueIntents
from betimes.intents.lists import statuses
from betimes.intents.model import Claimed, ClaimIntent, Definition

ROUNDS_MAX = 3
"""How often another read replaces intents that other workers claimed meanwhile."""


async def claim_due(
    service: Service, command: ClaimIntent, limit: int, *, user_id: str | None, trigger_type: str | None
) -> list[Recorded]:
    """Claim up to `limit` due intents, of one user or type if given.

    Claims that succeeded are returned although others failed; if none did, the first failure is raised.
    """
    taken: list[Recorded] = []
    if user_id is None and trigger_type is None:
        taken, is_all = await _claim_first(service, command, limit)
        if is_all:
            return taken
    among = statuses(trigger_type, True, ("any", "outside"))
    due = DueIntents(service.engine, service.caller.tenant, among, _is_readable, owner=user_id)
    for _ in range(ROUNDS_MAX):
        wanted = limit - len(taken)
        streams = [intent.stream for intent in await due.find(wanted)]
        granted, failed = await _claim_each(service, streams, command)
        taken += granted
        if failed and not taken:
            raise failed[0]
        # Fewer than were wanted means that no more are due; after a failure the same ones would be found again.
        if failed or len(taken) >= limit or len(streams) < wanted:
            break
    return taken


async def _is_readable(stream: StreamId, definition: Definition) -> bool:
    return True


async def _claim_first(service: Service, command: ClaimIntent, limit: int) -> tuple[list[Recorded], bool]:
    """Claim from the head of the queue in one transaction; whether nothing there was in the way."""
    caller = service.caller
    failed: list[StreamId] = []
    taken: Sequence[Recorded] = await service.engine.submit_due(
        ("intent",),
        lambda stream: command,
        limit,
        tenant=caller.tenant,
        actor=caller.actor,
        note=caller.note,
        failed=lambda stream, error: failed.append(stream),
    )
    granted = [recorded for recorded in taken if isinstance(recorded.reply, Claimed)]
    return granted, len(granted) == len(taken) and not failed


async def _claim_each(
    service: Service, streams: Sequence[StreamId], command: ClaimIntent
) -> tuple[list[Recorded], list[BetimesError]]:
    """Claim these intents, except those claimed by others; return the claims and the errors."""
    answers = await service.engine.submit_many([service.submission(stream, command) for stream in streams])
    granted = [answer for answer in answers if isinstance(answer, Recorded) and isinstance(answer.reply, Claimed)]
    return granted, [
        answer for answer in answers if isinstance(answer, BetimesError) and not isinstance(answer, Refused)
    ]
