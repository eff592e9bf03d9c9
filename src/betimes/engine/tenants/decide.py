"""The decider of tenants: the policy in force, the keys that may act for one, and the hold on its domains.

Only a policy that works, and only when it changes something; keys that are there, one rotation at a time.

A change of policy begins a pass over the streams whose instants may follow from what changed: a call for each leg of
it, asked for in the commit that makes the change or ends the leg before. So the pass survives whatever happens to the
processes that carry it out. A further change begins it anew, with what the first left undone.

A hold says what must not happen and changes nothing that waits: alarms, effects and claims stay where they are and are
passed over. So there is nothing to undo when it ends. It ends by itself at its instant, which is the tenant's alarm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.core.canonical import fingerprint
from betimes.core.deciders import Call, Decider, Decision, Effect, Index, Refusal, Settled, View, Wake
from betimes.core.errors import PolicyInvalid
from betimes.core.instants import DAY, SECOND, Instant, render
from betimes.core.policies import Policy, PolicyBook
from betimes.core.scopes import areas_of
from betimes.core.streams import StreamId
from betimes.engine.tenants.model import (
    DEPLOYMENT,
    HELD,
    HOLD_MAX,
    KEYS_MAX,
    RECONSIDER,
    ApiKey,
    Commands,
    CreateKey,
    ElevateSession,
    EndHold,
    Events,
    Hold,
    HoldEnded,
    HoldSet,
    KeepSession,
    KeyCreated,
    KeyForgotten,
    KeyRevoked,
    KeyRotated,
    OpenSession,
    PolicySet,
    ResealWebhookSecrets,
    RevokeKey,
    RotateKey,
    RotateWebhookSecret,
    SessionElevated,
    SessionKept,
    SessionOpened,
    SetHold,
    SetPolicy,
    StreamsVisited,
    TenantState,
    Visits,
    WebhookSecretRotated,
    WebhookSecretsResealed,
    tenant_stream,
)
from betimes.engine.tenants.sessions import decide_session, fold_session

AnyCommand: TypeAlias = Commands | Wake | Settled


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one leg of the pass: how many streams it visited and what is left."""

    visited: int
    moved: int
    left: Visits


def tenant_decider(book: PolicyBook, deciders: Iterable[Decider[Any]] = ()) -> Decider[TenantState]:
    """The decider of `tenant` streams; the book knows which policies work, the deciders which sections they heed."""
    deciders = tuple(deciders)
    heeding = tuple(decider for decider in deciders if decider.heeds)
    domains = areas_of((decider.scope for decider in deciders), "write")

    def decide(view: View[TenantState], command: AnyCommand, policy: Policy, now: Instant) -> Decision | Refusal:
        if view.stream.id != view.stream.tenant:
            return Refusal("WRONG_STREAM", f"what is in force for a tenant is in {tenant_stream(view.stream.tenant)}")
        tenant = view.state or TenantState()
        match command:
            case SetPolicy():
                return _set_policy(view, tenant, command, book, heeding, now)
            case CreateKey():
                return _create_key(tenant, command, now)
            case RotateKey():
                return _rotate_key(tenant, command, now)
            case RevokeKey(key_id):
                return _unusable(tenant, key_id, now) or Decision((KeyRevoked(key_id, now),))
            case OpenSession() | KeepSession() | ElevateSession():
                return decide_session(tenant, command, now)
            case RotateWebhookSecret(secret, overlap_s):
                return Decision((WebhookSecretRotated(secret, now + overlap_s * SECOND),))
            case ResealWebhookSecrets(secret, previous, was):
                return _reseal(tenant, secret, previous, was)
            case Settled(executor=executor) if executor == RECONSIDER:
                return _note_visit(view, tenant, command)
            case SetHold() | EndHold():
                return decide_hold(view.stream, tenant, command, domains, now)
            case Wake():
                return expire_hold(tenant, now)
            case Settled():
                return Decision()

    return Decider(
        kind="tenant",
        decide=decide,
        needs=needs,
        # Both record the end of a hold that is over themselves, so its alarm need not ring before them.
        stops=(SetHold, EndHold),
        fold=fold,
        alarm=alarm,
        index=index,
    )


def needs(stream: StreamId, command: AnyCommand, policy: Policy) -> tuple[StreamId, ...]:
    """Overrides must work on top of what the deployment has in force."""
    return (DEPLOYMENT,) if isinstance(command, SetPolicy) and stream != DEPLOYMENT else ()


def _set_policy(
    view: View[TenantState],
    tenant: TenantState,
    command: SetPolicy,
    book: PolicyBook,
    heeding: tuple[Decider[Any], ...],
    now: Instant,
) -> Decision | Refusal:
    if command.expected_version not in (None, tenant.policy_version):
        return Refusal("VERSION_MISMATCH", f"the policy is at version {tenant.policy_version}; read it again")
    deployment = view.others.get(DEPLOYMENT)
    below = deployment.policy if deployment else {}
    try:
        policy = book.effective(below, command.policy)
    except PolicyInvalid as error:
        return Refusal("POLICY_INVALID", str(error))
    name = fingerprint(command.policy)
    # Every start puts the configured policy in force; most often it is already.
    said = command.declared
    if tenant.fingerprint == name and (said is None or tenant.declared.get(said.application, {}) == said.policy):
        return Decision()
    try:
        changed = policy.changed_from(book.effective(below, tenant.policy))
    except PolicyInvalid:
        # What is in force does not fit the code any more, so nobody can say what it said: all of it may have changed.
        changed = policy.sections
    lists = {
        (decider.kind, status)
        for decider in heeding
        if changed.intersection(decider.heeds)
        for status in decider.heeding
    }
    # A pass that has not ended is taken over by this one, which begins at the first stream again.
    lists.update(tenant.visits.lists if tenant.visits else ())
    visits = Visits(tenant.policy_version + 1, tuple(sorted(lists))) if lists else None
    change = PolicySet(command.policy, name, now, visits, command.note, command.backtest_id, command.restores, said)
    return Decision((change,), effects=_leg(view, visits))


def _reseal(tenant: TenantState, secret: str, previous: str, was: str) -> Decision | Refusal:
    if fingerprint((tenant.webhook_secret, tenant.previous_webhook_secret)) != was:
        return Refusal("VERSION_MISMATCH", "the secrets have changed in the meantime; try again")
    return Decision((WebhookSecretsResealed(secret, previous),))


def _leg(view: View[TenantState], visits: Visits | None) -> tuple[Effect, ...]:
    return (Call(RECONSIDER, visits, report_to=view.stream),) if visits else ()


def _note_visit(view: View[TenantState], tenant: TenantState, ended: Settled) -> Decision:
    """A leg has ended: the next begins, unless the policy has changed since, which began a pass of its own.

    One that failed for good is a dead letter; revived, it goes on with the pass.
    """
    if ended.status != "done":
        return Decision((StreamsVisited(0, 0, tenant.visits),))
    leg = msgspec.convert(ended.result, Leg)
    if tenant.visits is None or tenant.visits.policy_version != leg.left.policy_version:
        return Decision((StreamsVisited(leg.visited, leg.moved, tenant.visits),))
    left = leg.left if leg.left.lists else None
    return Decision((StreamsVisited(leg.visited, leg.moved, left),), effects=_leg(view, left))


def _create_key(tenant: TenantState, command: CreateKey, now: Instant) -> Decision | Refusal:
    if command.key_id in tenant.keys:
        return Refusal("ALREADY_EXISTS", f"the key {command.key_id!r} exists already")
    keys = {
        key_id: key for key_id, key in tenant.keys.items() if key.parent_id is None
    }  # sessions have their own bound
    ended = min(((at, key_id) for key_id, key in keys.items() if (at := _ended_at(key, now))), default=None)
    if len(keys) >= KEYS_MAX and ended is None:
        return Refusal("TOO_MANY_KEYS", f"a tenant has at most {KEYS_MAX} active keys; revoke one first")
    if command.expires_at is not None and command.expires_at <= now:
        end, since = render(command.expires_at), render(now)
        return Refusal("EXPIRED", f"the key would expire at {end}, which is past: it is {since} now")
    created = KeyCreated(command.key_id, command.name, command.scopes, command.secret_digest, command.expires_at, now)
    if ended and len(keys) >= KEYS_MAX:
        return Decision((KeyForgotten(ended[1]), created))
    return Decision((created,))


def _ended_at(key: ApiKey, now: Instant) -> Instant | None:
    """The instant at which a key stopped being valid."""
    ends = [at for at in (key.revoked_at, key.expires_at) if at is not None and at <= now]
    return min(ends, default=None)


def _rotate_key(tenant: TenantState, command: RotateKey, now: Instant) -> Decision | Refusal:
    if refusal := _unusable(tenant, command.key_id, now):
        return refusal
    if tenant.keys[command.key_id].parent_id is not None:
        return Refusal("NOT_A_KEY", "a session gets no new secret; close it and open another")
    # Two secrets are kept; another now would end the previous one before its promised time.
    previous_expires_at = tenant.keys[command.key_id].previous_expires_at
    if previous_expires_at is not None and previous_expires_at > now:
        until = render(previous_expires_at)
        return Refusal("ROTATION_IN_PROGRESS", f"the previous secret of {command.key_id!r} lives until {until}")
    return Decision((KeyRotated(command.key_id, command.secret_digest, now + command.overlap_s * SECOND),))


def _unusable(tenant: TenantState, key_id: str, now: Instant) -> Refusal | None:
    key = tenant.keys.get(key_id)
    if key is None or key.revoked_at is not None:
        return Refusal("NOT_FOUND", f"there is no key {key_id!r}")
    return None


def fold(state: TenantState | None, event: Events) -> TenantState:
    tenant = state or TenantState()
    match event:
        case PolicySet(policy, name, at, visits, declared=said):
            version = tenant.policy_version + 1
            declared = {**tenant.declared, said.application: said.policy} if said else tenant.declared
            return replace(
                tenant,
                policy=policy,
                fingerprint=name,
                policy_version=version,
                policy_at=at,
                visits=visits,
                declared=declared,
            )
        case StreamsVisited(visits=visits):
            return replace(tenant, visits=visits)
        case KeyCreated(key_id, name, scopes, digest, expires_at, at):
            return _with_key(tenant, key_id, ApiKey(name, scopes, digest, at, expires_at))
        case KeyForgotten(key_id):
            return replace(tenant, keys={name: key for name, key in tenant.keys.items() if name != key_id})
        case KeyRotated(key_id, digest, previous_expires_at):
            key = tenant.keys[key_id]
            rotated = replace(
                key, secret_digest=digest, previous_digest=key.secret_digest, previous_expires_at=previous_expires_at
            )
            return _with_key(tenant, key_id, rotated)
        case KeyRevoked(key_id, at):
            return _with_key(tenant, key_id, replace(tenant.keys[key_id], revoked_at=at))
        case SessionOpened() | SessionKept() | SessionElevated():
            return fold_session(tenant, event)
        case HoldSet() | HoldEnded():
            return fold_hold(tenant, event)
        case WebhookSecretsResealed(secret, previous):
            return replace(tenant, webhook_secret=secret, previous_webhook_secret=previous)
        case WebhookSecretRotated(secret, previous_expires_at):
            return replace(
                tenant,
                webhook_secret=secret,
                previous_webhook_secret=tenant.webhook_secret,
                previous_webhook_secret_expires_at=previous_expires_at,
            )


def _with_key(tenant: TenantState, key_id: str, key: ApiKey) -> TenantState:
    return replace(tenant, keys={**tenant.keys, key_id: key})


# -- holds


def decide_hold(
    stream: StreamId, tenant: TenantState, command: SetHold | EndHold, known: Collection[str], now: Instant
) -> Decision | Refusal:
    """Begin, replace or end a hold; write nothing if it is so already."""
    if isinstance(command, EndHold):
        return Decision((HoldEnded(now, command.note),)) if tenant.hold else Decision()
    if stream == DEPLOYMENT:
        return Refusal("TENANT_REQUIRED", "a hold applies to one tenant; set one for each")
    if refusal := _refuse_hold(command, known, now):
        return refusal
    domains = tuple(sorted(set(command.domains)))
    hold = tenant.hold
    if hold and (hold.domains, hold.until_at, hold.reason) == (domains, command.until_at, command.reason):
        return Decision()
    # One whose time is over, and nobody has rung that yet, does not last until the next begins.
    return Decision((*expire_hold(tenant, now).events, HoldSet(domains, command.until_at, command.reason, now)))


def _refuse_hold(command: SetHold, known: Collection[str], now: Instant) -> Refusal | None:
    if unknown := sorted(set(command.domains) - set(known)):
        return Refusal("INVALID", f"no such domains: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if not command.domains:
        return Refusal("INVALID", f"name the domains to hold; known: {', '.join(sorted(known))}")
    if not now < command.until_at <= now + HOLD_MAX:
        ends = f"after {render(now)} and by {render(now + HOLD_MAX)}"
        return Refusal("UNTIL_OUT_OF_BOUNDS", f"a hold ends {ends}: within {HOLD_MAX // DAY} days")
    return None


def expire_hold(tenant: TenantState, now: Instant) -> Decision:
    """End a hold whose time is over."""
    return Decision((HoldEnded(now),)) if tenant.hold and tenant.hold.until_at <= now else Decision()


def fold_hold(tenant: TenantState, event: HoldSet | HoldEnded) -> TenantState:
    hold = None
    if isinstance(event, HoldSet):
        # One that replaces another goes on from where that began: whoever asks since when hears of both.
        since_at = tenant.hold.since_at if tenant.hold else event.at
        hold = Hold(event.domains, event.until_at, event.reason, since_at)
    freed = set(tenant.hold.domains if tenant.hold else ()).difference(hold.domains if hold else ())
    # Rung late, it ended when it should have all the same.
    ended_at = event.at if tenant.hold is None else min(event.at, tenant.hold.until_at)
    return replace(tenant, hold=hold, released={**tenant.released, **dict.fromkeys(sorted(freed), ended_at)})


def alarm(tenant: TenantState) -> Instant | None:
    """Return when the hold ends by itself."""
    return tenant.hold.until_at if tenant.hold else None


def index(tenant: TenantState) -> Index:
    """List tenants whose hold has not ended, so that every process learns of it."""
    return Index(HELD, HELD, tenant.hold.until_at) if tenant.hold else Index()
