"""Routes of administration: a tenant's policy, keys, webhook secret, hold and history, and whose key this is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from betimes.admin.service import (
    KeyView,
    NewKey,
    PolicyCheck,
    PolicyProblem,
    PolicyRequest,
    PolicyView,
    PolicyWritten,
    Rollback,
    Rotation,
    SecretKeyView,
    Tenants,
    WebhookSecret,
)
from betimes.admin.toml_lines import line_at, line_numbers
from betimes.core.errors import Invalid, PolicyInvalid
from betimes.core.visible import visible
from betimes.domain.derivation import derive
from betimes.domain.hold_view import HOLD_HEADER, HoldView, read_hold
from betimes.domain.paging import NumberPlace, Page, checked_limit, cursor_of, place_of
from betimes.domain.service import read_off_loop
from betimes.domain.warnings import Remark
from betimes.http.policy_schema import policy_schema
from betimes.http.request_decoder import is_toml
from betimes.http.routes import ANY_KEY, Answer, Listed, RequestContext, name_segment
from betimes.http.service_calls import ServiceRoutes

TAG = "Administration"
_POLICY_READ_ONLY = frozenset({"fingerprint", "effective", "updated_at", "warnings"})


class WhoAmI(msgspec.Struct, frozen=True):
    tenant: str
    key_id: str | None
    """`None` where no keys are needed."""
    name: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    hold: HoldView | None
    """While nothing of some domains fires."""


# -- policy


def _with_etag(view: PolicyView) -> Answer:
    return Answer(view, headers={"ETag": f'"{view.version}"'})


async def policy(request: RequestContext) -> Answer[PolicyView]:
    return _with_etag(await request.services.tenants.policy())


async def put_policy(request: RequestContext[PolicyRequest]) -> Answer[PolicyWritten]:
    return await _written(request, request.services.tenants.set_policy(_conditional(request)))


async def rollback_policy(request: RequestContext[Rollback]) -> Answer[PolicyWritten]:
    return await _written(request, request.services.tenants.rollback_policy(_conditional(request)))


def _conditional(request: RequestContext) -> Any:
    """Return the body with the version it is conditional on, from the header `If-Match` or its own."""
    return msgspec.structs.replace(request.body, version=request.expected_version)


async def _written(request: RequestContext, change: Awaitable[PolicyWritten]) -> Answer:
    try:
        written = await change
    except PolicyInvalid as error:
        problems = tuple((_path_in_body(path), message) for path, message in error.problems)
        raise Invalid(str(error), problems) from None
    name_segment(request, request.services.tenants)
    return _with_etag(msgspec.structs.replace(written, warnings=_in_body(written.warnings)))


async def check_policy(request: RequestContext[PolicyRequest]) -> PolicyCheck:
    told = await request.services.tenants.check_policy(request.body)
    lines = {}
    # Lines are looked up only where there is something to point at.
    if told.errors and is_toml(request.headers.get("content-type")):
        lines = await read_off_loop(
            request.raw, partial(line_numbers, request.raw.decode()), request.process.body_threads
        )
    errors = [
        PolicyProblem(_path_in_body(error.path), error.message, line_at(lines, error.path)) for error in told.errors
    ]
    return msgspec.structs.replace(told, errors=errors, warnings=_in_body(told.warnings))


async def schema_of_policy(request: RequestContext) -> dict[str, Any]:
    return policy_schema()


def _in_body(remarks: list[Remark]) -> list[Remark]:
    return [Remark(_path_in_body(remark.path), remark.message) for remark in remarks]


def _path_in_body(path: str) -> str:
    """Where in the body a setting is."""
    return "overrides" if path in ("", "policy") else f"overrides.{path}"


# -- keys


def _once(request: RequestContext, view: SecretKeyView | WebhookSecret, status: int = 200, **headers: str) -> Answer:
    """A secret is shown once; what is answered again says so."""
    name_segment(request, request.services.tenants)
    if view.secret is None:
        headers["Idempotency-Replayed"] = "true"
    return Answer(view, status, {"Cache-Control": "no-store", **headers})


async def create_key(request: RequestContext[NewKey]) -> Answer[SecretKeyView]:
    view = await request.services.tenants.create_key(request.body, key=request.idempotency_key)
    return _once(request, view, 201, Location=f"/v1/keys/{view.key_id}")


async def keys(request: RequestContext) -> Page[KeyView]:
    limit = checked_limit(request.query.limit)
    named = ["keys", request.caller.tenant]
    place = place_of(request.query.cursor, named, NumberPlace)
    start = place.number if place else 0
    views = await request.services.tenants.keys()
    is_more = len(views) > start + limit
    return Page(views[start : start + limit], cursor_of(named, NumberPlace(start + limit)) if is_more else None)


async def rotate_key(request: RequestContext[Rotation]) -> Answer[SecretKeyView]:
    rotated = await request.services.tenants.rotate_key(
        request.path["key_id"], request.body, key=request.idempotency_key
    )
    return _once(request, rotated)


async def rotate_webhook_secret(request: RequestContext[Rotation]) -> Answer[WebhookSecret]:
    rotated = await request.services.tenants.rotate_webhook_secret(request.body, key=request.idempotency_key)
    return _once(request, rotated)


async def whoami(request: RequestContext) -> WhoAmI:
    if place := request.headers.get(REVEAL_HEADER):
        who = f"{request.caller.actor} ({request.key_id or 'no key'}) of {request.caller.tenant}"
        _audit.info("texts revealed: %s, at %s", visible(who), visible(place[:REVEAL_CHARS_MAX]))
    hold = await read_hold(request.engine, request.caller.tenant)
    if not request.key_id:
        return WhoAmI(request.caller.tenant, None, request.caller.actor, request.scopes, None, hold)
    # A session that is elevated has more scopes than it was opened with.
    return derive(WhoAmI, await request.services.tenants.key(request.key_id), scopes=request.scopes, hold=hold)


REVEAL_HEADER = "Betimes-Reveal"
REVEAL_CHARS_MAX = 300
_audit = logging.getLogger("betimes.audit")
_OVERRIDES = {"overrides": {"intents": {"claim_lease_s": 600}}}

_tenants = ServiceRoutes(lambda request: request.services.tenants, TAG, read="admin", write="admin")

ROUTES = (
    _tenants.get(
        "/v1/policy",
        policy,
        "The policy in force",
        description="The tenant's own overrides, and what they come to on top of the deployment's policy.",
    ),
    _tenants.put(
        "/v1/policy",
        put_policy,
        "Replace the tenant's overrides",
        description="A policy that cannot work is refused with every path. "
        "`If-Match` or `version` makes it conditional.",
        read_only=_POLICY_READ_ONLY,
        codes=((412, "VERSION_MISMATCH"),),
        example=_OVERRIDES,
    ),
    _tenants.post(
        "/v1/policy/check",
        check_policy,
        "Check overrides and show what they would change",
        description="A dry run: nothing is changed or recorded. With `Content-Type: application/toml` the body is the "
        "overrides as a document, and errors have line numbers.",
        toml_field="overrides",
        read_only=_POLICY_READ_ONLY,
        example=_OVERRIDES,
        dry_run=True,
    ),
    _tenants.post(
        "/v1/policy/rollback",
        rollback_policy,
        "Roll back to earlier overrides",
        keeps_answer="rollbacks",
        conditional=True,
        description="As a new version, with its own note. `If-Match` or `version` makes it conditional on what is "
        "in force now. Without `to_version` or `overrides_fingerprint` it undoes the latest change that was not rolled "
        "back yet: repeated, it goes further back, until there is nothing left.",
        body_optional=True,
        codes=(
            (412, "VERSION_MISMATCH"),
            (409, "NOTHING_TO_ROLL_BACK"),
            (409, "POLICY_TOO_FAR_BACK"),
            (409, "DECLARED_IN_CODE"),
        ),
        example={"to_version": 0, "note": "people were woken"},
    ),
    _tenants.get("/v1/policy/history", Tenants.policy_history, "Changes of the tenant's overrides, newest first"),
    _tenants.get(
        "/v1/policy/schema",
        schema_of_policy,
        "The JSON Schema of a policy",
        description="Every section with its fields, their defaults and bounds.",
        reply=dict,
    ),
    _tenants.get("/v1/policies/{fingerprint}", Tenants.policy_named, "A policy by its fingerprint"),
    _tenants.post(
        "/v1/keys",
        create_key,
        "Create a key",
        description="For the caller's own tenant. Its secret is in this answer and nowhere else; a replay has `null`.",
        status=201,
        codes=((409, "TOO_MANY_KEYS"),),
        example={"name": "crm", "scopes": ["runs:write", "runs:read"]},
    ),
    _tenants.get("/v1/keys", keys, "Keys, newest first", description="Revoked ones too.", query=Listed),
    _tenants.get("/v1/keys/{key_id}", Tenants.key, "A key"),
    _tenants.post(
        "/v1/keys/{key_id}/rotate",
        rotate_key,
        "Rotate a key",
        description="Both live until `previous_expires_at`.",
        body_optional=True,
        codes=((409, "ROTATION_IN_PROGRESS"), (409, "NOT_A_KEY")),
        example={"overlap_s": 86400},
    ),
    _tenants.delete("/v1/keys/{key_id}", Tenants.revoke_key, "Revoke a key"),
    _tenants.post(
        "/v1/webhook-secret/rotate",
        rotate_webhook_secret,
        "Rotate the secret that signs outbound calls",
        description="Shown once; both sign for `overlap_s`.",
        body_optional=True,
        example={"overlap_s": 86400},
    ),
    _tenants.get(
        "/v1/whoami",
        whoami,
        "The caller's tenant and scopes",
        scope=ANY_KEY,
        description=f"With the header `{REVEAL_HEADER}`, the log records that the caller was shown texts there; "
        "the console sends it at each click that reveals texts.",
    ),
    _tenants.get("/v1/hold", Tenants.hold, "The hold in force"),
    _tenants.put(
        "/v1/hold",
        Tenants.set_hold,
        "Hold everything, or some domains",
        description="Until that instant, or until it is ended, no alarm of these domains rings, no schedule ticks, "
        "and nothing is sent, called or claimed. Requests are answered and recorded as usual. Afterwards all deferred "
        "work happens, in order. Meanwhile every answer carries the header "
        f"`{HOLD_HEADER}`. A hold that is in force is replaced.",
        example={"domains": ["notifications"], "until": "2026-01-05T18:00:00Z", "reason": "a wrong template"},
    ),
    _tenants.delete("/v1/hold", Tenants.end_hold, "End the hold"),
    _tenants.post(
        "/v1/prune",
        Tenants.prune,
        "Replace old history by checkpoints",
        keeps_answer="prunes",
        deployment=True,
        example={"before": "2026-01-01T00:00:00Z", "note": "a year is enough"},
    ),
)
