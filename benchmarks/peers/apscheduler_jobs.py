"""APScheduler 3 with a durable job store: `python -m benchmarks.peers.apscheduler_jobs URL COUNT` prints what it did.

So many jobs are stored while the scheduler is paused and are due the instant it goes on.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

started: list[float] = []
all_started = threading.Event()
wanted = 0


def brief() -> None:
    started.append(time.time())
    if len(started) >= wanted:
        all_started.set()


def main(url: str, count: str) -> None:
    global wanted
    wanted = int(count)
    store = SQLAlchemyJobStore(url=url.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = BackgroundScheduler(jobstores={"default": store}, executors={"default": ThreadPoolExecutor(16)})
    scheduler.start(paused=True)
    trigger = CronTrigger.from_crontab("0 0 1 1 *")
    for number in range(wanted):
        scheduler.add_job(
            brief, trigger, id=f"j{number}", next_run_time=datetime.now(UTC), misfire_grace_time=None, max_instances=2
        )
    due = time.time()
    scheduler.resume()
    all_started.wait(600)
    late = sorted(at - due for at in started)
    scheduler.shutdown(wait=False)
    store.jobs_t.drop(store.engine)
    print(json.dumps({"per_s": len(late) / late[-1], "p50_ms": late[len(late) // 2] * 1e3,
                      "p99_ms": late[int(len(late) * 0.99)] * 1e3}))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
