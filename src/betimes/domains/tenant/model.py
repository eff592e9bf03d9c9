"""The stream `tenant`: the policy overrides in force, each change a segment with its actor."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from betimes.core.streams import StreamId

DEPLOYMENT = StreamId("*", "tenant", "*")
"""Where the deployment's own policy is in force."""


def tenant_stream(tenant: str) -> StreamId:
    return StreamId(tenant, "tenant", tenant)


class SetPolicy(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Replace the tenant's overrides (of the tenant `*`: the deployment's policy)."""

    policy: dict[str, Any]
    expected_version: int | None = None
    """Refused unless the stream is at this version; without it, the last one wins."""


class PolicySet(msgspec.Struct, frozen=True, tag=True):
    policy: dict[str, Any]
    fingerprint: str


class TenantState(msgspec.Struct, frozen=True):
    policy: dict[str, Any] = {}
    fingerprint: str = ""


Commands: TypeAlias = SetPolicy
Events: TypeAlias = PolicySet
