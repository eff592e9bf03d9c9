"""Identities behind API keys: `bt_<key id>_<secret>`, held against the tenant's stream at every request.

The stream's row is read for every request, so a key that was revoked is refused from its commit on, in every process.
Only its decoded state is kept, and used while the row holds the same text.
Requests that come together are looked up together: each goes by a look that began after it came, and under load one
look serves all that came during the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

import msgspec

from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.streams import StreamId, check_stream
from betimes.engine.engine import Engine
from betimes.engine.holds import hold_in_force
from betimes.engine.store import Row
from betimes.engine.tenants.model import ApiKey, TenantState, tenant_stream
from betimes.engine.tenants.sessions import is_due_to_be_kept, live_parent

KEY_PREFIX = "bt_"
TENANTS_MAX = 200
"""Of which the decoded state is kept; the one that came first is dropped for another."""


class Identity(msgspec.Struct, frozen=True):
    """The owner of the key that a request carries."""

    tenant: str
    key_id: str
    name: str
    scopes: tuple[str, ...]
    expires_at: Instant | None
    is_session: bool = False
    is_due_to_be_kept: bool = False
    """Whether a session was last extended so long ago that it is extended again."""


class _Look:
    """One lookup of the tenants that were requested before it began."""

    def __init__(self) -> None:
        self.streams: set[StreamId] = set()
        self.found: tuple[Mapping[StreamId, Row], Instant] | Exception | None = None
        self.waiting: list[asyncio.Future[None]] = []
        """One for each request, so that one that gives up takes nothing from the others."""

    async def wait(self) -> tuple[Mapping[StreamId, Row], Instant]:
        """Return what the look finds; raise what went wrong with it."""
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(seen)
        await seen
        assert self.found is not None
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def end(self, found: tuple[Mapping[StreamId, Row], Instant] | Exception) -> None:
        self.found = found
        for seen in self.waiting:
            if not seen.done():
                seen.set_result(None)


class Identities:
    """Finds out whose keys requests carry."""

    def __init__(self) -> None:
        self._next: _Look | None = None
        self._looking: asyncio.Task[None] | None = None
        self._decoded: dict[StreamId, tuple[tuple[int, str | None], TenantState | None]] = {}

    async def of(self, engine: Engine, token: str) -> Identity | None:
        """Return the identity behind a token; `None` if the key is unknown, expired or revoked."""
        if not token.startswith(KEY_PREFIX):
            return None
        # A secret is in hexadecimal, so the last underscore ends the id, whatever the tenant's name holds.
        key_id, _, secret = token.removeprefix(KEY_PREFIX).rpartition("_")
        return await self._find(engine, key_id, digest_of(secret)) if secret else None

    async def under(self, engine: Engine, key_id: str) -> Identity | None:
        """Return the identity of a key by its id, for a caller that was authenticated in another way."""
        return await self._find(engine, key_id, None)

    async def _find(self, engine: Engine, key_id: str, digest: str | None) -> Identity | None:
        # A key's id begins with its tenant: one row tells everything, and no index of keys is needed.
        tenant = key_id.rpartition("~")[0]
        if not tenant:
            return None
        stream = tenant_stream(tenant)
        # The name comes from outside; one that was decoded before has been checked.
        if stream not in self._decoded:
            try:
                check_stream(*stream)
            except Invalid:
                return None
        rows, now = await self._look_at(engine, stream)
        row = rows.get(stream)
        state = row and self._decode_state(engine, stream, row)
        # The row is read with every request anyway, so holds set elsewhere are learnt of before the next poll.
        if row and (engine.holds.by_tenant or (state and state.hold)):
            engine.holds.note(tenant, hold_in_force(state, now), row.version)
        key = state.keys.get(key_id) if state else None
        if state is None or key is None or not _is_live(key, digest, now):
            return None
        if key.parent_id is not None:
            return _session_identity(tenant, key_id, key, state, now)
        return Identity(tenant, key_id, key.name, key.scopes, key.expires_at)

    def _decode_state(self, engine: Engine, stream: StreamId, row: Row) -> TenantState | None:
        """Return the state in a row; decode it only if the last row of the stream held another."""
        text = (row.schema, row.state)
        known = self._decoded.get(stream)
        if known is None or known[0] != text:
            if known is None and len(self._decoded) >= TENANTS_MAX:
                del self._decoded[next(iter(self._decoded))]
            known = self._decoded[stream] = text, engine.kinds.of(stream).state(stream, *text)
        return known[1]

    async def _look_at(self, engine: Engine, stream: StreamId) -> tuple[Mapping[StreamId, Row], Instant]:
        if self._next is None:
            self._next = _Look()
        look = self._next
        look.streams.add(stream)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(engine))
        return await look.wait()

    async def _look(self, engine: Engine) -> None:
        # Who asks while a look is under way shares the next one: nobody is answered from before the question.
        while look := self._next:
            self._next = None
            try:
                look.end((await engine.store.load(sorted(look.streams)), await engine.store.now()))
            except Exception as error:  # noqa: BLE001 — told to everybody who waits for it
                look.end(error)


def _session_identity(tenant: str, key_id: str, key: ApiKey, state: TenantState, now: Instant) -> Identity | None:
    """Return who a session stands for, while it and the key it was opened with are alive."""
    parent = live_parent(state, key, now)
    if parent is None or key.idle_until is None or key.idle_until <= now:
        return None
    is_elevated = key.elevated_until is not None and key.elevated_until > now
    scopes = parent.scopes if is_elevated else key.scopes
    is_due = is_due_to_be_kept(key, now)
    return Identity(tenant, key_id, key.name, scopes, key.expires_at, is_session=True, is_due_to_be_kept=is_due)


def digest_of(secret: str) -> str:
    """Secrets are 32 random bytes, so a plain digest hides them as well as a slow one."""
    return sha256(secret.encode()).hexdigest()


def _is_live(key: ApiKey, digest: str | None, now: Instant) -> bool:
    """Return whether a key is active and, unless it was authenticated in another way, its secret has this digest."""
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        return False
    if digest is None or compare_digest(key.secret_digest, digest):
        return True
    previous_lives = key.previous_expires_at is not None and key.previous_expires_at > now
    return previous_lives and compare_digest(key.previous_digest, digest)
