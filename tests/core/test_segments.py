"""A segment's digest covers every column, so that any changed byte is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from betimes.core.segments import GENESIS, Recorded, Segment, segment_digest
from betimes.core.streams import KeyId, StreamId

STREAM = StreamId("acme", "gate", "a")
WHOLE = Segment(
    STREAM,
    3,
    "turn",
    1_000,
    1,
    '{"type":"Knock"}',
    "[]",
    "0123456789abcdef",
    "previous",
    "",
    KeyId("acme", "knocks", "k-1"),
    '{"answer":"NOW"}',
    "null",
    "ana",
    "c-1",
    "gate:b:1:0",
    17,
)
CHANGED: dict[str, list[Any]] = {
    "stream": [StreamId("acme", "gate", "b"), StreamId("acme", "door", "a"), StreamId("other", "gate", "a")],
    "version": [4],
    "turn": ["Turn"],
    "at": [1_001],
    "schema": [2],
    "command": [None, "", '{"type":"Knock" }'],
    "events": ["[ ]"],
    "policy": [""],
    "prev": [GENESIS],
    "verdict": [None, ""],
    "reply": [None, ""],
    "actor": [""],
    "key": [None, KeyId("acme", "knocks", "k-2"), KeyId("acme", "rings", "k-1")],
    "correlation": [""],
    "cause": [""],
}


def test_every_column_is_accounted_for() -> None:
    assert {field.name for field in fields(Segment)} == CHANGED.keys() | {"seq", "digest"}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, changed in CHANGED.items() for value in changed])
def test_a_changed_column_changes_the_digest(column: str, value: Any) -> None:
    assert segment_digest(replace(WHOLE, **{column: value})) != segment_digest(WHOLE)


@given(st.lists(st.text(), min_size=4, max_size=4))
def test_text_that_moves_between_columns_changes_the_digest(texts: list[str]) -> None:
    names = ("turn", "actor", "correlation", "cause")
    one = replace(WHOLE, **dict(zip(names, texts, strict=True)))
    other = replace(WHOLE, **dict(zip(names, texts[1:] + texts[:1], strict=True)))
    assert (segment_digest(one) == segment_digest(other)) == (one == other)


def test_a_place_in_the_ledger_and_the_digest_itself_are_not_covered() -> None:
    assert segment_digest(replace(WHOLE, seq=99, digest="anything")) == segment_digest(WHOLE)


def test_a_known_digest_stays_as_it_is() -> None:
    assert segment_digest(WHOLE) == "91967341370839aeae2f66da1235bf0966706d4a382eff0311cc43c544944e8b"


def test_a_segment_and_its_record_have_the_same_handle() -> None:
    assert WHOLE.handle == Recorded(STREAM, 3, 1_000, "").segment_id == "gate:a:3"
