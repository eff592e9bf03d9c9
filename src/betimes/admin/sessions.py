"""Sessions of a tenant's people in a browser: opened with a key, elevated with it, closed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from secrets import token_hex
from typing import Annotated, Any

import msgspec

from betimes.catalogue import AREAS, SCOPES, Scope
from betimes.core.errors import MissingScope, NotFound, Refused
from betimes.core.instants import SECOND
from betimes.core.scopes import ADMIN
from betimes.core.segments import Recorded
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.service import Service, check_request
from betimes.engine.tenants.identities import KEY_PREFIX, digest_of
from betimes.engine.tenants.model import ApiKey, ElevateSession, OpenSession, RevokeKey, TenantState, tenant_stream

SESSION_S_MAX = 12 * 3_600


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: Annotated[str, msgspec.Meta(max_length=40)] = ""
    """The browser's name, for the list of keys."""
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(max_length=len(SCOPES))] | None = None
    """Some of the key's read scopes; by default all of them."""
    expires_in_s: Annotated[int, msgspec.Meta(ge=60, le=SESSION_S_MAX)] = SESSION_S_MAX


class Elevation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=600)] | None = None
    """The key that the session was opened with, again; optional behind a trusted proxy."""


class SessionView(JsonView, frozen=True, kw_only=True):
    key_id: str
    """Under which it is listed and revoked."""
    name: str
    tenant: str
    scopes: tuple[str, ...]
    """Its current scopes."""
    expires_at: datetime
    idle_until: datetime
    """When it ends if it is not used."""
    elevated_until: datetime | None


class Sessions(Service):
    """The sessions of a tenant."""

    async def open(
        self, parent_id: str, request: NewSession | Mapping[str, Any], *, key: str | None = None
    ) -> tuple[SessionView, str | None]:
        """Open a session with a key; return it with its token, which is shown once. A replay has none."""
        asked = check_request(request, NewSession)
        granted = readable_scopes(self.caller.scopes or ())
        if extra := [scope for scope in asked.scopes or () if scope not in granted]:
            raise MissingScope(f"The key lacks the scope {extra[0]}, or that is not a scope to read.")
        secret, key_id = token_hex(32), f"{self.caller.tenant}~{token_hex(6)}"
        name = " · ".join(filter(None, ("console", self.caller.actor, asked.label)))[:64]
        expires_at = await self.engine.store.now() + asked.expires_in_s * SECOND
        scopes = granted if asked.scopes is None else tuple(dict.fromkeys(asked.scopes))
        command = OpenSession(key_id, name, scopes, digest_of(secret), parent_id, expires_at)
        sent = msgspec.json.encode(asked).decode() if key else ""
        recorded = await self._change(command, key=key, request=sent)
        if recorded.replayed:
            raise Refused(
                "SESSION_OPENED",
                "a session was opened under this idempotency key already; its cookie is not shown again. Use a new key",
            )
        return await self.view(key_id), f"{KEY_PREFIX}{key_id}_{secret}"

    async def elevate(self, key_id: str, parent_id: str) -> SessionView:
        """Give a session all scopes of its key for 15 minutes; raise `Refused` if another key was shown."""
        await self._change(ElevateSession(key_id, parent_id))
        return await self.view(key_id)

    async def close(self, key_id: str) -> None:
        """End a session; raise `NotFound` for any other key."""
        await self.view(key_id)
        await self._change(RevokeKey(key_id))

    async def view(self, key_id: str) -> SessionView:
        state: TenantState = await self.state(tenant_stream(self.caller.tenant)) or TenantState()
        session = state.keys.get(key_id)
        if session is None or session.parent_id is None:
            raise NotFound("this key does not belong to a session; open one with POST /v1/sessions")
        return self._view_of(key_id, session, state.keys.get(session.parent_id), await self.engine.store.now())

    def _view_of(self, key_id: str, session: ApiKey, parent: ApiKey | None, now: int) -> SessionView:
        is_elevated = session.elevated_until is not None and session.elevated_until > now
        return derive(
            SessionView,
            session,
            key_id=key_id,
            tenant=self.caller.tenant,
            scopes=parent.scopes if is_elevated and parent else session.scopes,
            elevated_until=session.elevated_until if is_elevated else None,
        )

    async def _change(self, command: Any, *, key: str | None = None, request: str = "") -> Recorded:
        stream = tenant_stream(self.caller.tenant)
        return await self.submit(stream, command, key=key, collection="sessions", request=request)


def readable_scopes(scopes: Collection[str]) -> tuple[str, ...]:
    """Return the scopes to read that these hold or imply."""
    if ADMIN in scopes:
        return tuple(f"{area}:read" for area in AREAS)
    return tuple(scope for scope in scopes if scope.endswith(":read"))
