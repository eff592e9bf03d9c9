"""Scores are exact, whatever the weights."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.notifications.composite_score import Factors, composite_score, decimal_text, ten_thousandths
from betimes.notifications.enrichment import read

PARTS = st.integers(0, 10_000)


@given(PARTS, PARTS, PARTS, PARTS, PARTS, PARTS, st.integers(0, 40), st.integers(1, 500), PARTS)
def test_it_is_the_sum_of_products_and_nothing_else(
    w1: int, w2: int, w3: int, hint: int, ai: int, kind: int, recent: int, count: int, threshold: int
) -> None:
    w4 = 10_000 - min(w1 + w2 + w3, 10_000)
    one = Fraction(1, 10_000)
    exact = (w1 * hint + w2 * ai + w3 * kind) * one * one + w4 * one * (1 - Fraction(min(recent, count), count))
    result = composite_score(Factors(w1, w2, w3, w4), hint, ai, kind, recent, count)
    assert result.reaches(threshold) == (exact >= threshold * one)
    assert 0 <= exact - Fraction(result.as_text()) < Fraction(1, 1_000_000)


@pytest.mark.parametrize("value", ["1.0001", "-0.1", "0.12345", "NaN"])
def test_what_is_no_score_is_refused(value: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        ten_thousandths(Decimal(value))


@pytest.mark.parametrize(
    ("said", "kept"),
    [(0.5, 5000), (1, 10_000), (0.00005, 0), (0.00015, 2), (1.01, None), (-0.1, None), (float("nan"), None)],
)
def test_what_a_provider_said_is_kept_to_four_decimals(said: float, kept: int | None) -> None:
    score = read(said)
    assert (score * 10_000 if isinstance(score, Decimal) else None) == kept


def test_and_is_shown_as_it_is_kept() -> None:
    assert [decimal_text(value) for value in (0, 5000, 6431, 10_000)] == ["0", "0.5", "0.6431", "1"]
