"""What is wrong with a definition, beyond what its types say: every problem, with its path."""

from __future__ import annotations

from typing import Any

from betimes.core.canonical import encode
from betimes.core.checks import Rule, broken_rules
from betimes.domain.targets import NotificationTarget, Target, TriggerTarget
from betimes.schedules.model import DEFINITION_CHARS_MAX, PAYLOAD_BYTES_MAX, ScheduleDefinition
from betimes.schedules.recurrence import RECURRENCE_RULES
from betimes.sensors.model import SensorDefinition

Problem = tuple[str, str]


def schedule_problems(schedule_id: str, definition: ScheduleDefinition) -> tuple[Problem, ...]:
    found = (*id_problems("schedule_id", schedule_id), *broken_rules(definition, SCHEDULE_RULES))
    return (*found, *size_problems(definition))


def end_problems(definition: Any) -> tuple[Problem, ...]:
    starts_at, ends_at = definition.starts_at, definition.ends_at
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        return (("ends_at", "must be later than starts_at"),)
    return ()


def id_problems(path: str, id: str) -> tuple[Problem, ...]:
    """Names of ticks and runs are put together with colons, so an id has none."""
    return ((path, "must not contain ':'"),) if ":" in id else ()


def target_problems(path: str, target: Target) -> tuple[Problem, ...]:
    """Neither a schedule nor a sensor has an account or a person of its own."""
    match target:
        case TriggerTarget(account_id=None):
            return ((f"{path}.account_id", "is required"),)
        case NotificationTarget(user_id=None):
            return ((f"{path}.user_id", "is required"),)
        case _:
            return ()


def size_problems(definition: ScheduleDefinition | SensorDefinition) -> tuple[Problem, ...]:
    if len(encode(definition.payload).encode()) > PAYLOAD_BYTES_MAX:
        return (("payload", f"at most {PAYLOAD_BYTES_MAX:,} bytes"),)
    length = len(encode(definition))
    if length <= DEFINITION_CHARS_MAX:
        return ()
    return (("", f"the definition is {length:,} characters long; at most {DEFINITION_CHARS_MAX:,} fit"),)


def sentence(problems: tuple[Problem, ...]) -> str:
    return "; ".join(f"{path}: {message}" if path else message for path, message in problems)


def sensor_problems(sensor_id: str, definition: SensorDefinition) -> tuple[Problem, ...]:
    found = (*id_problems("sensor_id", sensor_id), *broken_rules(definition, SENSOR_RULES))
    return (*found, *size_problems(definition))


def evaluator_problems(definition: Any) -> tuple[Problem, ...]:
    if definition.sensor_type == "poll" and definition.evaluator is None:
        return (("evaluator", "is required for a poll sensor"),)
    return ()


def auth_problems(definition: Any) -> tuple[Problem, ...]:
    if definition.sensor_type == "poll" and definition.auth != "key":
        return (("auth", "is for push sensors"),)
    if definition.auth == "oidc" and not definition.oidc:
        return (("oidc", "is required for auth: oidc"),)
    if definition.auth != "oidc" and definition.oidc:
        return (("oidc", "is for auth: oidc"),)
    return ()


def _target_problems(definition: Any) -> tuple[Problem, ...]:
    return target_problems("target", definition.target)


SCHEDULE_RULES: tuple[Rule[Any], ...] = (*RECURRENCE_RULES, end_problems, _target_problems)
"""Of a definition, or of what is sound of the request for one."""
SENSOR_RULES: tuple[Rule[Any], ...] = (_target_problems, evaluator_problems, auth_problems)
