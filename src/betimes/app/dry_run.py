"""A dry run: the services of one caller, where everything is decided and nothing is committed.

trial = bt.dry_run(at="2026-01-06T07:00:00Z")
verdict = await trial.runs.trigger(…)
report = await trial.report()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from betimes.catalogue import readable_areas
from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.policies import Body
from betimes.core.scopes import ADMIN
from betimes.domain.service import Caller
from betimes.engine.dry_run import DryRunEngine
from betimes.ledger.dry_run_view import DryRunView, view_dry_run
from betimes.tenancy import Tenancy

if TYPE_CHECKING:
    from betimes.http.counters import CommitCounters

NO_PASS = "a tick has no dry run; a sweep has one of its own"


class DryRun(Tenancy):
    """The services of one caller. An evaluator is not asked: that may do something outside."""

    dry_run_report = DryRunView

    def __init__(
        self, services: Tenancy, at: Instant | None, policy: Body | None, tally: CommitCounters, *, is_virtual: bool
    ) -> None:
        """`services` are those of the caller; `policy` are overrides of the one in force."""
        draft = None if policy is None else (services.caller.tenant, policy)
        self._trial = DryRunEngine(services.engine, at=at, draft=draft)
        super().__init__(self._trial, services.caller, scorer=services._scorer, deployment=services._deployment)
        self.tally, self.is_virtual = tally, is_virtual

    def for_caller(self, caller: Caller) -> Tenancy:
        """Return the services of another caller, in the same dry run."""
        return Tenancy(self.engine, caller, scorer=self._scorer, deployment=self._deployment)

    async def report(self) -> DryRunView:
        """Return what was decided so far: the segments, effects and the alarm that the writes would leave."""
        scopes = (ADMIN,) if self.caller.scopes is None else self.caller.scopes
        return await view_dry_run(self._trial, self.caller, readable_areas(scopes))

    def dry_run(self, caller: Caller | None = None, *, at: Instant | None = None, policy: Body | None = None) -> DryRun:
        """Return itself: what is tried already cannot be tried within."""
        return self

    async def tick(self, **bounds: Any) -> NoReturn:
        """Refuse a pass."""
        raise Invalid(NO_PASS)

    async def advance_pass(self, **bounds: Any) -> NoReturn:
        """Refuse to move a clock."""
        raise Invalid(NO_PASS)
