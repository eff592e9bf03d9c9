"""DBOS schedules, a thread each: `python -m benchmarks.peers.dbos_schedules URL COUNT` prints what they did.

So many schedules have one tick at the same second; how late a workflow starts includes the jitter DBOS adds.
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

started: list[float] = []
all_started = threading.Event()
wanted = 0


@DBOS.workflow()  # type: ignore[untyped-decorator]
def brief(scheduled: datetime, context: Any) -> None:
    started.append(time.time())
    if len(started) >= wanted:
        all_started.set()


def main(url: str, count: str) -> None:
    global wanted
    wanted = int(count)
    config: DBOSConfig = {"name": "bench", "system_database_url": url, "run_admin_server": False}
    DBOS(config=config)
    DBOS.launch()
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20 + wanted / 8)
    cron = f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *"
    for number in range(wanted):
        DBOS.create_schedule(schedule_name=f"s{number}", workflow_fn=brief, schedule=cron, context=None)
    if datetime.now(UTC) >= due:
        raise SystemExit("the schedules were not made in time")
    all_started.wait((due - datetime.now(UTC)).total_seconds() + 300)
    late = sorted(at - due.timestamp() for at in started)
    print(json.dumps({"per_s": len(late) / late[-1], "p50_ms": late[len(late) // 2] * 1e3,
                      "p99_ms": late[int(len(late) * 0.99)] * 1e3, "started": len(late)}), flush=True)  # fmt: skip
    os._exit(0)  # its threads sleep for a year


if __name__ == "__main__":
    main(*sys.argv[1:])
