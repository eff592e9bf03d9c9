"""The queue of a process, fair between tenants.

Each tenant has a queue of its own, first come, first served. Jobs are taken round by round, one of each tenant that
has any, so a tenant that floods the process delays its own jobs and hardly anybody else's. With one tenant it is an
ordinary queue.

A job that comes while a batch is being written waits for it. So where several tenants were served lately, one of them
gets only a part of a batch: it would otherwise fill all of it between two jobs of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from betimes.engine.jobs import Job
from betimes.engine.tenants.model import DEPLOYMENT

PART_OF_BATCH = 8
PART_MIN = 16
"""A tenant's part of a batch among others: an eighth of it, and at least so many jobs."""
LATELY_BATCHES = 64
"""For how many batches a tenant that was served counts as one of several."""


class FairQueue:
    """Jobs that wait, by tenant; where several have any, one gets this part of a batch."""

    def __init__(self, part_of_batch: int = PART_OF_BATCH) -> None:
        self._part_of_batch = part_of_batch
        self._queues: dict[str, deque[Job]] = {}
        """The tenants that have jobs, whose turn is next first."""
        self.size = 0
        """How many jobs wait."""
        self._batch = 0
        self._served: dict[str, int] = {}
        """The tenants that were served lately, each with its last batch, which is also their order."""

    def __iter__(self) -> Iterator[Job]:
        for queue in self._queues.values():
            yield from queue

    def count(self, tenant: str) -> int:
        """Return how many jobs of a tenant wait."""
        return len(self._queues.get(tenant, ()))

    def append(self, job: Job) -> None:
        """Put a job behind those of its tenant."""
        queue = self._queues.get(job.tenant)
        if queue is None:
            queue = self._queues[job.tenant] = deque()
        queue.append(job)
        self.size += 1

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Put jobs that were taken before those of their tenants, in the order given."""
        # The last one first, so that each lands before the one that stood behind it.
        for job in reversed(list(jobs)):
            self._queues.setdefault(job.tenant, deque()).appendleft(job)
            self.size += 1

    def take(self, limit: int) -> list[Job]:
        """Take up to `limit` jobs, one of each tenant in turn; who was served last is the last to be served again."""
        taken: list[Job] = []
        # The deployment's own commands, such as its policy at every start, are nobody's competition.
        others = (self._served.keys() | self._queues.keys()) - {DEPLOYMENT.tenant}
        most = max(limit // self._part_of_batch, PART_MIN) if len(others) > 1 else limit
        # Each gets at least one, so more tenants than the limit cannot be served.
        waiting = dict.fromkeys(islice(self._queues, limit), most)
        self._note(waiting)
        while waiting and len(taken) < limit:
            tenant, part = next(iter(waiting.items()))
            del waiting[tenant]
            # The last tenant left takes what remains at once: nobody else waits for a turn in between.
            count = 1 if waiting else min(part, limit - len(taken))
            left = self._take_of(tenant, count, taken)
            if left and part > count:
                waiting[tenant] = part - count
        self.size -= len(taken)
        return taken

    def _take_of(self, tenant: str, count: int, taken: list[Job]) -> int:
        """Take so many jobs of one tenant, as far as it has them, and let it stand last; return how many are left."""
        queue = self._queues.pop(tenant)
        taken += [queue.popleft() for _ in range(min(count, len(queue)))]
        if queue:
            self._queues[tenant] = queue
        return len(queue)

    def _note(self, tenants: Iterable[str]) -> None:
        self._batch += 1
        for tenant in tenants:
            # Taken out first, so that it moves to the end: the dict is ordered by the last batch.
            self._served.pop(tenant, None)
            self._served[tenant] = self._batch
        while self._served and next(iter(self._served.values())) <= self._batch - LATELY_BATCHES:
            del self._served[next(iter(self._served))]

    def clear(self) -> None:
        """Forget all jobs."""
        self._queues.clear()
        self.size = 0
