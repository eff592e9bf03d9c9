"""`betimes policy …`: show the policy in force, check a change, apply it, see earlier ones and roll back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import join as join_words
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from betimes.admin.policy_history import PolicyChange, changes
from betimes.admin.service import PolicyCheck, PolicyProblem, PolicyRequest, PolicyWritten, Rollback, Tenants
from betimes.cli.bootstrap import Application, Target, current_wiring
from betimes.cli.documents import File, policy_document
from betimes.cli.options import AT, EVERYBODY, PAGING, READABLE, TENANT, At, Paging, Readable, Tenant, for_tenant, on
from betimes.cli.output import show, show_json, show_sentences
from betimes.core.errors import STATUS, Invalid, PolicyInvalid
from betimes.core.streams import checked_stream
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.service import Caller
from betimes.domain.warnings import Remark
from betimes.engine.tenants.model import TenantState, tenant_stream

app = App(name="policy", help="The policy in force: show, check, apply, history, rollback.", help_format="plaintext")
OfTenant = Annotated[str | None, Parameter(env_var="BETIMES_TENANT")]
"""The tenant whose overrides are meant; without it, every command that changes a policy means the deployment's."""


@app.command(name="show")
def show_(section: str | None = None, /, *, at: Tenant = TENANT) -> None:
    """Show the policy in force for a tenant; for --tenant '*' the deployment's.

    Parameters
    ----------
    section
        Only this section: runs, notifications, intents, automation, scores or hooks.
    """

    target = at.target

    async def work(application: Application) -> dict[str, Any]:
        if target.url:
            view = await application.for_caller(Caller(at.tenant, "cli")).tenants.policy()
            return {"fingerprint": view.fingerprint, "effective": view.effective}
        policy = await application.engine.policy_of(at.tenant)
        return {"fingerprint": policy.fingerprint, "effective": msgspec.json.decode(policy.body)}

    told = on(target, work)
    if section is not None and section not in told["effective"]:
        known = ", ".join(sorted(told["effective"]))
        raise Invalid(f"there is no section {section!r}; known: {known}", (("section", f"one of {known}"),))
    body = told["effective"] if section is None else {section: told["effective"][section]}
    show_json({**told, "effective": body})


@app.command
def check(file: File | None = None, /, *, tenant: OfTenant = None, at: At = AT) -> int:
    """Check a policy and show what it would change; record nothing.

    Without a file it checks the configuration's policy. Exits with 65 if it cannot work.

    Parameters
    ----------
    file
        The policy, as TOML, YAML or JSON; '-' reads JSON from standard input.
    tenant
        Check it as the overrides of this tenant, instead of as the deployment's policy.
    """
    target = at.local(over_http="POST /v1/policy/check, for the overrides of a tenant")
    body = _body(file, target)
    if tenant is None:
        found = on(target, lambda application: _check_policy(application, body), else_memory=True)
    else:
        found = for_tenant(
            at.of_tenant(tenant), lambda bt: bt.tenants.check_policy(PolicyRequest(body)), else_memory=True
        )
    show_sentences(found, _sentences(found), json=at.json)
    return 0 if found.valid else STATUS["INVALID"][1]


async def _check_policy(application: Application, body: dict[str, Any]) -> PolicyCheck:
    engine = application.engine
    before = msgspec.json.decode((await engine.policy_of(EVERYBODY)).body)
    try:
        policy = engine.book.effective(body)
    except PolicyInvalid as error:
        return PolicyCheck(False, [PolicyProblem(*problem) for problem in error.problems], [], None, [], body)
    after = msgspec.json.decode(policy.body)
    return PolicyCheck(True, [], [], policy.fingerprint, list(changes("", before, after)), body)


def _sentences(found: PolicyCheck) -> Iterator[str]:
    if not found.valid:
        yield "The policy is refused:"
        yield from (f"  {error.path}: {error.message}" for error in found.errors)
        return
    yield f"The policy is valid; its fingerprint is {found.fingerprint}."
    yield from _tell_changes(found, "It is the policy in force.")


def _tell_changes(told: PolicyCheck | AppliedPolicy, none: str) -> Iterator[str]:
    """Yield a line for each change and each warning; a sentence where nothing changes."""
    yield from (f"  {_render_change(change)}" for change in told.changes)
    if not told.changes:
        yield none
    yield from (f"  warning: {one.path}: {one.message}" for one in told.warnings)


def _render_change(change: PolicyChange) -> str:
    return f"{change.path}: {_render_value(change.before)} → {_render_value(change.after)}"


def _render_value(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class AppliedPolicy(JsonView, frozen=True):
    """The result of applying a policy."""

    tenant: str
    version: int
    fingerprint: str
    changes: list[PolicyChange]
    undo: str | None
    """The command that puts the previous version in force again; `None` if nothing was written."""
    warnings: list[Remark]


@app.command
def apply(file: File | None = None, /, *, note: str | None = None, tenant: OfTenant = None, at: At = AT) -> None:
    """Put a policy in force, for the deployment or as a tenant's overrides; one that is not valid changes nothing.

    It acts at each stream's next command or alarm, in every process, without a restart. The next worker or
    tick looks again at everything that waits: it may come sooner under the new policy, never later than promised.

    Parameters
    ----------
    file
        The policy, as TOML, YAML or JSON; '-' reads JSON from standard input. Default: the configuration's.
    note
        Why, for the record.
    tenant
        Replace the overrides of this tenant, instead of the deployment's policy.
    """
    target = at.local(over_http="PUT /v1/policy, for the overrides of a tenant")
    body = _body(file, target)

    whose = tenant or EVERYBODY

    async def work(application: Application) -> tuple[int, Any, PolicyWritten]:
        services = application.for_caller(Caller(whose, "cli")).tenants
        version, effective = await _read_before(services)
        if tenant is None:
            await application.apply_policy(body, actor="cli", note=note)
            return version, effective, derive(PolicyWritten, await services.policy(), warnings=[])
        return version, effective, await services.set_policy(PolicyRequest(body, note=note))

    checked_stream(whose, "tenant", whose)
    version, effective, after = on(target, work, exists=False)
    changed = list(changes("", effective, after.effective))
    undo = _undo_command(version, tenant, at) if after.version > version else None
    told = AppliedPolicy(whose, after.version, after.fingerprint, changed, undo, after.warnings)
    show_sentences(told, _applied_sentences(told), json=at.json)


async def _read_before(services: Tenants) -> tuple[int, dict[str, Any]]:
    """Return the version in force and what it says; nothing if it does not fit the code any more."""
    state: TenantState | None = await services.state(tenant_stream(services.caller.tenant))
    try:
        effective = await services.engine.policy_of(services.caller.tenant)
    except PolicyInvalid:
        return state.policy_version if state else 0, {}
    return state.policy_version if state else 0, msgspec.json.decode(effective.body)


def _undo_command(version: int, tenant: str | None, at: At) -> str:
    """Return the command line that puts a version in force again, on the same database."""
    named = {"--tenant": tenant, "--db": at.db, "--config": at.config}
    options = [word for option, value in named.items() if value is not None for word in (option, str(value))]
    return join_words(["betimes", "policy", "rollback", "--to-version", str(version), *options])


def _applied_sentences(told: AppliedPolicy) -> Iterator[str]:
    whose = "The deployment's policy" if told.tenant == EVERYBODY else f"The policy of the tenant {told.tenant}"
    named = f"version {told.version}; its fingerprint is {told.fingerprint}."
    if told.undo is None:
        yield f"{whose} was in force already, as {named}"
        return
    yield f"{whose} is in force as {named}"
    yield from _tell_changes(told, "It changes nothing.")
    yield f"To undo it: {told.undo}"


@app.command
def history(*, tenant: OfTenant = None, part: Paging = PAGING, at: Readable = READABLE) -> None:
    """List changes of the deployment's policy or a tenant's overrides, newest first: who made each, when and why.

    Parameters
    ----------
    tenant
        Those of this tenant's overrides, instead of the deployment's policy; a server with keys knows it from the key.
    """
    # A server is asked for the overrides of the key's tenant: what the deployment has in force is not told there.
    whose = tenant or ("default" if at.target.url else EVERYBODY)
    asked = Tenant(db=at.db, config=at.config, url=at.url, api_key=at.api_key, tenant=whose)
    page = for_tenant(asked, lambda bt: bt.tenants.policy_history(limit=part.limit, cursor=part.cursor))
    if at.json:
        show_json(page)
        return
    rows = [
        {
            "version": one.version,
            "at": one.at,
            "by": one.actor,
            "note": one.note,
            "backtest": one.backtest_id,
            "changes": "; ".join(map(_render_change, one.changes or ())) or None,
        }
        for one in page.items
    ]
    columns = ("version", "at", "by", "note", "backtest", "changes")
    none = "No policy was set for the deployment." if whose == EVERYBODY else "No overrides were set."
    show({"items": rows, "next_cursor": page.next_cursor}, json=False, columns=columns, empty=none)


@app.command
def rollback(*, to_version: int | None = None, note: str | None = None, tenant: OfTenant = None, at: At = AT) -> None:
    """Put an earlier policy of the deployment, or earlier overrides of a tenant, in force again, as a new version.

    Parameters
    ----------
    to_version
        The version to restore, as `betimes policy history` numbers them; 0: none. By default the latest change that
        was not rolled back yet is undone; run it again for the one before.
    note
        Why, for the record.
    tenant
        Roll back the overrides of this tenant, instead of the deployment's policy.
    """
    at.local(over_http="POST /v1/policy/rollback, for the overrides of a tenant")
    whose = tenant or EVERYBODY
    asked = msgspec.convert({"to_version": to_version, "note": note}, Rollback)
    written = for_tenant(at.of_tenant(whose), lambda bt: bt.tenants.rollback_policy(asked))
    told = {"tenant": whose, "version": written.version, "fingerprint": written.fingerprint}
    show({**told, "overrides": written.overrides}, json=at.json)


def _body(file: Path | None, target: Target) -> dict[str, Any]:
    if file is not None:
        return policy_document(file)
    policy = current_wiring().policy(target)
    if policy is None:
        raise Invalid("the configuration has no [policy]; name a file, or add the section")
    return policy
