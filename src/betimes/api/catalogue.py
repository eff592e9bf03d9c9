"""Every route there is."""

from __future__ import annotations

from betimes.api import runs
from betimes.api.routes import Route

ROUTES: tuple[Route, ...] = (*runs.ROUTES,)
