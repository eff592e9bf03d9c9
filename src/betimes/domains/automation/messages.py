"""What senders put into a message: plain JSON, a CloudEvent (structured or binary), a Pub/Sub push envelope.

Pure: headers and bytes in, a `Message` or `Invalid` out. A CloudEvent is named by its source and id together, a Pub/Sub
message by its `messageId`. An id that is too long for a key stands as its digest.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from betimes.core.canonical import encode
from betimes.core.checking import DEPTH_MAX, checked, within_depth
from betimes.core.errors import Invalid, TooLarge
from betimes.domains.automation.sensor_model import MESSAGE_CHARS_MAX, MESSAGE_ID_CHARS_MAX, Message

STRUCTURED = "application/cloudevents+json"
_CE = "ce-"


class NotJson(Invalid):
    """The body of a message is not JSON."""


class PlainMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_ID_CHARS_MAX)] | None = None
    data: Any = None
    attributes: dict[str, Any] | None = None


class CloudEvent(msgspec.Struct, frozen=True):
    """The required attributes; whatever else there is stays with them."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]
    type: Annotated[str, msgspec.Meta(min_length=1)]
    specversion: Annotated[str, msgspec.Meta(pattern="^1\\.")]


class PubSubMessage(msgspec.Struct, frozen=True, rename="camel"):
    message_id: Annotated[str, msgspec.Meta(min_length=1)]
    data: str | None = None
    attributes: dict[str, str] = {}
    publish_time: str | None = None
    ordering_key: str | None = None


def parsed(headers: Mapping[str, str], body: bytes, fallback_id: str | None = None) -> Message:
    """The message in a request; `fallback_id` names one that has no id of its own, such as its `webhook-id`."""
    low = {name.lower(): value for name, value in headers.items()}
    content = low.get("content-type", "").partition(";")[0].strip().lower()
    if content.startswith("application/cloudevents-batch"):
        raise Invalid("batches of CloudEvents are not taken; send one at a time", (("header.content-type", "batch"),))
    if "ce-specversion" in low or "ce-id" in low:
        return _within_bounds(_binary(low, content, body))
    document = _json(body)
    if content == STRUCTURED or "specversion" in document:
        return _within_bounds(_structured(document))
    if isinstance(document.get("message"), dict) and "message_id" not in document:
        return _within_bounds(_pub_sub(document))
    plain = checked(document, PlainMessage)
    message_id = plain.message_id or fallback_id
    if not message_id:
        raise Invalid("1 field is wrong: message_id: is required", (("message_id", "is required"),))
    return _within_bounds(Message(message_id, plain.data, plain.attributes or {}))


def _json(body: bytes) -> dict[str, Any]:
    document = _decoded_json(body)
    if not isinstance(document, dict):
        raise Invalid("the body is not a JSON object", (("", "expected an object"),))
    return document


def _decoded_json(body: bytes) -> Any:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(f"the body is not JSON: {error}", (("", "not JSON"),)) from None
    if not within_depth(document, DEPTH_MAX):
        raise NotJson(f"the body is nested more than {DEPTH_MAX} levels deep", (("", "too deep"),))
    return document


def _structured(document: dict[str, Any]) -> Message:
    event = checked(document, CloudEvent)
    attributes = {name: value for name, value in document.items() if name not in ("data", "data_base64")}
    data = document.get("data")
    if "data_base64" in document:
        data = _decoded(str(document["data_base64"]), "data_base64")
    return Message(_name(event), data, attributes)


def _binary(headers: Mapping[str, str], content: str, body: bytes) -> Message:
    attributes = {name.removeprefix(_CE): value for name, value in headers.items() if name.startswith(_CE)}
    event = checked(attributes, CloudEvent)
    data: Any = None
    if body:
        data = _decoded_json(body) if not content or content.endswith(("/json", "+json")) else _text(body)
    if content:
        attributes["datacontenttype"] = content
    return Message(_name(event), data, attributes)


def _pub_sub(document: dict[str, Any]) -> Message:
    """Google sends some names twice, in both spellings; the camel-case ones are taken."""
    pushed = checked(document["message"], PubSubMessage, "message")
    attributes: dict[str, Any] = dict(pushed.attributes)
    data = None if pushed.data is None else _decoded(pushed.data, "message.data")
    return Message(pushed.message_id, data, attributes)


def _decoded(text: str, path: str) -> Any:
    """Base64, as JSON if it is and is not nested too deep, else as text."""
    try:
        raw = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise Invalid(f"{path} is not base64", ((path, "not base64"),)) from None
    try:
        return _decoded_json(raw)
    except NotJson:
        return _text(raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _name(event: CloudEvent) -> str:
    """Two sources may use the same id, so both are the name, each delimited."""
    return encode([event.source, event.id])


def _within_bounds(message: Message) -> Message:
    length = len(encode(message))
    if length > MESSAGE_CHARS_MAX:
        raise TooLarge(f"the message is {length:,} characters long; at most {MESSAGE_CHARS_MAX:,} fit. Send less")
    message_id = message.message_id
    if len(message_id) > MESSAGE_ID_CHARS_MAX or "\0" in message_id:
        message_id = f"sha256:{sha256(message_id.encode('utf-8', 'replace')).hexdigest()}"
    return msgspec.structs.replace(message, message_id=message_id)
