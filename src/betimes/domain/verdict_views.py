"""The view of a verdict's trace, for every domain: the rules that were evaluated, in words."""

from __future__ import annotations

from typing import Any, Literal

from betimes.core.verdicts import Verdict
from betimes.domain.json_view import JsonView
from betimes.engine.codecs import Kinds


class TraceStep(JsonView, frozen=True):
    """One rule that was looked at."""

    rule: str
    matched: bool
    reason: str | None
    mode: Literal["enforce", "shadow"]
    values: dict[str, Any]


def trace_of(kinds: Kinds, verdict: Verdict | None) -> list[TraceStep]:
    """Return every rule that was evaluated, in order, with the values it saw."""
    table = kinds.table(verdict.table) if verdict else None
    if verdict is None or table is None:
        return []
    steps = table.explain(verdict)
    return [TraceStep(step.rule, step.matched, step.reason, step.mode, step.values) for step in steps]
