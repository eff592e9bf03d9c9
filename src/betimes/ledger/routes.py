"""Routes of time and history: passes over what is due, a virtual clock, the ledger, the rules, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from betimes.catalogue import readable_areas
from betimes.core.datetimes import Moment, instant, moment
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, render, seconds
from betimes.engine.tick_result import TickResult
from betimes.http.problems import HttpProblem
from betimes.http.routes import DEPLOYMENT_TENANT, RequestContext, demand_deployment
from betimes.http.service_calls import ServiceRoutes
from betimes.ledger.service import Ledger

TAG = "Time and history"
ADVANCE_DAYS_MAX = 366
ADVANCE_S = 25.0
"""How long moving the clock may take before it stops early."""
PASS_LIMIT_S = 120.0
"""A pass ends by itself after at most 25 s and the batch that is under way then, however slow the machine is."""


class TickRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000
    kinds: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=64)] | None = None
    """Of the streams whose alarms are rung; by default all."""
    max_s: Annotated[float, msgspec.Meta(ge=1, le=25)] = 10.0


class ClockRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    advance_to: Moment | None = None
    advance_s: Annotated[float, msgspec.Meta(ge=0)] | None = None


class EffectCounts(msgspec.Struct, frozen=True):
    done: int
    retrying: int
    dead: int


class PassView(msgspec.Struct, frozen=True):
    """The work of a pass, and the work it left."""

    now: datetime
    fired: dict[str, int]
    """Alarms that were rung, by kind of stream."""
    effects: EffectCounts
    complete: bool
    """Whether nothing is due any more; if not, call again."""
    next_due_at: datetime | None


class ClockView(msgspec.Struct, frozen=True):
    now: datetime
    virtual: bool
    next_due_at: datetime | None


# -- time


_TIME_IS_REAL = (
    "This server uses the real clock; for one that can be moved, start betimes serve with --virtual-clock, "
    "or with --app put clock=VirtualClock(…) into its Betimes."
)


def _demand_virtual(request: RequestContext) -> None:
    demand_deployment(request, "tick")
    if not request.application.is_virtual:
        raise HttpProblem(404, "CLOCK_NOT_VIRTUAL", _TIME_IS_REAL)


async def tick(request: RequestContext[TickRequest]) -> PassView:
    body: TickRequest = request.body
    is_everybody = not request.key_id or request.caller.tenant == DEPLOYMENT_TENANT
    done = await request.application.tick(
        limit=body.limit,
        max_s=body.max_s,
        kinds=_demand_kinds(request, body.kinds),
        tenant=None if is_everybody else request.caller.tenant,
    )
    return _pass(done)


def _demand_kinds(request: RequestContext, kinds: tuple[str, ...] | None) -> tuple[str, ...] | None:
    unknown = [
        (f"kinds[{place}]", f"no such kind: {kind[:40]}")
        for place, kind in enumerate(kinds or ())
        if kind not in request.engine.kinds.names
    ]
    if unknown:
        raise Invalid(f"unknown kinds: {len(unknown)}", tuple(unknown))
    return kinds


def _pass(done: TickResult) -> PassView:
    counts = EffectCounts(**done.effect_counts)
    return PassView(moment(done.now), done.fired, counts, done.complete, moment(done.next_due_at))


async def clock(request: RequestContext) -> ClockView:
    _demand_virtual(request)
    engine = request.engine
    due = [
        await engine.store.next_due("alarm", engine.kinds.names, engine.executors),
        await engine.store.next_due("due", ["intent"]),
    ]
    next_due_at = min((at for at in due if at is not None), default=None)
    return ClockView(moment(await engine.store.now()), True, moment(next_due_at))


async def advance(request: RequestContext[ClockRequest]) -> PassView:
    _demand_virtual(request)
    body: ClockRequest = request.body
    now = await request.engine.store.now()
    if (body.advance_to is None) == (body.advance_s is None):
        message = "exactly one of advance_to and advance_s"
        raise Invalid(message, (("advance_to", message), ("advance_s", message)))
    field, to = ("advance_to", instant(body.advance_to)) if body.advance_to else ("advance_s", None)
    if body.advance_s is not None and body.advance_s > ADVANCE_DAYS_MAX * 86_400:
        raise _too_far(field)
    target = now + seconds(body.advance_s or 0) if to is None else to
    if target < now:
        message = f"the clock is at {render(now)} and cannot go back; name a later instant"
        raise Invalid(message, ((field, message),))
    if target > now + ADVANCE_DAYS_MAX * DAY:
        raise _too_far(field)
    return _pass(await request.application.advance_pass(to=target, max_s=ADVANCE_S))


def _too_far(field: str) -> Invalid:
    return Invalid(
        f"the clock moves by at most {ADVANCE_DAYS_MAX} days at once",
        ((field, f"at most {ADVANCE_DAYS_MAX} days ahead"),),
    )


# -- history


def ledger_of(request: RequestContext) -> Ledger:
    """Return the ledger as the caller may read it."""
    return Ledger(request.engine, request.caller, readable_areas(request.scopes, "read"))


_ledger = ServiceRoutes(ledger_of, TAG, read="any:read", write="tick")

ROUTES = (
    _ledger.post(
        "/v1/tick",
        tick,
        "Do one bounded pass over everything due",
        keeps_answer="ticks",
        description="Rings alarms, carries out effects and works off due intents, so that cron can drive betimes "
        "without a daemon. With a tenant's own key it is about that tenant alone, in what it does and in what it says.",
        body_optional=True,
        deployment=True,
        example={"limit": 1000, "max_s": 10},
        time_limit_s=PASS_LIMIT_S,
    ),
    _ledger.get(
        "/v1/clock",
        clock,
        "The current time",
        scope="tick",
        description="Under a virtual clock, for a key of the tenant `*`.",
        deployment=True,
        codes=((404, "CLOCK_NOT_VIRTUAL"),),
    ),
    _ledger.post(
        "/v1/clock",
        advance,
        "Move a virtual clock",
        keeps_answer="clock",
        description="Rings every alarm on the way, in order, and carries out the effects due. If it stops early, "
        "`now` is how far it came and `complete` is false: call again with `advance_to`, since `advance_s` would start "
        "again.",
        deployment=True,
        codes=((404, "CLOCK_NOT_VIRTUAL"),),
        example={"advance_s": 3600},
        time_limit_s=PASS_LIMIT_S,
    ),
    _ledger.get("/v1/ledger", Ledger.segments, "Segments of the ledger"),
    _ledger.get("/v1/explain/{segment_id}", Ledger.explain, "Explain a decision"),
    _ledger.get(
        "/v1/explain/{segment_id}/alternatives", Ledger.alternatives, "Alternatives: what would have changed the answer"
    ),
    _ledger.get("/v1/rules", Ledger.rules, "All rules"),
)
