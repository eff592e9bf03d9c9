"""The texts of notifications, which stay in the segments of the inbox that brought them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.derivation import derive
from betimes.domain.struct_forms import From
from betimes.engine.codecs import decode_tagged
from betimes.engine.store import Store
from betimes.notifications.model import Notify, Priority


class Text(msgspec.Struct, frozen=True):
    """The text of one notification, and what decides whether it may still go out."""

    event_id: str
    event_type: str
    title: str
    message: str
    metadata: dict[str, Any]
    priority: Annotated[Priority | None, From("priority_hint")] = None
    expires_at: Instant | None = None


def digest_title(texts: Sequence[Text], count: int) -> str:
    """Return the title of a digest of so many; of one, its own."""
    return texts[0].title if count == 1 and texts else f"{count} notifications"


_notes = msgspec.json.Decoder(Notify)


def note_of(segment: Segment) -> Notify | None:
    """Return the notification that a segment brought, if it brought one."""
    return decode_tagged(_notes, segment, '{"type":"Notify"', "the notification of")


async def texts_of(store: Store, inbox: StreamId, versions: Iterable[int]) -> dict[int, Text]:
    """Return the texts in these segments of an inbox; those that were pruned are left out."""
    texts = {}
    for version in versions:
        _, segments = await store.history(inbox, version - 1, 1)
        note = note_of(segments[0]) if segments and segments[0].version == version else None
        if note:
            event_id = segments[0].key.key if segments[0].key else f"{inbox.id}:{version}"
            texts[version] = derive(Text, note, event_id=event_id)
    return texts
