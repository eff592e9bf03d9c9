"""Authentication and authorization: keys, sessions and scopes of requests."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from betimes.catalogue import spell_scope
from betimes.core.scopes import allows
from betimes.core.streams import check_stream
from betimes.domain.service import Caller
from betimes.engine.tenants.identities import KEY_PREFIX, Identities, Identity
from betimes.http.dry_runs import Trial, scope_to_try
from betimes.http.problems import CHALLENGE, HttpProblem
from betimes.http.proxy_sign_in import NOBODY, ProxySignIn
from betimes.http.routes import ANY_KEY, DEPLOYMENT_TENANT, PUBLIC, IncomingRequest, Route, ServedApplication
from betimes.http.sessions import COOKIE, NO_SESSION, keep_session, session_cookie, session_token

NO_KEY = "Send Authorization: Bearer bt_… with a valid key; `betimes key create` makes one."


class Guard:
    """Authenticates and authorises requests."""

    def __init__(
        self, application: ServedApplication, identities: Identities, *, dev: bool, proxy: ProxySignIn = NOBODY
    ) -> None:
        self._application = application
        self._dev = dev
        self._identities = identities
        self._proxy = proxy

    async def caller(
        self, request: IncomingRequest, route: Route, correlation: str, trial: Trial | None
    ) -> tuple[Caller, tuple[str, ...], str]:
        """Return the caller, its scopes and its key's id; raise 401 or 403. A dry run needs the scope to read."""
        scope = scope_to_try(route.scope) if trial else route.scope
        if self._dev or route.scope == PUBLIC:
            tenant = request.first_headers.get("x-tenant", "default") if self._dev else ""
            if tenant:
                _check_tenant(tenant)
            scopes = ("admin",) if self._dev else ()
            return Caller(tenant, "dev" if self._dev else "", correlation, scopes), scopes, ""
        if route.signs_in and not _brings_proof(request) and (named := self._proxy.who(request)):
            return await self._named_caller(*named, route, scope, correlation)
        session = session_token(request) if "cookie" in request.first_headers else None
        if session is not None:
            return await self._session_caller(session, route, scope, correlation)
        kind, _, token = request.first_headers.get("authorization", "").partition(" ")
        if route.own_proof and not trial and not token.strip().startswith(KEY_PREFIX):
            return Caller("", "", correlation, ()), (), ""
        known = None
        if kind.lower() == "bearer":
            known = await self._identities.of(self._application.engine, token.strip())
        if known is None or known.is_session:  # the key of a session is for its cookie alone
            raise HttpProblem(401, "UNAUTHENTICATED", NO_KEY, headers=CHALLENGE)
        return _demand_scope(known, route, scope, correlation)

    async def _named_caller(
        self, name: str, key_id: str, route: Route, scope: str, correlation: str
    ) -> tuple[Caller, tuple[str, ...], str]:
        """Return the caller that a trusted proxy names, with the key it stands for."""
        known = await self._identities.under(self._application.engine, key_id)
        if known is None or known.is_session:
            message = f"The key that stands for {name} is unknown, expired or revoked; see [console] trust_keys."
            raise HttpProblem(401, "UNAUTHENTICATED", message, headers=CHALLENGE)
        return _demand_scope(msgspec.structs.replace(known, name=name), route, scope, correlation)

    async def _session_caller(
        self, token: str, route: Route, scope: str, correlation: str
    ) -> tuple[Caller, tuple[str, ...], str]:
        known = await self._identities.of(self._application.engine, token)
        if known is None or not known.is_session:
            # The browser forgets the cookie, which would otherwise stand in the way of signing in again.
            forget = {"Set-Cookie": session_cookie("", 0)}
            raise HttpProblem(401, "UNAUTHENTICATED", NO_SESSION, headers={**CHALLENGE, **forget})
        found = _demand_scope(known, route, scope, correlation)
        if known.is_due_to_be_kept:
            await keep_session(self._application.engine, known)
        return found


@lru_cache(maxsize=1_000)
def _check_tenant(tenant: str) -> None:
    """Raise `Invalid` for what is no name of a tenant."""
    check_stream(tenant, "tenant", "x")


def _brings_proof(request: IncomingRequest) -> bool:
    return "authorization" in request.first_headers or COOKIE in request.cookies


def _demand_scope(known: Identity, route: Route, scope: str, correlation: str) -> tuple[Caller, tuple[str, ...], str]:
    """Return the caller behind an identity, if its scopes cover this one; raise 403 if not."""
    if scope != ANY_KEY and not allows(known.scopes, scope):
        lacks = "has no scope for this; it needs" if scope.startswith("any:") else "lacks the scope"
        raise HttpProblem(403, "MISSING_SCOPE", f"The key {lacks} {spell_scope(scope)}.")
    if known.tenant == DEPLOYMENT_TENANT and not route.deployment and route.scope != ANY_KEY:
        raise HttpProblem(403, "TENANT_REQUIRED", "This route needs the key of a tenant; a key of `*` has none.")
    return Caller(known.tenant, known.name, correlation, known.scopes), known.scopes, known.key_id
