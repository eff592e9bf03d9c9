"""The table of the lake about runs: what each has become."""

from __future__ import annotations

from betimes.core.lake_tables import INSTANT, STATE_COLUMNS, Part, Table

_RUN = {
    "run_key": Part("VARCHAR", "$.run_key"),
    "account_id": Part("VARCHAR", "$.account_id"),
    "trigger_type": Part("VARCHAR", "$.trigger_type"),
    "ending": Part("VARCHAR", "$.ending"),
    "allowed_at": Part(INSTANT, "$.allowed_at"),
    "started_at": Part(INSTANT, "$.started_at"),
    "finished_at": Part(INSTANT, "$.finished_at"),
}

TABLES = (Table("runs", STATE_COLUMNS, kind="run", parts=_RUN),)
