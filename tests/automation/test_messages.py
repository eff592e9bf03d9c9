"""What senders put into a message, and what is made of it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from betimes.core.errors import Invalid, TooLarge
from betimes.domains.automation.messages import parsed
from betimes.domains.automation.sensor_model import Message

EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order.made"}
DEEP = b"[" * 40 + b"]" * 40
CE_HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


def body(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_a_plain_message() -> None:
    sent = {"message_id": "m-1", "data": {"n": 1}, "attributes": {"k": "v"}}
    assert parsed({}, body(sent)) == Message("m-1", {"n": 1}, {"k": "v"})


def test_a_plain_message_without_an_id_is_named_by_its_webhook_id_or_refused() -> None:
    assert parsed({}, body({"data": 1}), "wh-1") == Message("wh-1", 1)
    with pytest.raises(Invalid, match="message_id"):
        parsed({}, body({"data": 1}))


def test_a_structured_cloud_event_is_named_by_source_and_id() -> None:
    sent = {**EVENT, "data": {"n": 1}, "subject": "s"}
    message = parsed({"Content-Type": "application/cloudevents+json; charset=utf-8"}, body(sent))
    assert message == Message('["/shop","e-1"]', {"n": 1}, {**EVENT, "subject": "s"})
    assert parsed({"content-type": "application/json"}, body(sent)) == message


def test_a_binary_cloud_event_has_its_attributes_in_headers() -> None:
    headers = {**{name.title(): value for name, value in CE_HEADERS.items()}, "Content-Type": "application/json"}
    message = parsed(headers, body({"n": 1}))
    assert (message.message_id, message.data) == ('["/shop","e-1"]', {"n": 1})
    assert message.attributes == {**EVENT, "datacontenttype": "application/json"}


def test_a_binary_cloud_event_may_carry_text_or_nothing() -> None:
    assert parsed({**CE_HEADERS, "content-type": "text/plain"}, b"hello").data == "hello"
    assert parsed(CE_HEADERS, b"").data is None


def test_the_same_id_of_two_sources_is_two_events() -> None:
    other = {**EVENT, "source": "/other"}
    assert parsed({}, body(EVENT)).message_id != parsed({}, body(other)).message_id


@pytest.mark.parametrize(("raw", "data"), [(b'{"n": 1}', {"n": 1}), (b"text", "text"), (b"\xff\xfe", "\ufffd\ufffd")])
def test_a_pub_sub_envelope_is_decoded(raw: bytes, data: Any) -> None:
    pushed = {"messageId": "42", "message_id": "42", "data": b64encode(raw).decode(), "attributes": {"k": "v"},
              "publishTime": "2026-01-05T09:00:00Z", "publish_time": "2026-01-05T09:00:00Z"}  # fmt: skip
    envelope = {"message": pushed, "subscription": "projects/p/subscriptions/s", "deliveryAttempt": 3}
    assert parsed({}, body(envelope)) == Message("42", data, {"k": "v"})


def test_data_in_base64_that_is_nested_too_deep_is_text() -> None:
    assert parsed({}, body({**EVENT, "data_base64": b64encode(DEEP).decode()})).data == DEEP.decode()


def test_data_in_base64_is_decoded() -> None:
    assert parsed({}, body({**EVENT, "data_base64": b64encode(b"[1]").decode()})).data == [1]


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
        ({"content-type": "application/cloudevents-batch+json"}, b"[]"),
        ({"ce-id": "x"}, b""),
        ({**CE_HEADERS, "content-type": "application/json"}, b"{"),
        ({**CE_HEADERS, "content-type": "application/json"}, DEEP),
        ({}, b'{"message_id": "m", "data": ' + DEEP + b"}"),
    ],
)
def test_what_is_no_message_is_refused(headers: dict[str, str], sent: bytes) -> None:
    with pytest.raises(Invalid):
        parsed(headers, sent)


def test_a_long_name_stands_as_its_digest() -> None:
    message_id = parsed({}, body({**EVENT, "id": "x" * 300})).message_id
    assert message_id.startswith("sha256:")
    assert message_id == parsed({}, body({**EVENT, "id": "x" * 300})).message_id


def test_a_message_that_is_too_long_is_refused_by_its_limit() -> None:
    with pytest.raises(TooLarge, match="131,072"):
        parsed({}, body({"message_id": "m", "data": "x" * 140_000}))
