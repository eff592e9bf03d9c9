"""The in-process API and all wiring: `Betimes` puts a store, every domain and their executors together, once.

A name is loaded when it is first used: a process that rehearses a part of a backtest needs no service.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.app.betimes import Betimes
    from betimes.app.blocking_betimes import BlockingBetimes
    from betimes.app.settings import Settings
    from betimes.tenancy import Tenancy

_PLACES = {
    "Betimes": "betimes.app.betimes",
    "BlockingBetimes": "betimes.app.blocking_betimes",
    "Settings": "betimes.app.settings",
    "Tenancy": "betimes.tenancy",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'betimes.app' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


__all__ = ["Betimes", "BlockingBetimes", "Settings", "Tenancy"]
