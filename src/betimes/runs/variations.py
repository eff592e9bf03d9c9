"""Variations of a trigger's decision, for the search for alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Command
from betimes.core.instants import Instant
from betimes.domain.variations import Variation, Variations
from betimes.runs.model import AccountState, RequestRun


def names(command: Command, state: AccountState | None, at: Instant) -> Mapping[str, tuple[str, ...]]:
    """Return the type and the tier of what is judged: a new trigger, or the one that waits and is due."""
    if isinstance(command, RequestRun):
        found: Any = command
    else:
        due = [one for one in state.waiting if one.until_at <= at] if state else []
        found = min(due, key=lambda one: (one.until_at, one.first_at), default=None)
    if found is None:
        return {}
    tier = {"tier": (found.tenant_tier,)} if found.tenant_tier else {}
    return {"trigger_type": (found.trigger_type,), **tier}


def vary(command: Command, state: AccountState | None) -> Iterator[Variation]:
    """Return a trigger that brings no budget or saturation of its own."""
    if not isinstance(command, RequestRun):
        return
    if command.budget_remaining is not None:
        changed = replace(command, budget_remaining=None)
        yield _request("it had named no budget", "budget_remaining", command.budget_remaining, changed)
    if command.action_saturation_score is not None:
        changed = replace(command, action_saturation_score=None)
        yield _request(
            "it had named no saturation", "action_saturation_score", command.action_saturation_score, changed
        )


def _request(says: str, path: str, before: Any, command: Command) -> Variation:
    return Variation(kind="request", says=says, path=path, before=before, after=None, command=command)


def switch_off(rule: str, names: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """Return the limits that a rule holds a trigger to, all of them lifted."""
    entries = [f"runs.registry.{name}" for name in names.get("trigger_type", ())]
    tiers = [f"runs.tiers.{name}" for name in names.get("tier", ())]
    off: dict[str, dict[str, Any]] = {
        "debounce": {f"{entry}.debounce_seconds": 0 for entry in entries},
        "cooldown": {f"{entry}.cooldown_seconds": 0 for entry in entries},
        "account_cap": {f"{part}.max_per_account_per_hour": None for part in (*entries, *tiers)},
        "tenant_cap": {f"{part}.max_per_tenant_per_hour": None for part in (*entries, *tiers)},
        "saturation": {f"{part}.action_cap": None for part in ("runs", *tiers)},
        "budget": {
            f"{part}.{name}": None
            for part in ("runs", *tiers)
            for name in ("daily_run_budget", "tenant_daily_run_budget")
        },
    }
    return off.get(rule, {})


VARIATIONS = Variations(names=names, vary=vary, switch_off=switch_off)
