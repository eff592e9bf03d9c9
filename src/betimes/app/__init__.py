"""The in-process API and all wiring: `Betimes` puts a store, every domain and their executors together, once."""

from betimes.app.betimes import Betimes
from betimes.app.blocking_betimes import BlockingBetimes
from betimes.app.settings import Settings
from betimes.tenancy import Tenancy

__all__ = ["Betimes", "BlockingBetimes", "Settings", "Tenancy"]
