"""Points as whole micro-points: exact, six decimals, the same in every database.

Rules count in micro-points; people and the wire see decimal numbers of points. Nothing here rounds: a number with more
than six decimals is refused where it comes in.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TypeAlias

Micro: TypeAlias = int
POINT = 1_000_000
SCORE_MAX: Micro = 100 * POINT
_SCALE = -6


def micro(points: Decimal) -> Micro:
    """Return points as micro-points; raise `ValueError` if they have more than six decimals or are no number."""
    try:
        scaled = points * POINT
        whole = int(scaled)
    except (InvalidOperation, OverflowError, ValueError):
        raise ValueError(f"{points} is not a number of points") from None
    if whole != scaled:
        raise ValueError(f"{points} has more than 6 decimals")
    return whole


def points(amount: Micro) -> Decimal:
    """Return micro-points as points, without trailing zeros."""
    whole, rest = divmod(amount, POINT)
    return Decimal(whole) if rest == 0 else Decimal(amount).scaleb(_SCALE).normalize()


def number(amount: Micro) -> int | float:
    """Return micro-points as a JSON number of points: six decimals survive the way through text."""
    return amount // POINT if amount % POINT == 0 else float(points(amount))
