"""Things to write: streams, keys, effects, and the changes that move a stream to its next version.

Every value is derived from its name, so that a check states only what it is about.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from betimes.core.canonical import digest
from betimes.core.instants import HOUR, Instant
from betimes.core.segments import GENESIS, Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import (
    NOT_CACHED,
    SEND,
    Changes,
    EffectWrite,
    KeyWrite,
    LockRequest,
    Settlement,
    StreamWrite,
)

TENANT = "acme"
KIND = "thing"
A = StreamId(TENANT, KIND, "a")
B = StreamId(TENANT, KIND, "b")
C = StreamId(TENANT, KIND, "c")
KEY = KeyId(TENANT, "triggers", "k-1")
ABSENT = EffectId(TENANT, KIND, "nobody", 1, 0)


def stream(id: str, kind: str = KIND, tenant: str = TENANT) -> StreamId:
    return StreamId(tenant, kind, id)


def digest_of(of: StreamId, version: int) -> str:
    return digest(*of, version) if version else GENESIS


def turn_of(of: StreamId, version: int) -> str:
    return f"turn.{of.id}.{version}"


def segment(of: StreamId, version: int, at: Instant, **columns: Any) -> Segment:
    plain = Segment(
        of,
        version,
        turn_of(of, version),
        at,
        1,
        '{"type":"Do"}',
        f'[{{"type":"Done","n":{version}}}]',
        "0123456789abcdef",
        digest_of(of, version - 1),
        digest_of(of, version),
    )
    return replace(plain, **columns)


def write(of: StreamId, version: int, at: Instant, **columns: Any) -> StreamWrite:
    plain = StreamWrite(
        of, version - 1, version, 1, f'{{"n":{version}}}', at, None, digest_of(of, version), "open", "", None
    )
    return replace(plain, **columns)


def moved(of: StreamId, version: int, at: Instant, **columns: Any) -> Changes:
    """The changes that bring a stream to this version; the columns are its row's."""
    return Changes(streams=[write(of, version, at, **columns)], segments=[segment(of, version, at)])


def deleted(of: StreamId, version: int, at: Instant) -> Changes:
    return moved(of, version, at, state=None, status="", owner="")


def together(*parts: Changes) -> Changes:
    """All the parts as one batch."""
    whole = Changes()
    for part in parts:
        whole.streams += part.streams
        whole.segments += part.segments
        whole.keys += part.keys
        whole.effects += part.effects
        whole.sends_applied += part.sends_applied
        whole.sends_dead += part.sends_dead
        whole.settlements += part.settlements
    return whole


def needed(changes: Changes) -> LockRequest:
    """What a transaction that commits these changes asks for; it waits for its rows."""
    return LockRequest(
        locks={written.stream: NOT_CACHED for written in changes.streams},
        keys=[used.key for used in changes.keys],
        sends=[*changes.sends_applied, *(dead.id for dead in changes.sends_dead)],
        waits={written.stream for written in changes.streams},
    )


def locking(*streams: StreamId) -> LockRequest:
    return LockRequest(locks=dict.fromkeys(streams, NOT_CACHED))


def waiting(*streams: StreamId) -> LockRequest:
    return LockRequest(locks=dict.fromkeys(streams, NOT_CACHED), waits=set(streams))


def used(key: KeyId, of: StreamId, version: int, at: Instant, **columns: Any) -> KeyWrite:
    return replace(KeyWrite(key, '{"asked":"once"}', of, version, at + HOUR), **columns)


def keyed(key: KeyId, of: StreamId, version: int, at: Instant, **columns: Any) -> Changes:
    """A stream moved by a command under a key; the columns are the key's."""
    return Changes(
        streams=[write(of, version, at)],
        segments=[segment(of, version, at, key=key)],
        keys=[used(key, of, version, at, **columns)],
    )


def call(of: StreamId, version: int, at: Instant, place: int = 0, **columns: Any) -> EffectWrite:
    plain = EffectWrite(EffectId(*of, version, place), "handler:brief", '{"say":"hello"}', at, at, attempts_max=3)
    return replace(plain, **columns)


def send(of: StreamId, version: int, at: Instant, to: StreamId, place: int = 0, **columns: Any) -> EffectWrite:
    plain = EffectWrite(EffectId(*of, version, place), SEND, '{"type":"Do"}', at, at, to=to)
    return replace(plain, **columns)


def causing(of: StreamId, version: int, at: Instant, *effects: EffectWrite) -> Changes:
    """A stream moved, with what must happen after the commit."""
    return together(moved(of, version, at), Changes(effects=list(effects)))


def settled(id: EffectId, fence: int, status: Any, at: Instant, **columns: Any) -> Changes:
    return Changes(settlements=[replace(Settlement(id, fence, status, at), **columns)])
