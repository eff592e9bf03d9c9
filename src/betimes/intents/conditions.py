"""Conditions that can be asked: what each needs to know, and whether it holds.

An expression is compiled once and kept. Both it and structured fields are computed exactly, never in floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeAlias

import msgspec

from betimes.intents.expressions import PRICE, CannotTell, parse_expression
from betimes.intents.model import Condition, Definition, Operator

Values: TypeAlias = Mapping[str, Decimal]
"""By name: `inactive_hours`, `total_value`, `any_holding_change`, and `price:TICKER`."""
_COMPARE: dict[Operator, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


TRIGGER_SOURCES = {"price": "price", "portfolio": "portfolio", "silence": "last_interaction"}
"""The sources that intents of a type are evaluated against; the other types are triggered by time."""
_SOURCE_OF = {"total_value": "portfolio", "any_holding_change": "portfolio", "inactive_hours": "last_interaction"}


def sources_of(needs: tuple[str, ...]) -> frozenset[str]:
    """Return the sources that give the values of these names."""
    return frozenset("price" if name.startswith(PRICE) else _SOURCE_OF[name] for name in needs)


class Askable(Protocol):
    """A condition with the names of the values it needs."""

    @property
    def needs(self) -> tuple[str, ...]: ...

    def holds(self, values: Values) -> bool:
        """Return whether it is true of these values; raise `CannotTell` if they are not enough."""


class Expression:
    """A condition in the language of `expressions`."""

    __slots__ = ("_holds", "needs")

    def __init__(self, text: str) -> None:
        self._holds, self.needs = parse_expression(text)

    def holds(self, values: Values) -> bool:
        _demand(self.needs, values)
        try:
            return bool(self._holds({name: Fraction(values[name]) for name in self.needs}))
        except ZeroDivisionError:
            raise CannotTell("the condition divides by zero") from None


class Comparison(msgspec.Struct, frozen=True):
    """A condition of structured fields."""

    name: str
    operator: Operator
    value: Decimal

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.name,)

    def holds(self, values: Values) -> bool:
        _demand(self.needs, values)
        return _COMPARE[self.operator](values[self.name], self.value)


def _demand(needs: tuple[str, ...], values: Values) -> None:
    missing = [name for name in needs if name not in values]
    if missing:
        raise CannotTell(f"nothing is known of {', '.join(missing)}")


@lru_cache(maxsize=4_096)
def expression(text: str) -> Expression:
    """Return the compiled expression; raise `BadExpression` if it makes no sense."""
    return Expression(text)


def askable(definition: Definition) -> Askable | None:
    """Return the condition of a condition-based intent; `None` for one that is triggered by time."""
    condition = definition.condition
    if not definition.is_condition_based or condition is None:
        return None
    if condition.expression is not None:
        return expression(condition.expression)
    return comparison_of(definition.trigger_type, condition)


def comparison_of(trigger_type: str, condition: Condition) -> Comparison | None:
    """Return the comparison that the structured fields make for this type, if they are complete."""
    if trigger_type == "silence":
        if condition.threshold_hours is None:
            return None
        return Comparison("inactive_hours", condition.operator or ">=", condition.threshold_hours)
    name = condition.metric if trigger_type == "portfolio" else condition.ticker and PRICE + condition.ticker
    if not name or condition.operator is None or condition.value is None:
        return None
    return Comparison(name, condition.operator, condition.value)
