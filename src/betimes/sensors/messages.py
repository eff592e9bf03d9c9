"""Messages as senders put them: plain JSON, CloudEvents (structured, binary, batches), Pub/Sub pushes.

Pure: headers and bytes in, a `Message` or `Invalid` out. A CloudEvent is named by its source and id together, a Pub/Sub
message by its `messageId`; the form it came in makes no difference. Data is JSON where the content type
allows it, else text, and bytes that are no text are kept in base64. An id that is too long for a key is replaced by
its digest.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import msgspec

from betimes.core.bounds import read_json
from betimes.core.canonical import encode
from betimes.core.checks import check_value, examine, refusal
from betimes.core.errors import BetimesError, Invalid, TooLarge
from betimes.sensors.model import MESSAGE_CHARS_MAX, MESSAGE_ID_CHARS_MAX, Message, MessageId

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
BATCH_MAX = 500
_CE = "ce-"
_PUB_SUB = "x-goog-pubsub-"
_ESCAPED = re.compile(r"\\(.)")
_NO_ID = "is required; for unwrapped Pub/Sub messages turn on write metadata, for others send an id"
_TRANSPORT = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "authorization",
        "cache-control",
        "connection",
        "content-length",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "from",
        "host",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "keep-alive",
        "origin",
        "pragma",
        "proxy-authorization",
        "referer",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    }
)
"""Headers that belong to the request and not to the message, as all those do that begin with `x-`."""


class NotJson(Invalid):
    """The body of a message is not JSON."""


class PlainMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message_id: MessageId | None = None
    data: Any = None
    attributes: dict[str, Any] | None = None
    data_base64: str | None = None
    """Bytes, instead of `data`."""

    def __post_init__(self) -> None:
        if self.data is not None and self.data_base64 is not None:
            raise ValueError("data_base64: give it or data, not both")


class CloudEvent(msgspec.Struct, frozen=True):
    """The required attributes of a CloudEvent; all others are kept as they are."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]
    type: Annotated[str, msgspec.Meta(min_length=1)]
    specversion: Annotated[str, msgspec.Meta(pattern="^1\\.", description="version 1.x, such as 1.0")]
    datacontenttype: str | None = None
    data_base64: str | None = None


class PubSubMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: Annotated[str, msgspec.Meta(min_length=1)]
    data: str | None = None
    attributes: dict[str, str] = {}
    publish_time: str | None = None
    ordering_key: str | None = None


class PubSubEnvelope(msgspec.Struct, frozen=True):
    message: PubSubMessage
    subscription: str | None = None


def is_batch(headers: Mapping[str, str]) -> bool:
    """Return whether the body holds several CloudEvents."""
    return _media_type(_lower(headers).get("content-type", "")) == BATCH


def parse_message(headers: Mapping[str, str], body: bytes, fallback_id: str | None = None) -> Message:
    """Return the message in a request; `fallback_id`, such as its `webhook-id`, names one that has no id of its own."""
    low = _lower(headers)
    if "ce-specversion" in low or "ce-id" in low:
        return _within_bounds(_parse_binary(low, body))
    if f"{_PUB_SUB}message-id" in low:
        return _within_bounds(_parse_unwrapped(low, body))
    document = _json_object(body)
    if _media_type(low.get("content-type", "")) == STRUCTURED or "specversion" in document:
        return _within_bounds(_parse_structured(document))
    if _is_envelope(document):
        return _within_bounds(_parse_envelope(document))
    return _within_bounds(_parse_plain(document, fallback_id))


def parse_batch(body: bytes) -> list[Message | BetimesError]:
    """Return the messages of a batch of CloudEvents in order, with the error in place of each that is no message."""
    events = _decode_json(body)
    if not isinstance(events, list) or len(events) > BATCH_MAX:
        raise Invalid(f"a batch is a list of at most {BATCH_MAX} CloudEvents", (("", f"at most {BATCH_MAX} events"),))
    return [_parse_event(event) for event in events]


def _parse_event(event: Any) -> Message | BetimesError:
    try:
        return _within_bounds(_parse_structured(event))
    except (Invalid, TooLarge) as error:
        return error


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


# -- plain


def _json_object(body: bytes) -> dict[str, Any]:
    document = _decode_json(body)
    if not isinstance(document, dict):
        raise Invalid("the body is not a JSON object", (("", "expected an object"),))
    return document


def _parse_plain(document: dict[str, Any], fallback_id: str | None) -> Message:
    examined = examine(document, PlainMessage)
    if "message_id" not in document and fallback_id is None:
        examined.found.add("message_id", _NO_ID)
    plain = examined.whole()
    message_id = plain.message_id or fallback_id
    if not message_id:
        raise refusal("field", [("message_id", _NO_ID)])
    if plain.data_base64 is None:
        return Message(message_id, plain.data, plain.attributes or {})
    return _message(message_id, _decode_base64(plain.data_base64, "data_base64"), plain.attributes or {})


# -- CloudEvents


def _parse_structured(document: Any) -> Message:
    event = check_value(document, CloudEvent)
    attributes = {name: value for name, value in document.items() if name not in ("data", "data_base64")}
    if event.data_base64 is None:
        return Message(_event_name(event), document.get("data"), attributes)
    return _message(
        _event_name(event),
        _decode_base64(event.data_base64, "data_base64"),
        attributes,
        content_type=event.datacontenttype or "",
    )


def _parse_binary(headers: Mapping[str, str], body: bytes) -> Message:
    content_type = headers.get("content-type", "").strip()
    attributes = {name.removeprefix(_CE): value for name, value in _ce_values(headers).items()}
    if content_type:
        attributes["datacontenttype"] = content_type
    event = check_value(attributes, CloudEvent)
    if body and content_type and _is_json(content_type):
        message = Message(_event_name(event), _decode_json(body), attributes)
    else:
        message = _message(_event_name(event), body or None, attributes, content_type=content_type)
    return msgspec.structs.replace(message, **_pubsub_metadata(headers))


def _ce_values(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the `ce-` headers, decoded; raise `Invalid` with every one that is no text."""
    values, wrong = {}, []
    for name, value in headers.items():
        if name.startswith(_CE):
            try:
                values[name] = _header_text(value)
            except UnicodeDecodeError:
                wrong.append((f"header.{name}", "not percent-encoded UTF-8"))
    if wrong:
        raise refusal("header", wrong)
    return values


def _header_text(value: str) -> str:
    """Return a header's value without the quotes of older senders, percent-decoded once, as the HTTP binding asks."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        raw = value.encode("latin-1")  # how servers hand over bytes beyond ASCII
    except UnicodeEncodeError:
        raw = value.encode()
    return unquote_to_bytes(raw).decode()


def _event_name(event: CloudEvent) -> str:
    """Return the id of an event's message: source and id together, since two sources may use the same id."""
    return encode([event.source, event.id])


# -- Pub/Sub


def _is_envelope(document: dict[str, Any]) -> bool:
    # With an id of its own it is a plain message, whatever fields it has.
    return isinstance(document.get("message"), dict) and "message_id" not in document


def _parse_envelope(document: dict[str, Any]) -> Message:
    """Return the message in a Pub/Sub envelope; of names that are sent in both spellings, the camel-case one counts."""
    envelope = check_value(document, PubSubEnvelope)
    pushed = envelope.message
    raw = None if pushed.data is None else _decode_base64(pushed.data, "message.data")
    return msgspec.structs.replace(
        _message(pushed.message_id, raw, dict(pushed.attributes)),
        publish_time=pushed.publish_time,
        ordering_key=pushed.ordering_key or None,
        subscription=envelope.subscription,
    )


def _parse_unwrapped(headers: Mapping[str, str], body: bytes) -> Message:
    """Return a Pub/Sub message sent without its envelope: the body is its data, the headers are its attributes."""
    message_id = headers[f"{_PUB_SUB}message-id"]
    if (envelope := _envelope_in(body)) is not None and envelope["message"].get("messageId") == message_id:
        return _parse_envelope(envelope)  # some senders set the metadata headers and keep the envelope
    attributes = {name: value for name, value in headers.items() if name not in _TRANSPORT and name[:2] != "x-"}
    return msgspec.structs.replace(_message(message_id, body or None, attributes), **_pubsub_metadata(headers))


def _envelope_in(body: bytes) -> dict[str, Any] | None:
    try:
        document = _decode_json(body)
    except NotJson:
        return None
    return document if isinstance(document, dict) and _is_envelope(document) else None


def _pubsub_metadata(headers: Mapping[str, str]) -> dict[str, str | None]:
    return {
        "publish_time": headers.get(f"{_PUB_SUB}publish-time"),
        "ordering_key": headers.get(f"{_PUB_SUB}ordering-key") or None,
        "subscription": headers.get(f"{_PUB_SUB}subscription-name"),
    }


# -- data


def _message(message_id: str, raw: bytes | None, attributes: dict[str, Any], *, content_type: str = "") -> Message:
    """Return a message whose data came as bytes: JSON if it may be and is, else text, else the bytes in base64."""
    if raw is None:
        return Message(message_id, None, attributes)
    try:
        if _is_json(content_type):
            return Message(message_id, _decode_json(raw), attributes)
    except NotJson:
        pass
    try:
        return Message(message_id, raw.decode(), attributes)
    except UnicodeDecodeError:
        return Message(message_id, None, attributes, b64encode(raw).decode())


def _is_json(content_type: str) -> bool:
    kind = _media_type(content_type)
    return not kind or kind.endswith(("/json", "+json"))


def _decode_json(body: bytes) -> Any:
    try:
        return read_json(body)
    except Invalid as error:
        raise NotJson(f"the body cannot be accepted: {error}", error.problems) from None


def _decode_base64(text: str, path: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise Invalid(f"{path} is not base64", ((path, "not base64"),)) from None


def _within_bounds(message: Message) -> Message:
    length = len(encode(message))
    if length > MESSAGE_CHARS_MAX:
        raise TooLarge(f"the message is {length:,} characters long; at most {MESSAGE_CHARS_MAX:,} fit. Send less")
    message_id = message.message_id
    if len(message_id) > MESSAGE_ID_CHARS_MAX or "\0" in message_id:
        message_id = f"sha256:{sha256(message_id.encode('utf-8', 'replace')).hexdigest()}"
    return msgspec.structs.replace(message, message_id=message_id)
