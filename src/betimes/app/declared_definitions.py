"""Declared definitions: put in force when an application opens, and paused when it no longer declares them.

A schedule or sensor made by code belongs to the application of that name, in its tenant. A process that declares
nothing at all is taken for a visitor and changes nothing, unless it was given its application's name or serves it with
`--app`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from betimes.app.decorators import Declarations
from betimes.core.errors import Invalid, NotFound
from betimes.core.policies import Body, merge
from betimes.domain.policy_check import checked_policy
from betimes.engine.reports import Report, Reporter
from betimes.engine.tenants.model import Declared, SetPolicy, TenantState, tenant_stream
from betimes.schedules.service import Schedules
from betimes.sensors.service import Sensors
from betimes.tenancy import Tenancy

PAGE = 200


class NotDeclared(Exception):
    """Reports what was done with a definition, and what to do if that was not intended."""


async def put_declared_policy(own: Tenancy, policy: Body) -> None:
    """Put the settings in force that `own`'s application declares; nothing that it declared before is taken away."""
    tenants, stream = own.tenants, tenant_stream(own.tenants.caller.tenant)
    declared = Declared(tenants.caller.application, dict(policy))
    state: TenantState = await tenants.state(stream) or TenantState()
    if not policy and declared.application not in state.declared:
        return
    overrides = merge(state.policy, policy)
    await checked_policy(tenants, overrides)
    await tenants.submit(stream, SetPolicy(overrides, declared=declared))


async def put_declared(own: Tenancy, declared: Declarations, undeclared: str, report: Reporter) -> None:
    """Define what is declared; pause or delete, as `undeclared` says, what `own`'s application declared before."""
    for schedule in declared.schedules:
        with _naming("schedule", schedule.schedule_id):
            await own.schedules.put(schedule.schedule_id or "", schedule)
    for sensor in declared.sensors:
        with _naming("sensor", sensor.sensor_id):
            await own.sensors.put(sensor.sensor_id or "", sensor)
    if undeclared == "keep":
        return
    await _drop(own.schedules, {each.schedule_id for each in declared.schedules}, undeclared, report)
    await _drop(own.sensors, {each.sensor_id for each in declared.sensors}, undeclared, report)


@contextmanager
def _naming(what: str, id: str | None) -> Iterator[None]:
    """Say in a refusal which of the declarations it is about."""
    try:
        yield
    except Invalid as refused:
        raise type(refused)(f"@bt.{what} of {id}: {refused}", refused.problems, refused.total) from None


async def _drop(service: Schedules | Sensors, declared: set[str | None], undeclared: str, report: Reporter) -> None:
    for id in await _declared_ids(service, also_paused=undeclared == "delete"):
        if id in declared:
            continue
        try:
            await (service.delete(id) if undeclared == "delete" else service.drop_declared(id))
        except NotFound:
            continue  # somebody else deleted it meanwhile
        done = "deleted" if undeclared == "delete" else "paused"
        application = service.caller.application
        message = (
            f"NOT_DECLARED: the application {application!r} declares it no longer, so it was {done}; an application "
            f"that declares other things needs another name: Betimes(app=…)"
        )
        report(Report(f"{service.kind}_{done}", id, NotDeclared(message)))


async def _declared_ids(service: Schedules | Sensors, *, also_paused: bool) -> list[str]:
    """Return the ids of what the caller's application declared."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await service.list(limit=PAGE, cursor=cursor)
        found += [
            getattr(view, f"{service.kind}_id")
            for view in page.items
            if view.declared_by == service.caller.application and (also_paused or view.enabled)
        ]
        cursor = page.next_cursor
        if cursor is None:
            return found
