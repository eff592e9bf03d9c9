"""Questions that people ask of the lake, ready to be asked (`open_lake(path).sql(QUERIES[0].sql)`)."""

from __future__ import annotations

import msgspec


class Query(msgspec.Struct, frozen=True):
    name: str
    asks: str
    sql: str


QUERIES = (
    Query(
        "lateness",
        "How late do ticks fire, day by day?",
        """\
SELECT date, count(*) AS ticks, median(lag_ms) AS p50_ms, quantile_cont(lag_ms, 0.99) AS p99_ms, max(lag_ms) AS max_ms
FROM schedule_ticks WHERE status = 'fired' AND cause = 'cron' GROUP BY date ORDER BY date""",
    ),
    Query(
        "missed",
        "What was not fired, why, and how much of it?",
        """\
SELECT schedule_id, reason, sum(count) AS ticks, min("first") AS since, max("last") AS until
FROM schedule_ticks WHERE status = 'skipped' GROUP BY ALL ORDER BY ticks DESC""",
    ),
    Query(
        "outcomes",
        "What became of the runs of each schedule?",
        """\
SELECT t.schedule_id, coalesce(r.state ->> '$.ending', r.status) AS ending, count(*) AS runs
FROM schedule_ticks t JOIN runs r ON r.tenant = t.tenant AND r.id = t.run_id GROUP BY ALL ORDER BY ALL""",
    ),
    Query(
        "conflicts",
        "Which run keys mean two things?",
        """\
SELECT tenant, run_key, count(*) AS times FROM schedule_ticks WHERE outcome = 'conflict' GROUP BY ALL
UNION ALL
SELECT tenant, run_keys[i] AS run_key, count(*) AS times
FROM sensor_evals, range(1, len(run_keys) + 1) AS places(i) WHERE outcomes[i] = 'conflict' GROUP BY ALL""",
    ),
    Query(
        "busiest",
        "Which sensors cause the most runs?",
        """\
SELECT sensor_id, count(*) AS evaluations, sum(len(run_ids)) AS runs, avg(duration_ms) AS mean_ms
FROM sensor_evals GROUP BY sensor_id ORDER BY runs DESC""",
    ),
    Query(
        "stale",
        "Which evaluations came too late?",
        """\
SELECT sensor_id, recorded_at, expected_state_version, state_version
FROM sensor_evals WHERE status = 'skipped_stale_cursor' ORDER BY recorded_at DESC LIMIT 100""",
    ),
    Query(
        "chain",
        "Is the history of every stream in the lake without gaps?",
        """\
SELECT kind, count(DISTINCT (tenant, id)) AS streams, count(*) AS segments, count(*) FILTER (gap) AS gaps
FROM (SELECT *, version <> 1 + coalesce(lag(version) OVER (PARTITION BY tenant, kind, id ORDER BY version), 0) AS gap
      FROM segments) GROUP BY kind ORDER BY kind""",
    ),
)
