"""The stream `tenant`: the policy overrides in force, the keys that may act for it, and what signs its webhooks.

Of an API key only digests of its secrets are kept; two live while it is rotated. A webhook secret must be known to sign
with it, so it is in the state; views leave it out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from betimes.core.instants import DAY, Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.streams import StreamId

DEPLOYMENT = StreamId("*", "tenant", "*")
"""Where the deployment's own policy is in force."""
KEYS_MAX = 200
"""Keys of a tenant; past it, those that ended longest ago make room."""
SESSIONS_MAX = 50
SESSIONS_PER_KEY_MAX = 10
"""Live sessions of a tenant."""
SESSION_IDLE_S = 3_600
SESSION_ELEVATED_S = 900
HOLD_MAX = 30 * DAY
"""How long a hold may be, counted from when it is set."""
HELD = "held"
"""The status of a tenant whose hold has not ended."""
RECONSIDER = "reconsider"
"""The executor that goes through the streams of a tenant after its policy has changed."""


@lru_cache(maxsize=1 << 10)
def tenant_stream(tenant: str) -> StreamId:
    return StreamId(tenant, "tenant", tenant)


class Declared(msgspec.Struct, frozen=True):
    """The settings that an application declares in code, and needs."""

    application: str
    policy: dict[str, Any]


class SetPolicy(StoredMessage):
    """Replace the tenant's overrides (of the tenant `*`: the deployment's policy)."""

    policy: dict[str, Any]
    expected_version: int | None = None
    """Refused unless the policy is at this version; without it, the last one wins."""
    note: str | None = None
    backtest_id: str | None = None
    """The backtest that showed what it would change."""
    restores: int | None = None
    """Of a roll back: the version whose overrides it puts in force again."""
    declared: Declared | None = None
    """Of an application that opens: what of it is declared in its code."""


class KeyFields(msgspec.Struct, frozen=True):
    """The fields of a key or session that is made, in the command and in the event."""

    key_id: str
    name: str
    scopes: tuple[str, ...]
    secret_digest: str


class CreateKey(KeyFields, frozen=True, tag=True):
    expires_at: Instant | None = None


class RotateKey(StoredMessage):
    """A new secret; the old one lives for a while beside it."""

    key_id: str
    secret_digest: str
    overlap_s: int


class RevokeKey(StoredMessage):
    key_id: str


class RotateWebhookSecret(StoredMessage):
    secret: str
    overlap_s: int


class ResealWebhookSecrets(StoredMessage):
    """Store the same secrets in another form; signatures stay the same."""

    webhook_secret: str
    previous_webhook_secret: str
    was: str
    """The fingerprint of the form they had, which must still be theirs."""


class SessionFields(KeyFields, frozen=True):
    parent_id: str
    """The key it was opened with."""
    expires_at: Instant


class OpenSession(SessionFields, frozen=True, tag=True):
    """A key for a browser: short-lived, with scopes to read, and gone when the key it was opened with is."""


class KeepSession(StoredMessage):
    """The session was used."""

    key_id: str


class ElevateSession(StoredMessage):
    """Give a session all scopes of the key it was opened with, for a while."""

    key_id: str
    parent_id: str
    """The key that was shown again; it must be the one the session was opened with."""


class HoldFields(msgspec.Struct, frozen=True):
    domains: tuple[str, ...]
    until_at: Instant
    reason: str


class SetHold(HoldFields, frozen=True, tag=True):
    """Let nothing of these domains fire until an instant; it takes the place of the hold there is, if there is one."""


class EndHold(StoredMessage):
    """End the hold now."""

    note: str | None = None


class Visits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Streams that are still to reconsider their instants: those of these kinds and statuses, from a stream on."""

    policy_version: int
    """Of the change they follow from."""
    lists: tuple[tuple[str, str], ...]
    """Kinds with a status each, an empty one for all; the first is being gone through."""
    after: StreamId | None = None
    """The last stream of the first list that was visited."""


class PolicySet(StoredMessage):
    policy: dict[str, Any]
    fingerprint: str
    at: Instant
    visits: Visits | None = None
    note: str | None = None
    backtest_id: str | None = None
    restores: int | None = None
    declared: Declared | None = None


class StreamsVisited(StoredMessage):
    """Streams have reconsidered their instants; how many did, and how many of those changed something."""

    visited: int
    moved: int
    visits: Visits | None = None
    """Those still to be visited."""


class KeyCreated(KeyFields, frozen=True, tag=True):
    expires_at: Instant | None
    at: Instant


class KeyForgotten(StoredMessage):
    """A key that had ended made room for another; its history stays in the ledger."""

    key_id: str


class KeyRotated(StoredMessage):
    key_id: str
    secret_digest: str
    previous_expires_at: Instant


class KeyRevoked(StoredMessage):
    key_id: str
    at: Instant


class SessionOpened(SessionFields, frozen=True, tag=True):
    idle_until: Instant
    at: Instant


class SessionKept(StoredMessage):
    key_id: str
    idle_until: Instant


class SessionElevated(StoredMessage):
    key_id: str
    until: Instant


class WebhookSecretRotated(StoredMessage):
    secret: str
    previous_expires_at: Instant


class WebhookSecretsResealed(StoredMessage):
    webhook_secret: str
    previous_webhook_secret: str


class HoldSet(HoldFields, frozen=True, tag=True):
    at: Instant


class HoldEnded(StoredMessage):
    """What was held may fire again; without somebody's doing when its time was over."""

    at: Instant
    note: str | None = None


class Hold(HoldFields, frozen=True):
    """Nothing of these domains fires until an instant."""

    since_at: Instant


class ApiKey(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    scopes: tuple[str, ...]
    secret_digest: str
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    previous_digest: str = ""
    previous_expires_at: Instant | None = None
    parent_id: str | None = None
    """Of a session: the key it was opened with."""
    idle_until: Instant | None = None
    elevated_until: Instant | None = None


class TenantState(msgspec.Struct, frozen=True, omit_defaults=True):
    policy: dict[str, Any] = {}
    fingerprint: str = ""
    policy_version: int = 0
    policy_at: Instant | None = None
    keys: dict[str, ApiKey] = {}
    webhook_secret: str = ""
    previous_webhook_secret: str = ""
    previous_webhook_secret_expires_at: Instant | None = None
    visits: Visits | None = None
    hold: Hold | None = None
    released: dict[str, Instant] = {}
    """By domain, when its last hold ended."""
    declared: dict[str, dict[str, Any]] = {}
    """By application, the settings that its code declares."""


Commands: TypeAlias = (
    SetPolicy
    | CreateKey
    | RotateKey
    | RevokeKey
    | OpenSession
    | KeepSession
    | ElevateSession
    | RotateWebhookSecret
    | ResealWebhookSecrets
    | SetHold
    | EndHold
)
Events: TypeAlias = (
    PolicySet
    | StreamsVisited
    | KeyCreated
    | KeyForgotten
    | KeyRotated
    | KeyRevoked
    | SessionOpened
    | SessionKept
    | SessionElevated
    | WebhookSecretRotated
    | WebhookSecretsResealed
    | HoldSet
    | HoldEnded
)
