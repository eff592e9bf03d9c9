"""Sessions: short-lived keys for browsers, as the decider of tenants keeps them.

A session is opened with a key, has a part of its scopes, and ends with it. It also ends when it expires, when it is
revoked like any key, and when nobody used it for an hour. Those that have ended are forgotten when the next is opened.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from betimes.core.deciders import Decision, Refusal
from betimes.core.instants import SECOND, Instant
from betimes.engine.tenants.model import (
    SESSION_ELEVATED_S,
    SESSION_IDLE_S,
    SESSIONS_MAX,
    SESSIONS_PER_KEY_MAX,
    ApiKey,
    ElevateSession,
    KeepSession,
    KeyForgotten,
    OpenSession,
    SessionElevated,
    SessionKept,
    SessionOpened,
    TenantState,
)

KEPT_AFTER = SESSION_IDLE_S * SECOND * 3 // 4
"""A session with less than this left before it is idle for too long is kept again: a few segments an hour."""


def live_parent(tenant: TenantState, session: ApiKey, now: Instant) -> ApiKey | None:
    """Return the key a session was opened with, if that still lets anybody in."""
    parent = tenant.keys.get(session.parent_id or "")
    return None if parent is None or parent.parent_id is not None or _has_ended(parent, now) else parent


def _has_ended(key: ApiKey, now: Instant) -> bool:
    ends = (key.revoked_at, key.expires_at, key.idle_until)
    return any(at is not None and at <= now for at in ends)


def is_due_to_be_kept(session: ApiKey, now: Instant) -> bool:
    """Return whether a session was last kept so long ago that it is kept again."""
    return session.idle_until is not None and session.idle_until - now <= KEPT_AFTER


def decide_session(
    tenant: TenantState, command: OpenSession | KeepSession | ElevateSession, now: Instant
) -> Decision | Refusal:
    if isinstance(command, OpenSession):
        return _open_session(tenant, command, now)
    session = tenant.keys.get(command.key_id)
    parent = live_parent(tenant, session, now) if session else None
    if session is None or parent is None or _has_ended(session, now):
        return Refusal("NOT_FOUND", "the session has ended; sign in again")
    if isinstance(command, KeepSession):
        if not is_due_to_be_kept(session, now):  # requests that came together were all told that it is
            return Decision()
        return Decision((SessionKept(command.key_id, now + SESSION_IDLE_S * SECOND),))
    if command.parent_id != session.parent_id:
        return Refusal("ANOTHER_KEY", "the session was opened with another key; send that one")
    return Decision((SessionElevated(command.key_id, now + SESSION_ELEVATED_S * SECOND),))


def _open_session(tenant: TenantState, command: OpenSession, now: Instant) -> Decision | Refusal:
    parent = tenant.keys.get(command.parent_id)
    if parent is not None and parent.parent_id is not None:
        return Refusal(
            "ALREADY_A_SESSION", "a session cannot open another one; send the key itself, without the cookie"
        )
    if parent is None or _has_ended(parent, now):
        return Refusal("NOT_FOUND", f"there is no key {command.parent_id!r} to open a session with")
    sessions = {key_id: key for key_id, key in tenant.keys.items() if key.parent_id is not None}
    # Nobody looks at sessions that have ended, so they make room when the next one is opened.
    ended = [id for id, key in sessions.items() if _has_ended(key, now) or live_parent(tenant, key, now) is None]
    same_key = sum(key.parent_id == command.parent_id for id, key in sessions.items() if id not in ended)
    if same_key >= SESSIONS_PER_KEY_MAX:
        message = f"{SESSIONS_PER_KEY_MAX} sessions of this key are open; close one, or wait until one times out"
        return Refusal("TOO_MANY_SESSIONS", message)
    if len(sessions) - len(ended) >= SESSIONS_MAX:
        return Refusal("TOO_MANY_SESSIONS", f"{SESSIONS_MAX} sessions are open; close one, or revoke its key")
    opened = SessionOpened(
        command.key_id,
        command.name,
        command.scopes,
        command.secret_digest,
        command.parent_id,
        # No session outlives its key.
        min(command.expires_at, parent.expires_at or command.expires_at),
        now + SESSION_IDLE_S * SECOND,
        now,
    )
    return Decision((*(KeyForgotten(key_id) for key_id in ended), opened))


def fold_session(tenant: TenantState, event: SessionOpened | SessionKept | SessionElevated) -> TenantState:
    key_id = event.key_id
    match event:
        case SessionOpened(_, name, scopes, digest, parent_id, expires_at, idle_until, at):
            key = ApiKey(name, scopes, digest, at, expires_at, parent_id=parent_id, idle_until=idle_until)
        case SessionKept(_, idle_until):
            key = replace(tenant.keys[key_id], idle_until=idle_until)
        case SessionElevated():
            key = replace(tenant.keys[key_id], elevated_until=event.until)
        case _:
            assert_never(event)
    return replace(tenant, keys={**tenant.keys, key_id: key})
