"""A tenant's keys, policy, hold and webhook secret, for its administrators. Secrets are shown once, when made."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from secrets import token_bytes, token_hex
from typing import Annotated, Any

import msgspec

from betimes.admin.declared_settings import dropped_declarations, keep_declarations
from betimes.admin.holds import Holds
from betimes.admin.policy_history import PolicyChange, PolicyHistory, changes
from betimes.admin.prune import Pruner
from betimes.backtest.model import BacktestsState, backtests_stream
from betimes.catalogue import SCOPES, Scope
from betimes.core.datetimes import Moment, instant, moment
from betimes.core.errors import Invalid, NotFound, PolicyInvalid, Refused
from betimes.core.names import Id
from betimes.core.segments import Recorded
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import Note
from betimes.domain.outside_calls import call_warnings, calls_of_policy
from betimes.domain.policy_check import checked_policy
from betimes.domain.service import check_request
from betimes.domain.warnings import Remark
from betimes.engine.tenants.identities import KEY_PREFIX, digest_of
from betimes.engine.tenants.model import (
    ApiKey,
    CreateKey,
    KeyCreated,
    RevokeKey,
    RotateKey,
    RotateWebhookSecret,
    SetPolicy,
    tenant_stream,
)

OverlapSeconds = Annotated[int, msgspec.Meta(ge=0, le=604_800)]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
    expires_at: Moment | None = None


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overlap_s: OverlapSeconds = 86_400


class PolicyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overrides: dict[str, Any]
    version: int | None = None
    note: Note | None = None
    """Why, for the record."""
    backtest_id: Id | None = None
    """The backtest of this tenant that showed what it would change."""


class Rollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Back to a version, or to overrides by their fingerprint.

    Without either, to what was in force before the latest change that was not rolled back yet.
    """

    to_version: Annotated[int, msgspec.Meta(ge=0)] | None = None
    overrides_fingerprint: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    version: int | None = None
    """The version in force, as a condition for the change; the same as the header `If-Match`."""
    note: Note | None = None


class KeyView(JsonView, frozen=True, kw_only=True):
    key_id: str
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    previous_expires_at: datetime | None


class SecretKeyView(KeyView, frozen=True, kw_only=True):
    """A key with its secret, which is never shown again."""

    secret: str | None


class WebhookSecret(JsonView, frozen=True):
    secret: str | None
    previous_expires_at: datetime | None


class PolicyView(JsonView, frozen=True):
    version: int
    fingerprint: str
    overrides: dict[str, Any]
    effective: dict[str, Any]
    updated_at: datetime | None


class PolicyWritten(PolicyView, frozen=True):
    warnings: list[Remark]


class PolicyProblem(Remark, frozen=True):
    line: int | None = None
    """Of the document, if it was sent as TOML."""


class PolicyCheck(JsonView, frozen=True):
    valid: bool
    errors: list[PolicyProblem]
    warnings: list[Remark]
    fingerprint: str | None
    changes: list[PolicyChange]
    overrides: dict[str, Any]
    """As they were read: of a document, what it says."""


def fresh_webhook_secret() -> str:
    return "whsec_" + b64encode(token_bytes(24)).decode()


class Tenants(PolicyHistory, Holds, Pruner):
    """The administration of one tenant."""

    # -- keys

    async def create_key(self, request: NewKey | Mapping[str, Any], *, key: str | None = None) -> SecretKeyView:
        """Make a key; its secret is in the answer and nowhere else. A replay has none."""
        request = check_request(request, NewKey)
        tenant, secret = self.caller.tenant, token_hex(32)
        key_id = f"{tenant}~{token_hex(6)}"
        command = CreateKey(key_id, request.name, request.scopes, digest_of(secret), instant(request.expires_at))
        recorded = await self._change(command, key=key, request=msgspec.json.encode(request).decode() if key else "")
        if recorded.replayed:
            # The id that was made now was not used: the record has the one of the first request.
            key_id = await self._created_in(recorded)
            return _with_secret(await self.key(key_id), None)
        return _with_secret(await self.key(key_id), f"{KEY_PREFIX}{key_id}_{secret}")

    async def _created_in(self, recorded: Recorded) -> str:
        _, page = await self.engine.store.history(recorded.stream, recorded.version - 1, 1)
        events = self.engine.kinds.of(recorded.stream).events(page[0])
        return next(event.key_id for event in events if isinstance(event, KeyCreated))

    async def keys(self) -> list[KeyView]:
        """Every key, newest first, revoked ones too."""
        state = await self._tenant()
        views = [self._key_view(key_id, key) for key_id, key in state.keys.items()]
        return sorted(views, key=lambda view: (view.created_at, view.key_id), reverse=True)

    async def key(self, key_id: str) -> KeyView:
        key = (await self._tenant()).keys.get(key_id)
        if key is None:
            raise NotFound(f"there is no key {key_id!r}")
        return self._key_view(key_id, key)

    async def rotate_key(
        self, key_id: str, request: Rotation | Mapping[str, Any], *, key: str | None = None
    ) -> SecretKeyView:
        """A new secret, in the answer and nowhere else; a replay has none."""
        request = check_request(request, Rotation)
        secret = token_hex(32)
        sent = f"rotate {key_id} {request.overlap_s}" if key else ""
        recorded = await self._change(RotateKey(key_id, digest_of(secret), request.overlap_s), key=key, request=sent)
        view = await self.key(key_id)
        return _with_secret(view, None if recorded.replayed else f"{KEY_PREFIX}{key_id}_{secret}")

    async def revoke_key(self, key_id: str) -> None:
        """End a key.

        At once, both secrets.
        """
        await self._change(RevokeKey(key_id))

    def _key_view(self, key_id: str, key: ApiKey) -> KeyView:
        return derive(KeyView, key, key_id=key_id, tenant=self.caller.tenant)

    # -- webhooks

    async def rotate_webhook_secret(
        self, request: Rotation | Mapping[str, Any], *, key: str | None = None
    ) -> WebhookSecret:
        """A new secret for outbound calls; both sign until the old one ends. A replay has none."""
        request = check_request(request, Rotation)
        secret = fresh_webhook_secret()
        sealed = self.deployment.box.seal(secret, tenant_stream(self.caller.tenant))
        sent = f"rotate webhook secret {request.overlap_s}" if key else ""
        recorded = await self._change(RotateWebhookSecret(sealed, request.overlap_s), key=key, request=sent)
        ends = moment((await self._tenant()).previous_webhook_secret_expires_at)
        return WebhookSecret(None if recorded.replayed else secret, ends)

    # -- policy

    async def policy(self) -> PolicyView:
        state = await self._tenant()
        effective = await self.engine.policy_of(self.caller.tenant)
        body = msgspec.json.decode(effective.body)
        return PolicyView(state.policy_version, effective.fingerprint, state.policy, body, moment(state.policy_at))

    async def set_policy(self, request: PolicyRequest | Mapping[str, Any]) -> PolicyWritten:
        """Replace the tenant's overrides; one that cannot work is refused with every path."""
        request = check_request(request, PolicyRequest)
        if request.backtest_id is not None:
            await self._demand_backtest(request.backtest_id)
        note = request.note or self.caller.note or None
        return await self._put_policy(SetPolicy(request.overrides, request.version, note, request.backtest_id))

    async def _put_policy(self, command: SetPolicy) -> PolicyWritten:
        policy = await checked_policy(self, command.policy)
        await self._change(command)
        view = await self.policy()
        warnings = call_warnings(self.deployment, calls_of_policy(policy))
        dropped = dropped_declarations(await self._tenant(), command.policy)
        return derive(PolicyWritten, view, warnings=[*warnings, *dropped])

    async def _demand_backtest(self, backtest_id: str) -> None:
        """Raise `Invalid` if the tenant has no such backtest."""
        state: BacktestsState | None = await self.state(backtests_stream(self.caller.tenant))
        if state is None or state.get(backtest_id) is None:
            message = f"there is no backtest {backtest_id[:80]!r}; only the last ones are kept"
            raise Invalid(message, (("backtest_id", message),))

    async def check_policy(self, request: PolicyRequest | Mapping[str, Any]) -> PolicyCheck:
        """Return what `set_policy` would say and change; record nothing."""
        request = check_request(request, PolicyRequest)
        before = msgspec.json.decode((await self.engine.policy_of(self.caller.tenant)).body)
        try:
            policy = await checked_policy(self, request.overrides)
        except PolicyInvalid as error:
            errors = [PolicyProblem(*problem) for problem in error.problems]
            return PolicyCheck(False, errors, [], None, [], request.overrides)
        after = msgspec.json.decode(policy.body)
        warnings = call_warnings(self.deployment, calls_of_policy(policy))
        warnings += dropped_declarations(await self._tenant(), request.overrides)
        return PolicyCheck(True, [], warnings, policy.fingerprint, list(changes("", before, after)), request.overrides)

    async def rollback_policy(self, request: Rollback | Mapping[str, Any]) -> PolicyWritten:
        """Put earlier overrides in force again, as a new version; raise `NotFound` if they are not on the ledger.

        What applications declare in code stays, for they need it; raise `Refused` if nothing else would change.
        """
        request = check_request(request, Rollback)
        earlier = await self.earlier_overrides(request.to_version, request.overrides_fingerprint)
        overrides = keep_declarations(await self._tenant(), earlier)
        note = request.note or self.caller.note or f"back to version {earlier.version}"
        return await self._put_policy(SetPolicy(overrides, request.version, note, earlier.backtest_id, earlier.version))

    # -- the stream

    async def _change(self, command: Any, *, key: str | None = None, request: str = "") -> Recorded:
        try:
            return await self.submit(
                tenant_stream(self.caller.tenant), command, key=key, collection="keys", request=request
            )
        except Refused as refused:
            if refused.reason == "EXPIRED":
                raise Invalid(str(refused), (("expires_at", "must be in the future"),)) from None
            raise


def _with_secret(view: KeyView, secret: str | None) -> SecretKeyView:
    return derive(SecretKeyView, view, secret=secret)
