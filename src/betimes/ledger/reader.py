"""The base of everything that reads for a caller: the domains they may see, and steps of time they may ask for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from betimes.catalogue import DOMAIN_OF, area_of
from betimes.core.datetimes import Moment
from betimes.core.instants import DAY, HOUR, MINUTE, Instant
from betimes.domain.paging import wrong_parameter
from betimes.domain.service import Caller, Service
from betimes.engine.engine import Engine
from betimes.ledger.known_names import check_names

Step: TypeAlias = Literal["1m", "5m", "15m", "30m", "1h", "3h", "6h", "12h", "1d", "7d"]
STEPS: dict[Step, int] = {
    "1m": MINUTE,
    "5m": 5 * MINUTE,
    "15m": 15 * MINUTE,
    "30m": 30 * MINUTE,
    "1h": HOUR,
    "3h": 3 * HOUR,
    "6h": 6 * HOUR,
    "12h": 12 * HOUR,
    "1d": DAY,
    "7d": 7 * DAY,
}
RANGE_MAX = 3_660 * DAY
When: TypeAlias = Moment | None
"""An instant that may be left out."""


class LedgerReader(Service):
    """Reads on behalf of a caller, in the domains it is given."""

    def __init__(self, engine: Engine, caller: Caller, domains: frozenset[str]) -> None:
        super().__init__(engine, caller)
        self._domains = domains

    def may_see(self, kind: str) -> bool:
        """Return whether the caller may read streams of this kind, and so their effects and executors."""
        return domain_of(kind) in self._domains

    def kinds_of(self, domain: str | None = None) -> tuple[str, ...]:
        """Return the kinds of streams that the caller may see, of one domain or of all."""
        return tuple(
            kind for kind, found in DOMAIN_OF.items() if found.area in self._domains and domain in (None, found.area)
        )

    def check_kinds(self, kinds: str | None) -> frozenset[str]:
        """Return the kinds in a list with commas, or all; raise `Invalid` for those that are not known."""
        if kinds is None:
            return frozenset(self.kinds_of())
        names = [name.strip() for name in kinds.split(",")]
        check_names(kinds=names)
        return frozenset(names) & frozenset(self.kinds_of())


def domain_of(kind: str) -> str:
    """Return the domain of a kind of stream, or `tenant` for streams that belong to none."""
    return area_of(kind) or "tenant"


def check_range(since_at: Instant, until_at: Instant, names: tuple[str, str] = ("since", "until")) -> None:
    """Raise `Invalid` unless the one is before the other and not too far."""
    if since_at >= until_at:
        message = f"must be before {names[1]}"
        raise wrong_parameter(names[0], message)
    if until_at - since_at > RANGE_MAX:
        message = f"at most {RANGE_MAX // DAY} days after {names[0]}"
        raise wrong_parameter(names[1], message)
