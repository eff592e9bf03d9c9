"""Names of things go through their handles unharmed, and what is not a name is refused with every bad part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.errors import Invalid
from betimes.core.streams import (
    EffectId,
    KeyId,
    StreamId,
    checked_stream,
    parse_effect_handle,
    parse_segment_handle,
    segment_handle,
)

ids = st.from_regex(r"\A[A-Za-z0-9_+*][A-Za-z0-9._~:@+|=*-]{0,199}\Z")
kinds = st.from_regex(r"\A[a-z][a-z0-9_]{0,31}\Z")
streams = st.builds(StreamId, ids, kinds, ids)
numbers = st.integers(0, 10**18 - 1)


@given(streams)
def test_a_well_formed_stream_is_itself(stream: StreamId) -> None:
    assert checked_stream(*stream) == stream
    assert str(stream) == "/".join(stream)


@given(streams, numbers)
def test_a_segment_handle_leads_back_to_its_segment(stream: StreamId, version: int) -> None:
    assert parse_segment_handle(stream.tenant, segment_handle(stream, version)) == (stream, version)


@given(streams, numbers, numbers)
def test_an_effect_handle_leads_back_to_its_effect(stream: StreamId, version: int, place: int) -> None:
    effect = EffectId(*stream, version, place)
    assert effect.source == stream
    assert parse_effect_handle(stream.tenant, effect.handle) == effect


@given(st.sets(streams, min_size=2, max_size=2), numbers)
def test_two_streams_of_a_tenant_never_share_a_handle(pair: set[StreamId], version: int) -> None:
    one, other = (stream._replace(tenant="t") for stream in pair)
    assert (segment_handle(one, version) == segment_handle(other, version)) == (one == other)


@pytest.mark.parametrize("id", ["", " ", "a b", "a/b", "é", "-a", ".a", "~a", ":a", "a\n", "a\x00", "a" * 201, "日"])
def test_what_is_not_an_id_is_refused(id: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checked_stream("acme", "gate", id)
    assert [part for part, _ in refusal.value.problems] == ["id"]
    assert repr(id[:40]) in str(refusal.value)


@pytest.mark.parametrize("kind", ["", "Gate", "1gate", "_gate", "gate-way", "g" * 33, "gäte"])
def test_what_is_not_a_kind_is_refused(kind: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checked_stream("acme", kind, "a")
    assert [part for part, _ in refusal.value.problems] == ["kind"]


def test_every_part_that_is_not_well_formed_is_named() -> None:
    with pytest.raises(Invalid) as refusal:
        checked_stream("no tenant", "No Kind", "")
    assert [part for part, _ in refusal.value.problems] == ["tenant", "kind", "id"]
    assert all(message in str(refusal.value) for _, message in refusal.value.problems)


def test_an_overlong_name_is_cut_in_the_message() -> None:
    with pytest.raises(Invalid) as refusal:
        checked_stream("acme", "gate", "x" * 100_000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    "handle",
    [
        "",
        ":",
        "gate",
        "gate:a",
        "gate:a:",
        "gate:a:x",
        "gate:a:-1",
        "gate:a:1.0",
        "gate::1",
        ":a:1",
        "Gate:a:1",
        "gate:a:01",
        "gate:a:٣",
        "gate:a: 1",
        "gate:a:" + "9" * 5000,
    ],
)
def test_what_is_not_a_handle_is_refused(handle: str) -> None:
    with pytest.raises(Invalid):
        parse_segment_handle("acme", handle)
    with pytest.raises(Invalid):
        parse_effect_handle("acme", handle)


@pytest.mark.parametrize("handle", ["gate:a:1:x", "gate:a:1:", "gate:a:1:-0", "gate:a:x:0", "gate:a:1:" + "1" * 5000])
def test_what_is_not_an_effect_is_refused(handle: str) -> None:
    with pytest.raises(Invalid):
        parse_effect_handle("acme", handle)


@given(st.lists(streams))
def test_streams_sort_by_tenant_then_kind_then_id(names: list[StreamId]) -> None:
    assert sorted(names) == sorted(names, key=lambda name: (name.tenant, name.kind, name.id))


def test_a_key_reads_as_its_path() -> None:
    assert str(KeyId("acme", "triggers", "k-1")) == "acme/triggers/k-1"
