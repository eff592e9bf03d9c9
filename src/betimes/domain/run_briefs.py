"""Briefs of runs: the part of a run that a tick or an evaluation shows."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from betimes.core.datetimes import moment
from betimes.domain.json_view import JsonView
from betimes.runs.model import RunState


class RunVerdict(JsonView, frozen=True):
    result: Literal["ALLOW", "SKIP"]
    reason: str


class RunBrief(JsonView, frozen=True):
    """The status of a run, the verdict of the gate if it met the gate, and why it failed or was not delivered."""

    status: str
    verdict: RunVerdict | None
    error: str | None = None
    allowed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


def run_brief(state: RunState | None) -> RunBrief | None:
    if state is None:
        return None
    status = state.ending or ("done" if state.target == "command" else state.status)
    if state.status == "skipped":
        return RunBrief(status, RunVerdict("SKIP", state.reason))
    verdict = RunVerdict("ALLOW", "WITHIN_LIMITS") if state.allowed_at is not None else None
    return RunBrief(
        status,
        verdict,
        state.error or state.reason or None,
        moment(state.allowed_at),
        moment(state.started_at),
        moment(state.finished_at),
    )
