"""The one place that knows CEL: compiling what `expressions` wrote, and asking it.

The library is an extra and is imported when first needed. Its errors come back as values, so whatever is not a truth
value is raised as `CannotTell`. Numbers are declared dynamic and handed over as doubles.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from betimes.core.errors import BetimesError, MissingExtra


class CannotTell(BetimesError):
    """A condition could not be evaluated with what the sources gave."""

    code = "INVALID"


class Program:
    """A compiled expression."""

    __slots__ = ("_expression",)

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def holds(self, names: Mapping[str, float], prices: Mapping[str, float]) -> bool:
        """Whether the expression is true of these values."""
        answer = self._expression.eval(data={**names, "price": dict(prices)}).value()
        if isinstance(answer, bool):
            return answer
        raise CannotTell(f"the condition gave no answer: {answer}")


def program(text: str, names: tuple[str, ...]) -> Program:
    """Compile an expression that uses these names and `price`."""
    try:
        return Program(_environment(names).compile(text))
    except RuntimeError as error:
        raise CannotTell(f"CEL refuses {text!r}: {error}") from error


@lru_cache(maxsize=16)
def _environment(names: tuple[str, ...]) -> Any:
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra(
            "condition expressions need the extra `conditions`: pip install 'betimes[conditions]'"
        ) from error
    prices = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return cel.NewEnv(variables={**dict.fromkeys(names, cel.Type.DYN), "price": prices})
