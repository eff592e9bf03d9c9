"""Every question that can be asked over HTTP, under every filter and pair of filters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, islice
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlencode

from betimes.app.routes import ROUTES
from betimes.http.routes import Route
from tests.http.populated import OF_ONE_REPORT

IDS = {"user_id": "u-0", "intent_id": "a", "schedule_id": "a", "sensor_id": "a"}
REQUIRED = {"/v1/streams": {"kind": "inbox"}}
"""Parameters that a list does not do without."""
KINDS = {
    "kind": "inbox",
    "kinds": "inbox,score",
    "prefix": "u-",
    "outcome": "skipped_stale_cursor",
    "reason": "ACCOUNT_BANNED",
}
"""Parameters that must name something there is."""
KINDS_OF_ROUTES = {
    "/v1/streams": {"status": "incident"},
    "/v1/ledger": {"event_type": "ChannelFailed", "command_type": "Reconsider"},
}
"""The same, of one route."""
QUESTIONS = (
    "/v1/meta",
    "/v1/stats",
    "/v1/stats?by=domain,kind,outcome,reason&step=1h",
    "/v1/stats?reason=QUIET_HOURS&domain=notifications",
    "/v1/upcoming",
    "/v1/upcoming?kinds=schedule&step=1h",
    "/v1/timeline?user_id=u-8",
    "/v1/timeline?account_id=a",
    "/v1/search?q=u-",
    "/v1/search?q=later-a",
    "/v1/streams/inbox/u-8",
    "/v1/streams/inbox/u-8/verification",
    "/v1/explain/inbox:u-8:2",
    "/v1/explain/inbox:u-8:2/alternatives",
    "/v1/effects/groups",
    "/v1/effects/groups?error=not",
    "/v1/triggers/later-a",
    "/v1/accounts/a/run-state",
    "/v1/notifications/late-a",
    "/v1/users/u-8/notification-state",
    "/v1/users/u-8/preferences",
    "/v1/intents/a",
    "/v1/schedules/a",
    "/v1/sensors/a",
    "/v1/scores/u-0",
    "/v1/registry",
    "/v1/rules",
    "/v1/policy",
    "/v1/hold",
    "/v1/clock",
    "/v1/whoami",
    "/readyz",
    "/v1/request-times",
    "/v1/backlog",
    "/v1/health",
    "/v1/processes",
)
"""Questions that are no lists."""
UNASKED = {
    "/v1/runs/{run_id}": "one row, by a random id",
    "/v1/schedules/{schedule_id}/backfills/{backfill_id}": "one row, by a random id",
    "/v1/effects/{effect_id}": "one row, by what the list of effects names",
    "/v1/keys/{key_id}": "one row, by a random id",
    "/v1/policies/{fingerprint}": "one row, by a hash",
    "/v1/verdicts/stream": "goes on for ever; tests/http/test_live.py bounds what it reads",
    "/v1/backtests/{backtest_id}": "a file of one backtest",
    "/v1/backtests/{backtest_id}/report": "a file of one backtest",
    "/v1/backtests/{backtest_id}/flips": "a file of one backtest",
    "/v1/backtests/{backtest_id}/stream": "a file of one backtest",
    "/v1/policy/schema": "reads no database",
    "/v1/sessions/current": "for those who signed in",
    "/healthz": "reads no database",
    "/metrics": "is no JSON; it counts what /v1/backlog counts",
    "/openapi.json": "reads no database",
    "/docs": "reads no database",
}
"""Routes that are not asked, each with why."""
PAIRS_MAX = 10
LISTED = ("limit", "cursor")


def _value(kind: Any) -> Any:
    """Return something a parameter of this type may be, that little or nothing in the list is."""
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is Literal:
        return options[-1]
    if options:
        return _value(options[0])
    return {bool: "true", int: 1, str: "zz"}.get(kind, "2026-01-05T00:00:00Z")


def _questions(route: Route) -> Iterator[str]:
    hints = get_type_hints(route.query, include_extras=True)
    known = KINDS | KINDS_OF_ROUTES.get(route.path, {})
    filters = {name: known.get(name) or _value(kind) for name, kind in hints.items() if name not in LISTED}
    path, required = route.path.format_map(IDS), REQUIRED.get(route.path, {})
    for size in range(3):
        for names in islice(combinations(filters, size), PAIRS_MAX):
            yield f"{path}?" + urlencode(
                {"limit": 2, **required, **{name.rstrip("_"): filters[name] for name in names}}
            )


LISTS = [
    question
    for route in ROUTES
    if "cursor" in route.query.__struct_fields__ and route.path not in OF_ONE_REPORT
    for question in _questions(route)
]


def unasked_routes() -> set[str]:
    """Return the paths of GET routes that no question is about."""
    asked = [question.partition("?")[0] for question in (*LISTS, *QUESTIONS)]
    routes = [route.path for route in ROUTES if route.method == "GET"]
    return {path for path in routes if not any(re.fullmatch(_pattern(path), one) for one in asked)}


def _pattern(path: str) -> str:
    """Return a pattern of a route's path; a fixed part is no id."""
    return re.sub(r"\\\{\w+\\\}", "(?!groups$|pending$)[^/]+", re.escape(path))
