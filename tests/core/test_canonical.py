"""Canonical text: one value, one text, in every process."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.canonical import FINGERPRINT_CHARS, digest, encode, fingerprint

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
columns = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(), max_size=6)


def turned_round(value: Any) -> Any:
    """The same value with every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_round(value[key]) for key in reversed(value)}
    return [turned_round(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_order_of_a_mapping_does_not_matter(value: Any) -> None:
    assert encode(turned_round(value)) == encode(value)
    assert fingerprint(turned_round(value)) == fingerprint(value)


@given(values)
def test_the_text_is_json_of_the_value(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(values, values)
def test_different_values_have_different_fingerprints(one: Any, other: Any) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (encode(one) == encode(other))


class Sample(msgspec.Struct):
    z: int
    a: Decimal
    tags: frozenset[str] = frozenset()


def test_fields_keep_their_order_and_sets_are_sorted() -> None:
    sample = Sample(1, Decimal("0.65"), frozenset({"c", "a", "b"}))
    assert encode(sample) == '{"z":1,"a":"0.65","tags":["a","b","c"]}'


@pytest.mark.parametrize("text", ["0.65", "0.650", "1E+3", "-0.1", "123456789.123456789123456789"])
def test_a_decimal_keeps_every_digit(text: str) -> None:
    assert encode(Decimal(text)) == f'"{text}"'
    assert msgspec.json.decode(encode(Sample(0, Decimal(text))), type=Sample).a == Decimal(text)


def test_a_nul_and_quotes_are_escaped_and_other_text_is_readable() -> None:
    assert encode('\x00 "ü" 🕰') == '"\\u0000 \\"ü\\" 🕰"'


def test_known_names_stay_as_they_are() -> None:
    assert fingerprint({"b": [1, 2.5, None], "a": Decimal("0.10")}) == "7a0f5ab6d5df03b8"
    assert digest("", "acme", 1, None) == "dbb61ae012c4ccc336f2e4a99b6565dbd16fc64c2c12dabc6254e8e817d5e7d8"
    assert len(fingerprint(None)) == FINGERPRINT_CHARS


@given(columns, columns)
def test_no_two_rows_share_a_digest(one: list[Any], other: list[Any]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


def test_columns_are_delimited() -> None:
    assert len({digest("a", "b"), digest("ab"), digest("ab", ""), digest("", "ab"), digest("a", None, "b")}) == 5
    assert digest(1) != digest("1")
    assert digest(None) != digest("") != digest("null")
