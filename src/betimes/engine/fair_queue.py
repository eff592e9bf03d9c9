"""The queue of a process, fair between tenants.

Each tenant has a queue of its own, first come, first served. Jobs are taken round by round, one of each tenant that
has any, so a tenant that floods the process delays its own jobs and hardly anybody else's. With one tenant it is an
ordinary queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from betimes.engine.jobs import Job


class FairQueue:
    """Jobs that wait, by tenant."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Job]] = {}
        """The tenants that have jobs, whose turn is next first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

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
        self._count += 1

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Put jobs that were taken before those of their tenants, in the order given."""
        for job in reversed(list(jobs)):
            self._queues.setdefault(job.tenant, deque()).appendleft(job)
            self._count += 1

    def take(self, limit: int) -> list[Job]:
        """Take up to `limit` jobs, one of each tenant in turn; who was served last is the last to be served again."""
        taken: list[Job] = []
        while self._queues and len(taken) < limit:
            tenant = next(iter(self._queues))
            queue = self._queues.pop(tenant)
            if self._queues:
                taken.append(queue.popleft())
            else:  # nobody else waits
                taken += [queue.popleft() for _ in range(min(len(queue), limit - len(taken)))]
            if queue:
                self._queues[tenant] = queue
        self._count -= len(taken)
        return taken

    def clear(self) -> None:
        """Forget all jobs."""
        self._queues.clear()
        self._count = 0
