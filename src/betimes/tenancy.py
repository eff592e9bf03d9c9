"""Everything one caller may ask for, domain by domain."""

from __future__ import annotations

from functools import cached_property

import msgspec

from betimes.admin.service import Tenants
from betimes.admin.wakes import Wakes
from betimes.core.errors import Invalid
from betimes.domain.deployment import Deployment
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.intents.service import Intents
from betimes.notifications.service import Notifications, Scorer
from betimes.runs.service import Runs
from betimes.schedules.service import Schedules
from betimes.scores.service import Scores
from betimes.sensors.service import Evaluate, Sensors


class Tenancy:
    """The services of one caller; cheap to make, one per request."""

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        *,
        evaluate: Evaluate | None = None,
        scorer: Scorer | None = None,
        deployment: Deployment | None = None,
    ) -> None:
        self.engine = engine
        self.caller = caller
        self._evaluate = evaluate
        self._scorer = scorer
        self._deployment = deployment

    def with_note(self, note: str) -> Tenancy:
        """Return the same services, so that all that is asked of them is recorded with the reason for it."""
        if not isinstance(note, str):
            raise Invalid("a note must be a string", (("note", "must be a text"),))
        return Tenancy(
            self.engine,
            msgspec.structs.replace(self.caller, note=note),
            evaluate=self._evaluate,
            scorer=self._scorer,
            deployment=self._deployment,
        )

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.engine, self.caller, deployment=self._deployment)

    @cached_property
    def notifications(self) -> Notifications:
        return Notifications(self.engine, self.caller, self._scorer)

    @cached_property
    def intents(self) -> Intents:
        return Intents(self.engine, self.caller)

    @cached_property
    def schedules(self) -> Schedules:
        return Schedules(self.engine, self.caller, deployment=self._deployment)

    @cached_property
    def sensors(self) -> Sensors:
        return Sensors(self.engine, self.caller, evaluate=self._evaluate, deployment=self._deployment)

    @cached_property
    def scores(self) -> Scores:
        return Scores(self.engine, self.caller)

    @cached_property
    def tenants(self) -> Tenants:
        return Tenants(self.engine, self.caller, deployment=self._deployment)

    @cached_property
    def wakes(self) -> Wakes:
        return Wakes(self.engine, self.caller)
