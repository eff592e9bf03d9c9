"""The composite score, exactly: 0.65 is a threshold, and floats miss it.

Weights, values and thresholds have at most four decimals and are held as whole ten-thousandths. Recency is a fraction
of a policy's count, so everything is compared over that common denominator; nothing is rounded before it is compared.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

import msgspec

ONE = 10_000


class CompositeScore(msgspec.Struct, frozen=True, gc=False):
    """A sum of products of ten-thousandths, over `count`."""

    total: int
    count: int

    def reaches(self, threshold: int) -> bool:
        """Compare exactly with a threshold in ten-thousandths."""
        return self.total >= threshold * ONE * self.count

    def as_text(self) -> str:
        """Return at most six decimals, cut off: a score below a threshold never reads as having reached it."""
        return _decimal(self.total * 1_000_000 // (ONE * ONE * self.count), 6)


class Factors(msgspec.Struct, frozen=True, gc=False):
    """Four ten-thousandths: weights, or the values they weigh."""

    hint: int
    ai: int
    type: int
    recency: int


def composite_score(weights: Factors, hint: int, ai: int, kind: int, recent: int, count: int) -> CompositeScore:
    """Weigh the factors; `recent` deliveries in the last hour leave a recency of `1 - recent / count`, at least 0."""
    weighed = weights.hint * hint + weights.ai * ai + weights.type * kind
    return CompositeScore(weighed * count + weights.recency * ONE * (count - min(recent, count)), count)


def ten_thousandths(value: Decimal) -> int:
    """Return a number from 0 to 1 as ten-thousandths; raise `ValueError` for others, and past four decimals."""
    scaled = value * ONE if value.is_finite() else None
    if scaled is None or not 0 <= value <= 1 or scaled != int(scaled):
        raise ValueError(f"{value} is not a number from 0 to 1 with at most 4 decimals")
    return int(scaled)


def decimal_text(value: int) -> str:
    """Return ten-thousandths as the text of a decimal."""
    return _decimal(value, 4)


@lru_cache(maxsize=1 << 12)
def _decimal(scaled: int, places: int) -> str:
    """Return the shortest text of a scaled number."""
    whole, fraction = divmod(scaled, 10**places)
    return f"{whole}.{fraction:0{places}}".rstrip("0").rstrip(".")
