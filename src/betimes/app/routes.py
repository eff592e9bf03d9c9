"""Every route there is: those of the domains, and those of what is known about all of them."""

from __future__ import annotations

from importlib import import_module

from betimes.admin import routes as admin
from betimes.admin import session_routes, wake_routes
from betimes.backtest import routes as backtest
from betimes.catalogue import DOMAINS
from betimes.http import health
from betimes.http.routes import Route
from betimes.ledger import effect_routes, live_routes, question_routes
from betimes.ledger import routes as ledger

ROUTES: tuple[Route, ...] = (
    *(route for domain in DOMAINS for route in import_module(f"{domain.package}.routes").ROUTES),
    *effect_routes.ROUTES,
    *ledger.ROUTES,
    *question_routes.ROUTES,
    *live_routes.ROUTES,
    *backtest.ROUTES,
    *admin.ROUTES,
    *wake_routes.ROUTES,
    *session_routes.ROUTES,
    *health.ROUTES,
)
