"""The limits of each tenant over HTTP: a section of the policy that no decision reads.

The deployment's policy sets the limits, for all tenants and for single ones. A tenant's own policy can only
lower them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from betimes.core.policies import Policy

Rate = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]


class RequestLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests and items a tenant may send per minute, to each process; `None` is no limit."""

    requests_per_minute: Rate | None = None
    items_per_minute: Rate | None = None


class LimitsPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    omitted_by_default: ClassVar[bool] = True

    requests_per_minute: Rate | None = None
    """HTTP requests of one tenant in a minute, in each process; more are refused with 429. `null`: no limit."""
    items_per_minute: Rate | None = None
    """Items in requests with a body: each item of a batch, or one. `null`: no limit."""
    tenants: dict[str, RequestLimits] = {}
    """Limits of single tenants instead, by name; read from the deployment's policy only."""


def limits_of(tenant: str, deployment: Policy, own: Policy) -> RequestLimits:
    """Return what holds for a tenant: what the deployment says of it, or less if it says so itself."""
    common, its_own = deployment[LimitsPolicy], own[LimitsPolicy]
    given = common.tenants.get(tenant) or common
    return RequestLimits(
        _lower(given.requests_per_minute, its_own.requests_per_minute, common.requests_per_minute),
        _lower(given.items_per_minute, its_own.items_per_minute, common.items_per_minute),
    )


def _lower(given: int | None, its_own: int | None, common: int | None) -> int | None:
    """Return the lower of two rates; what a tenant says for itself is what differs from what all have."""
    said = None if its_own == common else its_own
    return min((rate for rate in (given, said) if rate is not None), default=None)
