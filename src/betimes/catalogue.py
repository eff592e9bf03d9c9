"""Every domain there is, and what the rest of the package collects from their declarations.

To add a domain, write its folder and add its `DOMAIN` to `DOMAINS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from betimes.backtest.decide import BACKTESTS
from betimes.core.deciders import Decider
from betimes.core.scopes import ADMIN, areas_of
from betimes.domain.declaration import Domain
from betimes.domain.hooks import Hooks
from betimes.domain.operations.model import OPERATION
from betimes.domain.saved_responses.model import ANSWER
from betimes.http.policy import LimitsPolicy
from betimes.intents.domain import DOMAIN as INTENTS
from betimes.notifications.domain import DOMAIN as NOTIFICATIONS
from betimes.runs.domain import DOMAIN as RUNS
from betimes.schedules.domain import DOMAIN as SCHEDULES
from betimes.scores.domain import DOMAIN as SCORES
from betimes.sensors.domain import DOMAIN as SENSORS

DOMAINS: tuple[Domain, ...] = (RUNS, NOTIFICATIONS, INTENTS, SCHEDULES, SENSORS, SCORES)

DECIDERS: tuple[Decider[Any], ...] = (
    *(decider for domain in DOMAINS for decider in domain.deciders),
    BACKTESTS,
    ANSWER,
    OPERATION,
)
"""Of the domains, and of what is asked about them."""
DOMAIN_OF: Mapping[str, Domain] = {decider.kind: domain for domain in DOMAINS for decider in domain.deciders}
"""The domain of each kind of stream."""
AREAS: tuple[str, ...] = tuple(dict.fromkeys(domain.area for domain in DOMAINS))
"""The names that policies, scopes and counts have for the domains."""
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    **{domain.area: domain.policy for domain in DOMAINS if domain.policy},
    "hooks": Hooks,
    "limits": LimitsPolicy,
}
SCOPES: tuple[str, ...] = (
    *(f"{area}:{right}" for area in AREAS for right in ("read", "write")),
    "sweep",
    "tick",
    "metrics",
    ADMIN,
)

if TYPE_CHECKING:
    Scope: TypeAlias = str
    Area: TypeAlias = str
else:
    Scope = Literal[SCOPES]
    Area = Literal[AREAS]


def area_of(kind: str) -> str | None:
    """Return the name that the domain of a kind of stream is counted under."""
    domain = DOMAIN_OF.get(kind)
    return domain.area if domain else None


def readable_areas(scopes: Collection[str], right: Literal["read", "write"] = "read") -> frozenset[str]:
    """Return the areas these scopes reach; an administrator also reaches `tenant`: keys and policy."""
    return frozenset({*AREAS, "tenant"}) if ADMIN in scopes else areas_of(scopes, right)


def spell_scope(scope: str) -> str:
    """Return a scope in words: `any:read` is that of any one domain, and says which there are."""
    area, _, right = scope.partition(":")
    return f"one of {', '.join(f'{name}:{right}' for name in AREAS)}" if area == "any" else scope


def spell_answer(kind: str, answer: str) -> str:
    """Return an answer in the spelling of its domain: ALLOW, DEFER, SKIP of a run, NOW, LATER, NEVER of others."""
    domain = DOMAIN_OF.get(kind)
    return domain.answers.get(answer, answer) if domain else answer
