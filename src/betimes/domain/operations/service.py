"""Putting operations on record, before they are carried out: a process that dies in between leaves who asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from betimes.domain.operations.model import RecordOperation, operation_stream
from betimes.domain.service import Service


async def record_operation(
    service: Service,
    collection: str,
    action: str,
    subjects: Iterable[str],
    *,
    note: str | None,
    chosen_by: Any = None,
    result: Mapping[str, Any] | None = None,
) -> str:
    """Record what the service's caller is about to do to these, or did; return the id of the segment.

    Without a note of this operation it is the caller's.
    """
    # As plain data, since a filter may be a struct of any domain.
    chosen = {} if chosen_by is None else msgspec.to_builtins(chosen_by)
    command = RecordOperation(action, tuple(subjects), note or service.caller.note, chosen, dict(result or {}))
    return (await service.submit(operation_stream(service.caller.tenant, collection), command)).segment_id
