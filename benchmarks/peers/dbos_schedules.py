"""DBOS schedules, a thread each: `python -m benchmarks.peers.dbos_schedules URL COUNT LIMIT_S` prints what they did.

So many schedules, applied in bulk, have one tick at the same second; how late a workflow starts includes the jitter
DBOS adds. Workflows that have not started at the time limit count as late by the limit.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from dbos import DBOS, DBOSConfig

from benchmarks.peers.lateness import summary

SET_UP_S = 40
"""From making the schedules to their tick: DBOS looks for new ones only so often, and starts a thread for each."""
started: list[float] = []
all_started = threading.Event()
wanted = 0


@DBOS.workflow()  # type: ignore[untyped-decorator]
def brief(scheduled: datetime, context: Any) -> None:
    started.append(time.time())
    if len(started) >= wanted:
        all_started.set()


def main(url: str, count: str, limit_s: str) -> None:
    global wanted
    wanted = int(count)
    config: DBOSConfig = {"name": "bench", "system_database_url": url, "run_admin_server": False}
    DBOS(config=config)
    DBOS.launch()
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=SET_UP_S)
    cron = f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *"
    DBOS.apply_schedules(
        [
            {"schedule_name": f"s{number}", "workflow_fn": brief, "schedule": cron, "context": None}
            for number in range(wanted)
        ]
    )
    if datetime.now(UTC) >= due:
        raise SystemExit("the schedules were not made in time")
    all_started.wait((due - datetime.now(UTC)).total_seconds() + float(limit_s))
    print(json.dumps(summary([at - due.timestamp() for at in started], wanted, float(limit_s))), flush=True)
    os._exit(0)  # its threads sleep for a year


if __name__ == "__main__":
    main(*sys.argv[1:])
