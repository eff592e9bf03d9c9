"""`Betimes`: one process's way to everything.

    async with Betimes("sqlite:///betimes.db") as bt:
        await bt.runs.trigger(…)

It opens the store, puts the configured policy and what was declared in Python in force, and, unless `workers=False`,
rings alarms, carries out effects, works off intents and sweeps scores by the hour until it is closed. `for_caller`
gives the same services to another tenant. Under a virtual clock nothing happens in the background: what is due is done
by `tick` and `advance`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import Any, Self

from betimes.admin.secret_rotation import ResealReport, reseal_secrets
from betimes.app.backtests import run_backtest
from betimes.app.declared_definitions import put_declared, put_declared_policy
from betimes.app.decorators import Declarations
from betimes.app.deployment import deployment_of
from betimes.app.dry_run import DryRun
from betimes.app.own_services import OwnServices
from betimes.app.passes import advance_fully, advance_some, one_pass
from betimes.app.places import Clock, store_at, system_clock
from betimes.app.scorers import open_scorer
from betimes.app.settings import Settings
from betimes.app.webhook_secrets import WebhookSecrets
from betimes.backtest.executor import backtester
from betimes.backtest.model import EXECUTOR
from betimes.backtest.plan import Plan
from betimes.backtest.report import BacktestReport
from betimes.catalogue import DECIDERS, SECTIONS, readable_areas
from betimes.core.errors import Invalid, MissingExtra
from betimes.core.instants import Instant, parse, render, seconds
from betimes.core.policies import Body
from betimes.core.scopes import ADMIN
from betimes.domain.deployment import Deployment
from betimes.domain.policy_check import demand_callable
from betimes.domain.service import Caller
from betimes.engine.effects import Executor
from betimes.engine.engine import Engine, stop_tasks
from betimes.engine.jobs import Submission
from betimes.engine.reports import Reporter, log_report
from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy
from betimes.engine.tick_result import TickResult
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.counters import CommitCounters
from betimes.intents.http_source import HttpSource
from betimes.intents.worker import IntentWorker
from betimes.ledger.effect_actions import EffectActions
from betimes.ledger.fleet import Heartbeat
from betimes.ledger.service import Ledger
from betimes.ledger.tally import TallyProjection
from betimes.notifications.delivery import CHANNELS, delivery_executors
from betimes.notifications.enrichment import Enrichment
from betimes.outbound.channels import Channels
from betimes.outbound.handler_guard import guard_handlers
from betimes.outbound.handlers import Handlers
from betimes.outbound.settings import WebhookSettings
from betimes.outbound.webhooks import WebhookExecutor, Webhooks
from betimes.runs.worker import RunStarter
from betimes.scores.hourly_sweep import HourlySweep
from betimes.scores.sweep import sweeper
from betimes.sensors.evaluators import Evaluators
from betimes.sensors.identity_tokens import IdentityTokens
from betimes.tenancy import Tenancy

DEFAULT_APP = "default"
"""The application that declarations belong to without `app=`."""
NOT_OPEN = "betimes is not open; use `async with Betimes(…) as bt`, or `with BlockingBetimes(…) as bt`"


class Betimes(OwnServices):
    """Everything, in this process."""

    def __init__(
        self,
        url: str = "sqlite:///betimes.db",
        *,
        tenant: str = "default",
        app: str | None = None,
        policy: Body | None = None,
        clock: Clock | None = None,
        workers: bool = True,
        settings: Settings | None = None,
        report: Reporter = log_report,
    ) -> None:
        self.url, self.clock, self.role = url, clock, "library"
        self.settings = settings or Settings()
        self.name = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._tenant, self._app, self._policy, self._workers = tenant, app, policy, workers
        self.tally = CommitCounters()
        self._report = self.tally.count_reports(report)
        self._store, self._handlers = store_at(url, clock), Handlers()
        self._secrets = WebhookSecrets(lambda: self.engine)
        self._webhooks = self._make_webhooks(self.settings.webhooks)
        self._evaluators = Evaluators(self._webhooks)
        self._offer_decorators(Declarations(self._handlers, self._evaluators, lambda: self.is_open))
        self._starter = RunStarter(self.name)
        self._engine: Engine | None = None
        self._own: Tenancy | None = None
        self._scorer: Enrichment | None = None
        self._deployment = Deployment()
        self._http_sources: dict[str, HttpSource] = {}
        self._closing = AsyncExitStack()

    def _offer_decorators(self, declared: Declarations) -> None:
        self.declared = declared
        self.handler, self.run, self.schedule = declared.handler, declared.run, declared.schedule
        self.sensor, self.on_message = declared.sensor, declared.on_message
        self.source, self.enrichment, self.channel = declared.source, declared.enrichment, declared.channel

    # -- life

    def configure(
        self,
        *,
        policy: Body | None = None,
        workers: bool | None = None,
        settings: Settings | None = None,
        app: str | None = None,
    ) -> None:
        """Say before it is opened what the process that opens it knows better; `app` names one without a name."""
        if self.is_open:
            raise Invalid("betimes is open already; configure it before")
        self._app = app if self._app is None else self._app
        self._policy = self._policy if policy is None else policy
        self._workers = self._workers if workers is None else workers
        if settings is not None:
            self.settings = settings
            self._webhooks.configure(settings.webhooks)

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    async def open(self) -> None:
        """Open the store, put in force what is configured and declared, and start working; or leave nothing open."""
        if self.is_open:
            return
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        webhooks = await self._open_webhooks()
        functions = self.declared.channels
        self._channels = Channels(self.settings.channels, functions=functions, webhooks=webhooks, now=self.clock)
        self._closing.callback(self._channels.close)
        self._http_sources = {name: said.source() for name, said in self.settings.sources.items()}
        for source in self._http_sources.values():
            self._closing.push_async_callback(source.close)
        self._closing.callback(self._handlers.close)
        engine = self._make_engine(self._executors(webhooks))
        self._engine = self._starter.engine = engine
        self._deployment = self._make_deployment()
        self._secrets.box = self._deployment.box
        if self._policy is not None:
            demand_callable(self._deployment, engine.book.effective(self._policy))
        self._scorer = await open_scorer(
            self.settings.enrichment, self.declared.scorer, self._make_webhooks, self.settings.webhooks, self._closing
        )
        # Entered after all that its calls need, so that closing it, which ends them, comes before closing those.
        await self._closing.enter_async_context(engine)
        self._own = self.for_caller(Caller(self._tenant, "app"))
        await self._put_in_force()
        if self._workers and not self.is_virtual:
            self.start_workers()
        if self.role != "library" or (self._workers and not self.is_virtual):
            heartbeat = Heartbeat(self.engine, self.name, self.role, virtual=self.is_virtual, report=self._report)
            self._run(heartbeat.run())

    def _make_engine(self, executors: Mapping[str, Executor]) -> Engine:
        return Engine(
            self._store,
            DECIDERS,
            name=self.name,
            sections=SECTIONS,
            policy=self._policy,
            executors=executors,
            settings=self.settings.engine,
            report=self._report,
            observe=self.tally.count_commit,
        )

    def _make_deployment(self) -> Deployment:
        return deployment_of(
            self.settings.webhooks,
            handlers=self.settings.handlers,
            encryption=self.settings.encryption,
            tokens=IdentityTokens(self.settings.oidc, self._webhooks.get),
            tenant=self._tenant,
        )

    def _make_webhooks(self, settings: WebhookSettings) -> Webhooks:
        return Webhooks(self._secrets, now=self.clock or system_clock, settings=settings)

    async def _open_webhooks(self) -> Webhooks | None:
        """Open webhooks, if what they need is installed."""
        try:
            return await self._closing.enter_async_context(self._webhooks)
        except MissingExtra:
            return None

    def _executors(self, webhooks: Webhooks | None) -> Mapping[str, Executor]:
        executors = {
            **self._guard({**self._handlers.executors(), **self._evaluators.executors()}),
            **delivery_executors(
                lambda: self.engine,
                self._channels,
                {*CHANNELS, *self._channels.names},
                self._channels.certain_names,
            ),
            "sweep": sweeper(lambda: self.engine),
            EXECUTOR: backtester(lambda: self.engine, self.backtest),
        }
        if webhooks:
            executors["webhook"] = WebhookExecutor(webhooks)
        return self._starter.wrap(executors)

    def _guard(self, executors: Mapping[str, Executor]) -> dict[str, Executor]:
        """Let tenants use only the handlers and evaluators they may: a definition may be older than the list."""
        return guard_handlers(lambda: self.engine, lambda: self._deployment, executors)

    async def _put_in_force(self) -> None:
        await self._secrets.ensure()
        if self._app is None and self.declared.is_empty:
            return
        code = self.for_caller(Caller(self._tenant, "app", application=self._app or DEFAULT_APP))
        try:
            await put_declared_policy(code, self.declared.policy)
        except Invalid as refused:
            raise self.declared.locate(refused) from None
        await put_declared(code, self.declared, self.settings.undeclared, self._report)

    async def apply_policy(self, policy: Body, *, actor: str = "config", note: str | None = None) -> str:
        """Put the deployment's policy in force; one that cannot work is refused with every path. Its fingerprint."""
        demand_callable(self._deployment, self.engine.book.effective(policy))
        command = SetPolicy(dict(policy), note=note)
        await self.engine.submit(Submission(stream=DEPLOYMENT, command=command, actor=actor, note=note or ""))
        return (await self.engine.policy_of(DEPLOYMENT.tenant)).fingerprint

    async def reseal_secrets(self, *, actor: str = "app") -> ResealReport:
        """Encrypt every stored secret with the first of the configured keys."""
        return await reseal_secrets(self.engine, self._deployment.box, actor)

    def start_workers(self) -> None:
        """Ring alarms, carry out effects, work off intents and sweep scores in the background."""
        self.engine.start_workers()
        worker = self.intent_worker()
        if worker is not None:
            self._run(worker.run())
        if self.settings.sweep.enabled:
            self._run(self.hourly_sweep().run())
        self._run(self.tally_projection().run())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._closing.push_async_callback(stop_tasks, [asyncio.create_task(work)])

    def intent_worker(self, tenant: str | None = None) -> IntentWorker | None:
        """Return the built-in worker, unless the configuration leaves intents to workers outside."""
        if self.settings.intents.worker == "off":
            return None
        return IntentWorker(
            self.engine,
            name=self.name,
            sources={**self._http_sources, **self.declared.sources},
            handlers=self._handlers.functions,
            has_channel=self._channels.has,
            tenant=tenant,
            source_timeout_s=self.settings.intents.source_timeout_s,
            report=self._report,
        )

    def hourly_sweep(self, tenant: str | None = None) -> HourlySweep:
        return HourlySweep(self.engine, self.settings.sweep, tenant=tenant, report=self._report)

    def tally_projection(self) -> TallyProjection:
        return TallyProjection(self.engine, self.name, report=self._report)

    async def close(self) -> None:
        """Finish what was accepted, stop, and let everything go."""
        await self._closing.aclose()
        self._engine = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- services

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise Invalid(NOT_OPEN)
        return self._engine

    @property
    def mine(self) -> Tenancy:
        """Return the services of this application's own tenant."""
        if self._own is None:
            raise Invalid(NOT_OPEN)
        return self._own

    def for_caller(self, caller: Caller) -> Tenancy:
        """Return the same services for another tenant, or on another's behalf."""
        return Tenancy(self.engine, caller, evaluate=self._evaluators, scorer=self._scorer, deployment=self._deployment)

    def ledger_for(self, caller: Caller) -> Ledger:
        """Return what happened to another tenant, and why, in all its domains."""
        return Ledger(self.engine, caller, readable_areas((ADMIN,)))

    def effects_for(self, caller: Caller) -> EffectActions:
        """Return what is owed to the outside on behalf of another tenant."""
        return EffectActions(self.engine, caller, readable_areas((ADMIN,), "write"))

    dry_run_report = DryRun.dry_run_report

    def dry_run(
        self, caller: Caller | None = None, *, at: Instant | str | None = None, policy: Body | None = None
    ) -> DryRun:
        """Return services that decide as ever and commit nothing; now or later, under a policy with these overrides."""
        known = self.for_caller(caller or self.mine.caller)
        return DryRun(known, parse(at) if isinstance(at, str) else at, policy, self.tally, is_virtual=self.is_virtual)

    # -- time

    async def tick(
        self,
        *,
        limit: int = 1_000,
        max_s: float = 10.0,
        tenant: str | None = None,
        kinds: tuple[str, ...] | None = None,
    ) -> TickResult:
        """Do one bounded pass over alarms, effects, due intents and the hour's sweep; say what is still due."""
        done = await one_pass(
            self.engine, self.intent_worker(tenant), self.hourly_sweep(tenant), limit, max_s, tenant, kinds
        )
        await self.tally_projection().catch_up()
        return done

    async def backtest(
        self, plan: Plan, *, jobs: int | None = None, progress: Callable[[float], None] | None = None
    ) -> BacktestReport:
        """Report what other policies would have done with the recorded traffic; change nothing."""
        return await run_backtest(self, plan, jobs, progress)

    @property
    def is_virtual(self) -> bool:
        """Return whether the clock is virtual: time stands still until it is moved."""
        return isinstance(self.clock, VirtualClock)

    async def advance(self, *, to: Instant | str | None = None, by_s: float | None = None) -> TickResult:
        """Move a virtual clock, ringing every alarm on the way, in order, and carrying out what is due.

        Return once the clock is there and nothing is due; raise `Fault` if something stays due that cannot be done.
        """
        clock = self._virtual_clock()
        if (to is None) == (by_s is None):
            raise Invalid("give either the instant the clock goes to (to=…) or the seconds it goes by (by_s=…)")
        target = parse(to) if isinstance(to, str) else clock() + seconds(by_s or 0) if to is None else to
        if target < clock():
            raise Invalid(f"the clock is at {render(clock())} and cannot go back; name a later instant")
        return await advance_fully(lambda left_s: self.tick(max_s=left_s), clock, target)

    async def advance_pass(self, *, to: Instant, max_s: float = 25.0) -> TickResult:
        """Move a virtual clock as far as `max_s` seconds allow; `complete` says whether it is there."""
        return await advance_some(lambda left_s: self.tick(max_s=left_s), self._virtual_clock(), to, max_s)

    def _virtual_clock(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise Invalid("only a virtual clock can be moved: Betimes(…, clock=VirtualClock(…))")
        return self.clock
