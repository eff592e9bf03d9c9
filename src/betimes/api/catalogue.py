"""Every route there is."""

from __future__ import annotations

from betimes.api import (
    admin,
    automation,
    backtests,
    effects,
    health,
    history,
    intents,
    live,
    notifications,
    runs,
    scores,
)
from betimes.api.routes import Route

ROUTES: tuple[Route, ...] = (
    *runs.ROUTES,
    *notifications.ROUTES,
    *intents.ROUTES,
    *automation.ROUTES,
    *scores.ROUTES,
    *effects.ROUTES,
    *history.ROUTES,
    *live.ROUTES,
    *backtests.ROUTES,
    *admin.ROUTES,
    *health.ROUTES,
)
