"""`python -m benchmarks.peers.dbos_debounce URL TOTAL THREADS`: triggers debounced by DBOS, a second.

Every call names one of a thousand accounts and a period longer than the measurement, so that most find a debounced
workflow waiting and push it out, as triggers of a busy account do.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ACCOUNTS = 1_000
PERIOD_S = 600.0


def main(url: str, total: int, threads: int) -> None:
    from dbos import DBOS, Debouncer

    logging.disable(logging.CRITICAL)
    DBOS(config={"name": "bench", "system_database_url": url})

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def brief(payload: int) -> int:
        return payload

    DBOS.launch()
    debouncer = Debouncer.create(brief)

    def trigger(number: int) -> None:
        debouncer.debounce(f"a{number % ACCOUNTS}", PERIOD_S, number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(trigger, range(threads * 2)))
        start_s = time.perf_counter()
        list(pool.map(trigger, range(total)))
        elapsed_s = time.perf_counter() - start_s
    print(json.dumps({"per_s": total / elapsed_s}), flush=True)
    DBOS.destroy(workflow_completion_timeout_sec=0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
