"""About this server: its version and time, its domains and kinds, and the limits of its answers."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec

from betimes.catalogue import AREAS, DOMAIN_OF, DOMAINS
from betimes.core.datetimes import moment
from betimes.domain.hold_view import HoldView, read_hold
from betimes.domain.json_view import JsonView
from betimes.domain.paging import LIMIT_MAX
from betimes.ledger.known_names import outcomes_in, reasons_in, words_in
from betimes.ledger.reader import LedgerReader
from betimes.ledger.search import HITS_MAX
from betimes.ledger.statistics import CELLS_MAX
from betimes.notifications.policy import NotificationsPolicy

EXTRAS = {"channels": "apprise", "lake": "duckdb", "postgres": "asyncpg", "server": "starlette", "tokens": "jwt"}
"""By the name of an extra, what it installs."""
FEATURES = (
    "stats",
    "verdicts",
    "pulse",
    "upcoming",
    "timeline",
    "search",
    "streams",
    "backlog",
    "processes",
    "ticks",
    "hold",
)


class KindView(JsonView, frozen=True):
    kind: str
    domain: str


class MetaView(JsonView, frozen=True, kw_only=True):
    version: str
    now: datetime
    virtual: bool
    """Whether the clock is virtual: time stands still until it is moved."""
    domains: list[str]
    """Those the key may read."""
    kinds: list[KindView]
    """Kinds of streams of these domains."""
    outcomes: list[str]
    """All outcomes of these domains, as filters name them."""
    reasons: list[str]
    """Every reason that they give."""
    words: dict[str, str]
    """Meanings of reasons, and of outcomes and statuses that are codes."""
    channels: list[str]
    """Of notifications, under the policy in force."""
    limits: dict[str, int]
    extras: list[str]
    """Those that are installed."""
    features: list[str]
    hold: HoldView | None
    """While nothing of some domains fires."""


class Meta(LedgerReader):
    """Says what this server is."""

    async def meta(self, *, virtual: bool = False) -> MetaView:
        """Return what the server is, knows and allows."""
        policy = await self.engine.policy_of(self.caller.tenant)
        seen = self._domains & set(AREAS)
        shown = [domain for domain in DOMAINS if domain.area in seen]
        return MetaView(
            version=version("betimes"),
            now=moment(await self.engine.store.now()),
            virtual=virtual,
            domains=[area for area in AREAS if area in seen],
            kinds=[KindView(kind, found.area) for kind, found in DOMAIN_OF.items() if found.area in seen],
            outcomes=sorted({name for domain in shown for name in outcomes_in(domain)}),
            reasons=sorted({name for domain in shown for name in reasons_in(domain)}),
            words={code: text for domain in shown for code, text in words_in(domain).items()},
            channels=sorted(policy[NotificationsPolicy].channels) if "notifications" in seen else [],
            limits={"page": LIMIT_MAX, "stats_cells": CELLS_MAX, "search_hits": HITS_MAX},
            extras=[name for name, module in EXTRAS.items() if find_spec(module)],
            features=list(FEATURES),
            hold=await read_hold(self.engine, self.caller.tenant),
        )
