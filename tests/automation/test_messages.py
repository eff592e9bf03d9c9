"""What senders put into a message, and what is made of it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from betimes.core.errors import Invalid, TooLarge
from betimes.sensors.messages import parse_batch, parse_message
from betimes.sensors.model import Message

EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order.made"}
DEEP = b"[" * 40 + b"]" * 40
CE_HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


def body(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_a_plain_message() -> None:
    sent = {"message_id": "m-1", "data": {"n": 1}, "attributes": {"k": "v"}}
    assert parse_message({}, body(sent)) == Message("m-1", {"n": 1}, {"k": "v"})


def test_names_that_are_misspelt_are_all_told() -> None:
    with pytest.raises(Invalid) as refused:
        parse_message({}, body({"mesage_id": "m-1", "dta": 1}))
    told = dict(refused.value.problems)
    assert told["mesage_id"] == "no such field; did you mean message_id?"
    assert told["dta"] == "no such field; did you mean data?"
    assert told["message_id"].startswith("is required")


def test_a_plain_message_without_an_id_is_named_by_its_webhook_id_or_refused() -> None:
    assert parse_message({}, body({"data": 1}), "wh-1") == Message("wh-1", 1)
    with pytest.raises(Invalid, match="message_id"):
        parse_message({}, body({"data": 1}))


def test_a_structured_cloud_event_is_named_by_source_and_id() -> None:
    sent = {**EVENT, "data": {"n": 1}, "subject": "s"}
    message = parse_message({"Content-Type": "application/cloudevents+json; charset=utf-8"}, body(sent))
    assert message == Message('["/shop","e-1"]', {"n": 1}, {**EVENT, "subject": "s"})
    assert parse_message({"content-type": "application/json"}, body(sent)) == message


def test_a_binary_cloud_event_has_its_attributes_in_headers() -> None:
    headers = {**{name.title(): value for name, value in CE_HEADERS.items()}, "Content-Type": "application/json"}
    message = parse_message(headers, body({"n": 1}))
    assert (message.message_id, message.data) == ('["/shop","e-1"]', {"n": 1})
    assert message.attributes == {**EVENT, "datacontenttype": "application/json"}


def test_a_binary_cloud_event_may_carry_text_or_nothing() -> None:
    assert parse_message({**CE_HEADERS, "content-type": "text/plain"}, b"hello").data == "hello"
    assert parse_message(CE_HEADERS, b"").data is None


def test_the_same_id_of_two_sources_is_two_events() -> None:
    other = {**EVENT, "source": "/other"}
    assert parse_message({}, body(EVENT)).message_id != parse_message({}, body(other)).message_id


PUBLISHED = {
    "publish_time": "2026-01-05T09:00:00Z",
    "ordering_key": "shop-7",
    "subscription": "projects/p/subscriptions/s",
}
UNWRAPPED = {
    "X-Goog-Pubsub-Message-Id": "42",
    "X-Goog-Pubsub-Publish-Time": "2026-01-05T09:00:00Z",
    "X-Goog-Pubsub-Ordering-Key": "shop-7",
    "X-Goog-Pubsub-Subscription-Name": "projects/p/subscriptions/s",
}
DATA = [(b'{"n": 1}', {"data": {"n": 1}}), (b"text", {"data": "text"}), (b"\xff\xfe", {"data_base64": "//4="})]


def wrapped(raw: bytes) -> bytes:
    pushed = {
        "messageId": "42",
        "message_id": "42",
        "data": b64encode(raw).decode(),
        "attributes": {"k": "v"},
        "publishTime": "2026-01-05T09:00:00Z",
        "publish_time": "2026-01-05T09:00:00Z",
        "orderingKey": "shop-7",
    }
    return body({"message": pushed, "subscription": "projects/p/subscriptions/s", "deliveryAttempt": 3})


@pytest.mark.parametrize(("raw", "data"), DATA)
def test_a_pub_sub_envelope_is_decoded(raw: bytes, data: Any) -> None:
    assert parse_message({}, wrapped(raw)) == Message("42", attributes={"k": "v"}, **data, **PUBLISHED)


@pytest.mark.parametrize(("raw", "data"), DATA)
def test_an_unwrapped_pub_sub_message_has_its_attributes_in_headers(raw: bytes, data: Any) -> None:
    sent = {**UNWRAPPED, "k": "v", "Authorization": "Bearer x", "X-Forwarded-For": "1.1.1.1", "Accept": "*/*"}
    message = parse_message({**sent, "Content-Type": "application/octet-stream"}, raw)
    kept = {"k": "v", "content-type": "application/octet-stream"}
    assert message == Message("42", attributes=kept, **data, **PUBLISHED)


def test_an_unwrapped_message_may_look_like_anything() -> None:
    """Its name is in its headers, so its body is data even where it has the shape of an envelope of somebody else's."""
    for raw in (b'{"message_id": "other"}', b'{"message": {"text": "hi"}}', b"[1]", b'"x"'):
        message = parse_message(UNWRAPPED, raw)
        assert (message.message_id, message.data) == ("42", msgspec.json.decode(raw))


def test_a_pub_sub_message_without_metadata_says_what_to_turn_on() -> None:
    with pytest.raises(Invalid, match="write metadata"):
        parse_message({}, b'{"order": 7}')


def test_bytes_that_are_no_text_are_kept_as_they_are() -> None:
    raw = b"\x89PNG\r\n\xff"
    kept = b64encode(raw).decode()
    binary = parse_message({**CE_HEADERS, "content-type": "image/png"}, raw)
    structured = parse_message({}, body({**EVENT, "datacontenttype": "image/png", "data_base64": kept}))
    assert (binary.data, binary.data_base64) == (None, kept)
    assert binary == structured
    assert parse_message({}, body({"message_id": "m", "data_base64": kept})) == Message("m", data_base64=kept)


AWKWARD = {"id": 'e 1 "%"', "source": "/caf\u00e9/\u20ac\U0001f600", "subject": "50% off"}


@pytest.mark.parametrize("safe", ["", "/"])
def test_a_binary_event_is_the_same_message_as_a_structured_one(safe: str) -> None:
    event = {**EVENT, **AWKWARD, "datacontenttype": "application/json; charset=utf-8"}
    headers = {f"ce-{name}": quote(value, safe=safe) for name, value in event.items() if name != "datacontenttype"}
    binary = parse_message({**headers, "Content-Type": "application/json; charset=utf-8"}, body({"n": 1}))
    assert binary == parse_message({}, body({**event, "data": {"n": 1}}))


def test_header_values_may_be_quoted_as_older_senders_do() -> None:
    headers = {**CE_HEADERS, "ce-subject": r'"a \"b\" %E2%82%ac"', "ce-lower": "%c3%a9", "ce-bare": "100%"}
    attributes = parse_message(headers, b"").attributes
    assert (attributes["subject"], attributes["lower"], attributes["bare"]) == ('a "b" \u20ac', "\u00e9", "100%")


def test_a_header_value_that_is_no_utf_8_is_refused_by_its_name() -> None:
    with pytest.raises(Invalid) as refused:
        parse_message({**CE_HEADERS, "ce-subject": "%C0%A0", "ce-source": "%ff"}, b"")
    assert {path for path, _ in refused.value.problems} == {"header.ce-source", "header.ce-subject"}


def test_a_batch_of_events_is_as_many_messages_and_each_is_judged_alone() -> None:
    good, bad = {**EVENT, "data": 1}, {"specversion": "1.0", "id": "e-2"}
    first, second = parse_batch(body([good, bad]))
    assert first == parse_message({}, body(good))
    assert isinstance(second, Invalid)
    assert {path for path, _ in second.problems} == {"source", "type"}
    assert parse_batch(b"[]") == []


@pytest.mark.parametrize("sent", [b"{}", b"not json", body([EVENT] * 501)])
def test_what_is_no_batch_is_refused(sent: bytes) -> None:
    with pytest.raises(Invalid):
        parse_batch(sent)


def test_data_in_base64_that_is_nested_too_deep_is_text() -> None:
    assert parse_message({}, body({**EVENT, "data_base64": b64encode(DEEP).decode()})).data == DEEP.decode()


def test_data_in_base64_is_decoded() -> None:
    assert parse_message({}, body({**EVENT, "data_base64": b64encode(b"[1]").decode()})).data == [1]


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({}, b"not json"),
        ({}, b"[1]"),
        ({}, b'{"message_id": ""}'),
        ({}, b'{"message_id": "m", "surprise": 1}'),
        ({}, b'{"message": {"data": "eA=="}}'),
        ({}, b'{"message": {"messageId": "1", "data": "%"}}'),
        ({}, body({**EVENT, "specversion": "0.3"})),
        ({"content-type": "application/cloudevents+json"}, b'{"id": "x"}'),
        ({}, body({"message_id": "m", "data": 1, "data_base64": "eA=="})),
        ({}, body({**EVENT, "data_base64": 7})),
        ({"ce-id": "x"}, b""),
        ({**CE_HEADERS, "content-type": "application/json"}, b"{"),
        ({**CE_HEADERS, "content-type": "application/json"}, DEEP),
        ({}, b'{"message_id": "m", "data": ' + DEEP + b"}"),
    ],
)
def test_what_is_no_message_is_refused(headers: dict[str, str], sent: bytes) -> None:
    with pytest.raises(Invalid):
        parse_message(headers, sent)


def test_a_long_name_stands_as_its_digest() -> None:
    message_id = parse_message({}, body({**EVENT, "id": "x" * 300})).message_id
    assert message_id.startswith("sha256:")
    assert message_id == parse_message({}, body({**EVENT, "id": "x" * 300})).message_id


def test_a_message_that_is_too_long_is_refused_by_its_limit() -> None:
    with pytest.raises(TooLarge, match="131,072"):
        parse_message({}, body({"message_id": "m", "data": "x" * 140_000}))
