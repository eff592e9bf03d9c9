"""Policy changes: notify the streams whose instants may depend on the policy, page by page.

A postponed item carries its instant in its state, so a changed policy would act on it only at the stream's next
command or alarm. The change itself asks for the first leg of a pass, as a call that any process may carry out; each leg
visits a bounded number of streams in the order of their ids and answers where it stopped, and the commit that ends it
asks for the next. Nothing about a pass is kept in memory: a leg whose process dies is taken up by another from where it
began, and a stream that is told twice writes nothing the second time.

Each stream is told by an ordinary command through the queue, at most a batch at a time, so that no other command waits
for longer than a batch. A stream that cannot be decided is reported and passed by; it goes by the new policy at its
next command like any other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from betimes.core.deciders import EffectCall, Reconsider
from betimes.core.errors import Refused, StoreError
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.commit_queue import WorkerParts
from betimes.engine.jobs import AnswerPart, Job, JointAnswer, Submission
from betimes.engine.reports import Report
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.engine.tenants.decide import Leg
from betimes.engine.tenants.model import DEPLOYMENT, Visits

STREAMS_PER_LEG_MAX = 4_096
ACTOR = "policy"
_RECONSIDER = Reconsider()


class PolicyChangePass:
    """The executor of a pass's legs."""

    def __init__(self, parts: WorkerParts) -> None:
        self._store, self._queue, settings, self._report = parts
        self._page = min(settings.batch_max, PAGE_MAX)

    async def __call__(self, call: EffectCall) -> Any:
        """Visit what is next, and say what is left."""
        left = msgspec.convert(call.payload, Visits)
        # The deployment's policy lies under that of every tenant, so all of them are visited.
        tenant = None if call.id.tenant == DEPLOYMENT.tenant else call.id.tenant
        visited = moved = 0
        # A leg is bounded, and what is left is recorded when it ends: a process that dies repeats one leg at the most.
        while left.lists and visited < STREAMS_PER_LEG_MAX:
            rows = await self._store.streams(self._query(left, tenant))
            moved += await self._tell(rows, call)
            visited += len(rows)
            left = _behind(left, rows[-1].stream if len(rows) == self._page else None)
        return msgspec.to_builtins(Leg(visited=visited, moved=moved, left=left))

    def _query(self, left: Visits, tenant: str | None) -> StreamQuery:
        kind, status = left.lists[0]
        return StreamQuery(tenant=tenant, kind=kind, status=status or None, after=left.after, limit=self._page)

    async def _tell(self, rows: list[StreamRow], call: EffectCall) -> int:
        """Let these streams reconsider; how many wrote something."""
        joint = JointAnswer(len(rows))
        for place, row in enumerate(rows):
            asked = Submission(stream=row.stream, command=_RECONSIDER, actor=ACTOR)
            self._queue.put(Job(asked, cause=call.id.handle, answer=AnswerPart(joint, place)))
        moved = 0
        for row, result in zip(rows, await joint.wait(), strict=True):
            if isinstance(result, Recorded):
                moved += result.version > row.version
            # The leg fails and is tried again; a stream that is told twice writes nothing the second time.
            elif isinstance(result, StoreError):
                raise result
            elif not isinstance(result, Refused):  # deleted since it was listed
                self._report(Report("reconsider_failed", str(row.stream), result))
        return moved


def _behind(left: Visits, last: StreamId | None) -> Visits:
    """Return what is left behind the last stream of a page; without one, behind the whole list."""
    if last is not None:
        return msgspec.structs.replace(left, after=last)
    return msgspec.structs.replace(left, lists=left.lists[1:], after=None)
