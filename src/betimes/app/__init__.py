"""The in-process API and all wiring: `Betimes` puts a store, every domain and their executors together, once."""

from betimes.app.betimes import Betimes
from betimes.app.tenancy import Tenancy

__all__ = ["Betimes", "Tenancy"]
