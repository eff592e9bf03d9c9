"""APScheduler 3 with a durable job store: what `python -m benchmarks.peers.apscheduler_jobs URL COUNT LIMIT_S` prints.

So many jobs are stored in bulk while the scheduler is paused, and are due the instant it goes on. It is stopped at the
time limit; jobs that were not called by then count as late by the limit.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

from benchmarks.peers.lateness import summary

started: list[float] = []
all_started = threading.Event()
wanted = 0


def brief() -> None:
    started.append(time.time())
    if len(started) >= wanted:
        all_started.set()


def main(url: str, count: str, limit_s: str) -> None:
    global wanted
    wanted = int(count)
    store = SQLAlchemyJobStore(url=url.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = BackgroundScheduler(jobstores={"default": store}, executors={"default": ThreadPoolExecutor(16)})
    scheduler.start(paused=True)
    due = datetime.now(UTC)
    trigger = CronTrigger.from_crontab("0 0 1 1 *")
    rows = [_row(scheduler, f"j{number}", trigger, due) for number in range(wanted)]
    with store.engine.begin() as connection:
        connection.execute(store.jobs_t.insert(), rows)
    begun = time.time()
    scheduler.resume()
    all_started.wait(float(limit_s))
    print(json.dumps(summary([at - begun for at in started], wanted, float(limit_s))), flush=True)
    os._exit(0)  # it would go on with what is due


def _row(scheduler: BackgroundScheduler, id: str, trigger: CronTrigger, due: datetime) -> dict[str, object]:
    """A job as its store writes it."""
    job = Job(
        scheduler,
        id=id,
        name=id,
        func=brief,
        args=(),
        kwargs={},
        trigger=trigger,
        executor="default",
        coalesce=True,
        misfire_grace_time=None,
        max_instances=2,
        next_run_time=due,
    )
    return {
        "id": id,
        "next_run_time": due.timestamp(),
        "job_state": pickle.dumps(job.__getstate__(), pickle.HIGHEST_PROTOCOL),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
