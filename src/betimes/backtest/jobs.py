"""Backtests as jobs: asked for by a tenant, carried out by whichever process has workers, kept with their reports.

The policies are the tenant's own overrides and the traffic is the tenant's own. A report that is too large for a
segment is kept with fewer changed answers; everything is counted in it all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from secrets import token_hex
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.backtest.flip_views import FlipFilters, FlipPage, flip_view
from betimes.backtest.model import (
    AskBacktest,
    BacktestOutcome,
    BacktestsState,
    DropBacktest,
    RequestedBacktest,
    Status,
    backtests_stream,
)
from betimes.backtest.plan import CANDIDATES_MAX, Plan, SubjectSample
from betimes.backtest.plan_builder import build_plan, in_force
from betimes.backtest.report import BacktestReport
from betimes.backtest.speed import SPEED
from betimes.backtest.summary import ReportSummary, summarize
from betimes.backtest.traffic import estimate_traffic
from betimes.catalogue import Area
from betimes.core.checks import Examined, Problem, Rule
from betimes.core.datetimes import Moment, instant
from betimes.core.deciders import Settled
from betimes.core.errors import Invalid, NotFound, PolicyInvalid, Refused
from betimes.core.policies import Body
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.domain.derivation import derive
from betimes.domain.paging import Listing, NumberPlace, Page, check_filters, checked_limit, cursor_of, place_of
from betimes.domain.service import Service, examine_request
from betimes.domain.struct_forms import From
from betimes.engine.codecs import checkpoint_of
from betimes.engine.engine import Engine
from betimes.engine.store import Store

COLLECTION = "backtests"

Name: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*$", description="a text without control characters"
    ),
]
Path: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,15}$",
        description="the path of a setting: names with dots between them, such as notifications.fatigue.hour.cap",
    ),
]
Value: TypeAlias = bool | int | float | str | None
Values: TypeAlias = Annotated[list[Value], msgspec.Meta(min_length=1, max_length=CANDIDATES_MAX)]


class BacktestRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Policies to try, as overrides of the tenant: one, several by name, or none and a sweep of those in force."""

    policy: dict[str, Any] | None = None
    policies: Annotated[dict[Name, dict[str, Any]], msgspec.Meta(min_length=1, max_length=CANDIDATES_MAX)] | None = None
    sweep: Annotated[dict[Path, Values], msgspec.Meta(max_length=8)] = {}
    """Settings with values to try on each policy, or on the overrides in force; every combination is one."""
    since: Moment | None = None
    """Earlier traffic only builds up the state. Default: from the beginning."""
    until: Moment | None = None
    """Not included. Left out: to the end."""
    domain: Area | None = None
    """Only this one is reported; all are rehearsed, since they cause each other."""
    samples: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10
    """Changed answers of each kind that are shown with both traces; fewer if the report grows too large."""
    sample: SubjectSample | None = None
    """Only a sample of the subjects, for an answer in seconds; by default all."""


class BacktestError(msgspec.Struct, frozen=True):
    """Why there is no report."""

    code: str
    message: str


class BacktestView(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a backtest."""

    backtest_id: str
    status: Status
    progress: float
    """The finished share of the ledger, 0 to 1."""
    candidates: tuple[str, ...]
    """The names of the policies that are tried."""
    since: datetime | None
    until: datetime | None
    domain: str | None
    created_at: Annotated[datetime, From("asked_at")]
    started_at: datetime | None
    finished_at: datetime | None
    error: BacktestError | None


class BacktestDetail(BacktestView, frozen=True, kw_only=True):
    """The same, with its result."""

    result: BacktestReport | None
    """Present when it is done, unless its history was pruned since."""
    summary: ReportSummary | None
    """The result in sentences, as the command line and the page say them."""


class BacktestEstimate(msgspec.Struct, frozen=True):
    """Estimate of a full backtest, from a few reads of the ledger."""

    segments: int
    commands: int
    """Commands from outside that are decided again."""
    candidates: int
    seconds: float
    """In one process."""
    decisions_per_s: int
    """The assumed speed: a running mean of the last backtests of the answering process."""
    measured: bool
    """Whether that process has run any backtest; otherwise a fixed speed is assumed."""


class Backtests(Service):
    """The backtests of a tenant."""

    async def estimate(self, request: BacktestRequest) -> BacktestEstimate:
        """Say how much a backtest of everybody would read and decide, and about how long that takes.

        From a few reads of the ledger; a sample takes its share of the decisions, but reads all of it.
        """
        plan = await self._make_plan(request)
        segments, commands = await estimate_traffic(self.engine.store, self.caller.tenant, plan.since_at, plan.until_at)
        worlds = 1 + len(plan.candidates)
        seconds = round(SPEED.estimate_s(segments, commands * worlds), 1)
        speed, is_measured = round(SPEED.decisions_per_s), SPEED.is_measured
        return BacktestEstimate(segments, commands, len(plan.candidates), seconds, speed, is_measured)

    @check_filters
    async def flips(
        self, backtest_id: str, filters: FlipFilters, *, limit: int = 50, cursor: str | None = None
    ) -> FlipPage:
        """List the changed answers that its report keeps, in order of time, candidate by candidate, and count all.

        The changed answers that the report keeps, up to `samples` of each kind of change (`kept`), and their total
        number (`total`).
        """
        report = await self.report(backtest_id)
        named = ["flips", self.caller.tenant, backtest_id, filters]
        place = place_of(cursor, named, NumberPlace)
        start = place.number if place else 0
        found = [(one.name, flip) for one in report.candidates for flip in one.samples if filters.fits(one.name, flip)]
        more = start + checked_limit(limit)
        return FlipPage(
            items=[flip_view(self.engine.kinds, name, flip) for name, flip in found[start:more]],
            next_cursor=cursor_of(named, NumberPlace(more)) if len(found) > more else None,
            kept=len(found),
            # The report counts by domain and answers, and not by id.
            total=None if filters.id else sum(filters.count(one) for one in report.candidates),
        )

    async def find(self, backtest_id: str) -> BacktestView:
        """Return how far a backtest is."""
        return _view(await self._find(backtest_id))

    async def ask(
        self, asked: BacktestRequest | Mapping[str, Any] | Examined[BacktestRequest], *, key: str | None = None
    ) -> BacktestView:
        """Have a backtest made; whatever is wrong with it is refused here, before anything runs."""
        request = await self._check_request(asked)
        if key is not None and (again := await self._answer_again(key)):
            return again
        plan = await self._make_plan(request)
        command = AskBacktest(
            f"bkt_{token_hex(12)}",
            tuple(one.name for one in plan.candidates),
            await self._keep_request(request),
            instant(request.since),
            instant(request.until),
            request.domain,
        )
        recorded = await self.submit(self._stream, command, key=key, collection=COLLECTION)
        return _view(await self._find(recorded.reply))

    @check_filters
    async def backtests(self, *, limit: int = 50, cursor: str | None = None) -> Page[BacktestView]:
        """List the last backtests, newest first."""
        checked_limit(limit)
        named = [COLLECTION, self.caller.tenant]
        before = place_of(cursor, named, NumberPlace)
        found, state = Listing[BacktestView](), BacktestsState()
        with found.reading(self._stream):
            state = await self._state()
        older = [one for one in reversed(state.asked) if before is None or one.version < before.number]
        found.items += [_view(one) for one in older[:limit]]
        return found.page(cursor_of(named, NumberPlace(older[limit - 1].version)) if len(older) > limit else None)

    async def get(self, backtest_id: str) -> BacktestDetail:
        """Return one backtest, with its report when it is done.

        `result` is present when it is `done`, `error` when it `failed`. If its process died, it is `failed` as
        `ABANDONED` a minute later: ask again.
        """
        found = await self._find(backtest_id)
        report = await self._report(found)
        summary = summarize(report) if report else None
        return derive(BacktestDetail, _view(found), result=report, summary=summary)

    async def report(self, backtest_id: str) -> BacktestReport:
        """Return the report of a backtest that is done."""
        found = await self._find(backtest_id)
        if found.status != "done":
            raise Refused("BACKTEST_NOT_DONE", f"the backtest {backtest_id!r} is {found.status}; it has no report")
        report = await self._report(found)
        if report is None:
            raise NotFound(f"the report of {backtest_id!r} went with the history that was pruned; ask again")
        return report

    async def delete(self, backtest_id: str) -> None:
        """Forget it; one that is under way is stopped.

        One in progress is stopped within a second or two.
        """
        await self.submit(self._stream, DropBacktest(backtest_id))

    @property
    def _stream(self) -> StreamId:
        return backtests_stream(self.caller.tenant)

    async def _state(self) -> BacktestsState:
        return await self.state(self._stream) or BacktestsState()

    async def _find(self, backtest_id: str) -> RequestedBacktest:
        found = (await self._state()).get(backtest_id)
        if found is None:
            raise NotFound(f"there is no backtest {backtest_id[:80]!r}; only the last ones are kept")
        return found

    async def _answer_again(self, key: str) -> BacktestView | None:
        """Return the backtest a key was used for, before looking at policies: they may not work any more."""
        recorded = await self.find_recorded(key, COLLECTION, self.caller.request) if self.caller.request else None
        return _view(await self._find(recorded.reply)) if recorded else None

    async def _check_request(
        self, asked: BacktestRequest | Mapping[str, Any] | Examined[BacktestRequest]
    ) -> BacktestRequest:
        """Return the request; raise `Invalid` with what is wrong with its shape and with the policies in it."""
        found: Examined[BacktestRequest] = examine_request(asked, BacktestRequest)
        if found.found.total:
            deployment = await in_force(self.engine, None)
            found.judge(_rules_of_policies(self.engine, deployment))
        return found.whole()

    async def _make_plan(self, request: BacktestRequest) -> Plan:
        try:
            return await plan_of(self.engine, self.caller.tenant, request)
        except PolicyInvalid as error:
            found = dict.fromkeys((_body_path(request, path), text) for path, text in error.problems)
            raise Invalid(str(error), tuple(found)) from None

    async def _keep_request(self, request: BacktestRequest) -> dict[str, Any]:
        """Return the request with the overrides in force written out, so that a sweep keeps them if they change."""
        if request.policy is None and request.policies is None:
            request = replace(request, policy=await in_force(self.engine, self.caller.tenant))
        kept: dict[str, Any] = msgspec.to_builtins(request)
        return kept

    async def _report(self, found: RequestedBacktest) -> BacktestReport | None:
        segment = await segment_of(self.engine.store, self._stream, found.report_version)
        return _report_in(segment) if segment else None


async def plan_of(engine: Engine, tenant: str, request: BacktestRequest) -> Plan:
    """Return the plan of a request; raise `Invalid` if it cannot run."""
    if request.policy is not None and request.policies is not None:
        raise Invalid("give either one policy or several by name", (("policies", "not beside policy"),))
    # What is swept is called by its settings alone, whether the policy was sent or is the one in force.
    name = "" if request.sweep else "policy"
    policies = request.policies or ({} if request.policy is None else {name: request.policy})
    return await build_plan(
        engine,
        policies,
        sweep=request.sweep,
        overrides_of=tenant,
        since=instant(request.since),
        until=instant(request.until),
        domain=request.domain,
        samples_max=request.samples,
        sample=request.sample,
    )


def _rules_of_policies(engine: Engine, deployment: Body) -> tuple[Rule[BacktestRequest], ...]:
    """Return the rules that find what is wrong with the policies of a request that is wrong otherwise too."""

    def judge(path: str, body: Body) -> Iterator[Problem]:
        try:
            engine.book.effective_from_outside(deployment, body)
        except PolicyInvalid as error:
            yield from ((f"{path}.{within}", said) for within, said in error.problems)

    def judge_one(request: BacktestRequest) -> Iterator[Problem]:
        if request.policy is not None:
            yield from judge("policy", request.policy)

    def judge_several(request: BacktestRequest) -> Iterator[Problem]:
        for name, body in (request.policies or {}).items():
            # One of another shape was told of with the shape of the request.
            if isinstance(body, Mapping):
                yield from judge(f"policies.{name}", body)

    return judge_one, judge_several


def _body_path(request: BacktestRequest, path: str) -> str:
    """Return the path of a setting within the body."""
    if request.policies is None:
        return f"policy.{path.rpartition(': ')[2]}"
    name, _, within = path.rpartition(": ")
    return ".".join(filter(None, ("policies", name or next(iter(request.policies)), within)))


def _view(one: RequestedBacktest) -> BacktestView:
    error = derive(BacktestError, one) if one.status == "failed" else None
    return derive(BacktestView, one, progress=one.percent / 100, error=error)


_settled = msgspec.json.Decoder(Settled)


async def segment_of(store: Store, stream: StreamId, version: int | None) -> Segment | None:
    """Return a segment by its version, unless it was pruned."""
    if version is None:
        return None
    _, segments = await store.history(stream, version - 1, 1)
    found = segments[0] if segments else None
    # A checkpoint has the version of the last segment it stands for, and none of its content.
    return found if found and found.version == version and not checkpoint_of(found) else None


def _report_in(segment: Segment) -> BacktestReport | None:
    assert segment.command is not None
    outcome = msgspec.convert(_settled.decode(segment.command).result, BacktestOutcome)
    return msgspec.convert(outcome.report, BacktestReport) if outcome.report else None
