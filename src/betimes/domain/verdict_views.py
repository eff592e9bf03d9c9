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
    table = kinds.tables.get(verdict.table) if verdict else None
    if verdict is None or table is None:
        return []
    rules = table.by_name
    # In one expression, without the rules' sentences: every verdict that is answered over HTTP comes by here.
    return [
        TraceStep(
            rule.name if (rule := rules.get(step.rule)) else step.rule if isinstance(step.rule, str) else "?",
            step.reason is not None,
            step.reason,
            "shadow" if step.shadow else "enforce",
            dict(zip(rule.sees if rule else map(str, range(len(step.values))), step.values, strict=False)),
        )
        for step in verdict.trace
    ]
