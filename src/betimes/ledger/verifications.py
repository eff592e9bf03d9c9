"""Verifications: when the ledger was last replayed and compared with what is stored, by whom, and with what result.

`betimes verify` puts each on record as a segment of `operation:verification`: of the tenant that it was about, or of
the deployment if it was about everything. The segment is written after the replay, so it is not part of what was
verified.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from betimes.core.datetimes import moment
from betimes.core.errors import BetimesError
from betimes.core.segments import Segment
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import SUBJECTS_MAX, RecordOperation, operation_stream
from betimes.domain.operations.service import record_operation
from betimes.domain.service import Caller, Service
from betimes.engine.codecs import checkpoint_of
from betimes.engine.engine import Engine
from betimes.engine.replay import VerifyReport
from betimes.engine.tenants.model import DEPLOYMENT
from betimes.ledger.reader import LedgerReader

COLLECTION = "verification"
LOOKED_AT_MAX = 500
"""Records, to find the last about the whole."""


class VerificationView(JsonView, frozen=True, kw_only=True):
    """A replay of the ledger."""

    at: datetime
    """When it had ended."""
    by: str
    everything: bool
    """Whether it covered all tenants; without a `kind`, also the database as a whole."""
    kind: str | None
    """Of the streams, if it was about one kind only."""
    sound: bool
    """Whether everything matches the ledger."""
    findings: int
    """How much is not."""
    streams: int | None
    """Number replayed; `null` for all tenants if the key may not know."""
    segments: int | None
    segment_id: str | None
    """Of its record; `null` if the key may not read that."""


class Verifications(LedgerReader):
    """Says when the ledger was last verified."""

    async def verifications(self) -> list[VerificationView]:
        """Return the last verification of the tenant's streams and the last of all tenants', the later one first.

        Where one was about a part only, the last one before it that was about the whole is there too.
        """
        tenants = dict.fromkeys((self.caller.tenant, DEPLOYMENT.tenant))
        found = [view for tenant in tenants for view in await self._last_of(tenant)]
        return sorted(found, key=lambda view: view.at, reverse=True)

    async def _last_of(self, tenant: str) -> list[VerificationView]:
        stream, store, is_own = operation_stream(tenant, COLLECTION), self.engine.store, tenant == self.caller.tenant
        row = (await store.load([stream])).get(stream)
        _, page = await store.history(stream, max(0, row.version - LOOKED_AT_MAX), LOOKED_AT_MAX) if row else (None, ())
        found: dict[tuple[str, ...], VerificationView] = {}
        for segment in reversed(page):
            if segment.command is None or checkpoint_of(segment):
                break  # pruned since
            command = self.engine.kinds.of(stream).command(segment.command, segment)
            if not isinstance(command, RecordOperation) or (not is_own and "tenant" in command.filter):
                continue
            view = _view(segment, command, is_own=is_own, is_readable=is_own and self.may_see(stream.kind))
            found.setdefault(tuple(command.filter.values()), view)
            if not command.filter:
                break
        return list(found.values())


def _view(segment: Segment, command: RecordOperation, *, is_own: bool, is_readable: bool) -> VerificationView:
    result = command.result
    return VerificationView(
        at=moment(segment.at),
        by=segment.actor,
        everything=segment.stream.tenant == DEPLOYMENT.tenant and "tenant" not in command.filter,
        kind=command.filter.get("kind"),
        sound=not result.get("findings", 0),
        findings=result.get("findings", 0),
        streams=result.get("streams") if is_own else None,
        segments=result.get("segments") if is_own else None,
        segment_id=segment.handle if is_readable else None,
    )


async def record_verification(
    engine: Engine, report: VerifyReport, *, tenant: str | None, kind: str | None, actor: str
) -> None:
    """Put a verification on record; what keeps it from being written is a note of its report."""
    if not report.streams:
        return  # an empty database stays empty
    subjects = dict.fromkeys(str(found.stream) if found.stream else found.row for found in report.findings)
    result: dict[str, Any] = {"streams": report.streams, "segments": report.segments, "findings": len(report.findings)}
    if report.head:
        result["head"] = str(report.head)
    part = {"kind": kind} if kind else {}
    if tenant == DEPLOYMENT.tenant:
        part["tenant"] = tenant  # its own streams alone, and not everything, whose record lies there too
    recorder = Service(engine, Caller(tenant or DEPLOYMENT.tenant, actor))
    try:
        await record_operation(
            recorder,
            COLLECTION,
            "verify",
            list(subjects)[:SUBJECTS_MAX],
            note=None,
            chosen_by=part,
            result=result,
        )
    except BetimesError as error:  # the report is what was asked for
        report.notes.append(f"the result could not be recorded: {error}")
