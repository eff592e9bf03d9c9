"""The services of an application's own tenant, as attributes of the application."""

from __future__ import annotations

from abc import ABC, abstractmethod

from betimes.catalogue import readable_areas
from betimes.core.scopes import ADMIN
from betimes.intents.service import Intents
from betimes.ledger.service import Ledger
from betimes.notifications.service import Notifications
from betimes.runs.service import Runs
from betimes.schedules.service import Schedules
from betimes.scores.service import Scores
from betimes.sensors.service import Sensors
from betimes.tenancy import Tenancy


class OwnServices(ABC):
    """Shortcuts to the services of one caller."""

    @property
    @abstractmethod
    def mine(self) -> Tenancy:
        """Return the services of this application's own tenant."""

    def with_note(self, note: str) -> Tenancy:
        """Return the same services, so that all that is asked of them is recorded with the reason for it."""
        return self.mine.with_note(note)

    @property
    def runs(self) -> Runs:
        return self.mine.runs

    @property
    def notifications(self) -> Notifications:
        return self.mine.notifications

    @property
    def intents(self) -> Intents:
        return self.mine.intents

    @property
    def schedules(self) -> Schedules:
        return self.mine.schedules

    @property
    def sensors(self) -> Sensors:
        return self.mine.sensors

    @property
    def scores(self) -> Scores:
        return self.mine.scores

    @property
    def ledger(self) -> Ledger:
        """Return what happened, and why."""
        return Ledger(self.mine.engine, self.mine.caller, readable_areas((ADMIN,)))
