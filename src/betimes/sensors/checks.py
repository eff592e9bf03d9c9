"""Problems of a sensor's definition, beyond what its types say: all of them, each with its path."""

from __future__ import annotations

from typing import Any

from betimes.core.checks import Problem, Rule
from betimes.domain.definition_rules import definition_problems, own_target_problems
from betimes.sensors.model import SensorDefinition


def sensor_problems(sensor_id: str, definition: SensorDefinition) -> tuple[Problem, ...]:
    return definition_problems("sensor_id", sensor_id, definition, SENSOR_RULES)


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


SENSOR_RULES: tuple[Rule[Any], ...] = (own_target_problems, evaluator_problems, auth_problems)
"""They judge a definition, or the sound fields of a request for one."""
