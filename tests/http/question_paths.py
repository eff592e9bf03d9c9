"""Every question that can be asked over HTTP, under every filter and pair of filters."""

from __future__ import annotations

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
    "/v1/backlog",
    "/v1/processes",
)
"""Questions that are no lists."""
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
    known = KINDS | {"status": "incident"} if route.path == "/v1/streams" else KINDS
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
