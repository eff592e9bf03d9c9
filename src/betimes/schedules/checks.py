"""Problems of a schedule's definition, beyond what its types say: all of them, each with its path."""

from __future__ import annotations

from typing import Any

from betimes.core.checks import Problem, Rule
from betimes.domain.definition_rules import definition_problems, own_target_problems
from betimes.schedules.model import ScheduleDefinition
from betimes.schedules.recurrence import RECURRENCE_RULES


def schedule_problems(schedule_id: str, definition: ScheduleDefinition) -> tuple[Problem, ...]:
    return definition_problems("schedule_id", schedule_id, definition, SCHEDULE_RULES)


def end_problems(definition: Any) -> tuple[Problem, ...]:
    starts_at, ends_at = definition.starts_at, definition.ends_at
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        return (("ends_at", "must be later than starts_at"),)
    return ()


SCHEDULE_RULES: tuple[Rule[Any], ...] = (*RECURRENCE_RULES, end_problems, own_target_problems)
"""They judge a definition, or the sound fields of a request for one."""
