"""Every route there is."""

from __future__ import annotations

from betimes.api import admin, effects, health, history, live, runs
from betimes.api.routes import Route

ROUTES: tuple[Route, ...] = (
    *runs.ROUTES,
    *effects.ROUTES,
    *history.ROUTES,
    *live.ROUTES,
    *admin.ROUTES,
    *health.ROUTES,
)
