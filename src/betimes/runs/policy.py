"""The section `runs` of the policy: trigger types, limits, tiers and handlers."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, TypeAlias

import msgspec

from betimes.core.names import HandlerName, Url

Seconds = Annotated[int, msgspec.Meta(ge=0, le=2_592_000)]
Cap = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Budget = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
TriggerType = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Z][A-Z0-9_]{0,63}\Z", description="a name of A–Z, 0–9 and _, at most 64, beginning with a letter"
    ),
]
TierName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Mode: TypeAlias = Literal["enforce", "shadow"]


class PythonHandler(msgspec.Struct, frozen=True, tag_field="kind", tag="python", forbid_unknown_fields=True):
    """A Python function registered under this name; the executor is `handler:<name>`."""

    name: HandlerName


class WebhookHandler(msgspec.Struct, frozen=True, tag_field="kind", tag="webhook", forbid_unknown_fields=True):
    """An HTTP endpoint; the executor is `webhook`."""

    url: Url


Handler: TypeAlias = PythonHandler | WebhookHandler


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trigger type of the registry."""

    debounce_seconds: Seconds
    """Minimum time between two runs of this type for an account; with `trailing`, the quiet time that ends a burst."""
    cooldown_seconds: Seconds
    """Minimum time since any allowed run of the account."""
    max_per_account_per_hour: Cap | None = None
    max_per_tenant_per_hour: Cap | None = None
    debounce_mode: Literal["leading", "trailing"] = "leading"
    """`leading`: the first runs and the others are skipped. `trailing`: all are held and one run comes at the end."""
    debounce_keep: Literal["last", "all"] = "last"
    """Which payloads of the held triggers the run gets; of `all`, the newest hundred."""
    debounce_max_wait_seconds: Seconds | None = None
    """Longest wait from the first trigger of a burst; without it, each later trigger extends the wait."""
    mode: Mode = "enforce"
    """`shadow`: verdicts are recorded, and the run starts whatever they are."""
    handler: Handler | None = None
    """What is called; without a handler, the run waits for a worker to claim it."""

    def __post_init__(self) -> None:
        if self.debounce_mode == "leading":
            if self.debounce_keep == "all" or self.debounce_max_wait_seconds is not None:
                raise ValueError("debounce_keep and debounce_max_wait_seconds need debounce_mode: trailing")
        elif self.debounce_seconds == 0:
            raise ValueError("debounce_mode: trailing needs debounce_seconds of at least 1")
        elif self.debounce_max_wait_seconds is not None and self.debounce_max_wait_seconds < self.debounce_seconds:
            raise ValueError("debounce_max_wait_seconds must be at least debounce_seconds")


class Tier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of a tier; each that it leaves out is the general one."""

    daily_run_budget: Budget | None = None
    tenant_daily_run_budget: Budget | None = None
    max_per_account_per_hour: Cap | None = None
    max_per_tenant_per_hour: Cap | None = None
    action_cap: Cap | None = None


def _built_in() -> dict[str, Entry]:
    def entry(debounce_seconds: int, per_hour: int) -> Entry:
        return Entry(debounce_seconds=debounce_seconds, cooldown_seconds=300, max_per_account_per_hour=per_hour)

    return {
        "SIGNAL_ARRIVED": entry(60, 12),
        "LIFECYCLE_STATE_CHANGE": entry(120, 6),
        "POSTURE_CHANGE": entry(120, 6),
        "TIME_RITUAL_DAILY_BRIEF": entry(72_000, 1),
        "TIME_RITUAL_WEEKLY_REVIEW": entry(518_400, 1),
        "TIME_RITUAL_RENEWAL_RUNWAY": entry(72_000, 2),
    }


TYPES_LISTED_MAX = 20
"""Known trigger types that the refusal of an unknown one lists at most."""


class RunsPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    registry: dict[TriggerType, Entry] = msgspec.field(default_factory=_built_in)
    """The trigger types; the six built-in ones are there unless overridden."""
    mode: Mode = "enforce"
    """`shadow` puts every type in shadow mode."""
    daily_run_budget: Budget | None = None
    """Runs per account and UTC day."""
    tenant_daily_run_budget: Budget | None = None
    """Runs of all accounts together per UTC day."""
    action_cap: Cap | None = None
    """Actions per account and UTC day, after which another run is not worth it."""
    tier: TierName | None = None
    """The tenant's tier."""
    tier_from: Literal["policy", "request"] = "policy"
    """Source of the tier: `policy`, or `request` to let a trigger's `tenant_tier` override it."""
    tiers: dict[TierName, Tier] = {}
    start_deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=2_592_000)] = 86_400
    """How long an allowed run may wait to be started before it is abandoned."""
    handler_lease_seconds: Annotated[int, msgspec.Meta(ge=1, le=3_600)] = 60
    """Lease of a run: how long its handler's process may be silent before the run is abandoned."""

    def __post_init__(self) -> None:
        if self.tier is not None and self.tier not in self.tiers:
            raise ValueError(f"tier: there is no tier {self.tier!r} in tiers")

    @cached_property
    def shares_quota(self) -> bool:
        """Whether accounts share any limit, so that the tenant's counters must be locked with each."""
        return (
            self.tenant_daily_run_budget is not None
            or any(map(self.counts_for_tenant, self.registry.values()))
            or any(tier.tenant_daily_run_budget is not None for tier in self.tiers.values())
        )

    def counts_for_tenant(self, entry: Entry) -> bool:
        """Return whether runs of this type count against a cap of the tenant, even if only a tier sets it."""
        return entry.max_per_tenant_per_hour is not None or any(
            tier.max_per_tenant_per_hour is not None for tier in self.tiers.values()
        )

    def type_problem(self, trigger_type: str) -> str:
        """Return what is wrong with the trigger type a request names, or nothing."""
        if trigger_type in self.registry:
            return ""
        known = sorted(self.registry)
        more = f" and {len(known) - TYPES_LISTED_MAX} more" if len(known) > TYPES_LISTED_MAX else ""
        listed = ", ".join(known[:TYPES_LISTED_MAX]) or "none"
        how = "register it first, with @bt.run or as runs.registry in the policy"
        return f"{trigger_type!r} is not in the registry; {how}, or use one of: {listed}{more}"


class RunLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits of one trigger: those of its type, with the values of its tier in place."""

    account_cap: int | None
    tenant_cap: int | None
    account_budget: int | None
    tenant_budget: int | None
    action_cap: int | None


_GENERAL = Tier()


def limits_of(policy: RunsPolicy, entry: Entry, asked_tier: str | None) -> RunLimits:
    """Return the limits of a trigger; if the policy has dropped its tier, the tenant's own counts."""
    is_known = policy.tier_from == "request" and asked_tier in policy.tiers
    tier = policy.tiers.get((asked_tier if is_known else policy.tier) or "", _GENERAL)
    return RunLimits(
        _first(tier.max_per_account_per_hour, entry.max_per_account_per_hour),
        _first(tier.max_per_tenant_per_hour, entry.max_per_tenant_per_hour),
        _first(tier.daily_run_budget, policy.daily_run_budget),
        _first(tier.tenant_daily_run_budget, policy.tenant_daily_run_budget),
        _first(tier.action_cap, policy.action_cap),
    )


def _first(own: int | None, general: int | None) -> int | None:
    return general if own is None else own
