"""The registry: the trigger types in force for a tenant, read from its policy and written into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from betimes.core.checks import Problem, Rule, broken_rules, check_value, readable, refusal
from betimes.core.errors import Invalid, VersionMismatch
from betimes.core.policies import Policy
from betimes.domain.deployment import Deployment
from betimes.domain.outside_calls import call_warnings, calls_of_policy, url_problems
from betimes.domain.policy_check import checked_policy
from betimes.domain.service import Service
from betimes.domain.warnings import Remark
from betimes.engine.tenants.model import SetPolicy, TenantState, tenant_stream
from betimes.runs.policy import Entry, RunsPolicy
from betimes.runs.views import RegistryEntry, RegistryView, RegistryWritten

TRIES_MAX = 5
"""How often a change without a version is retried after another change of the policy."""


class Registry(Service):
    """The trigger types of a tenant."""

    async def registry(self) -> RegistryView:
        """Return the trigger types in force for the tenant; their version is that of the tenant's policy."""
        policy = await self.engine.policy_of(self.caller.tenant)
        entries = [_entry_view(name, entry) for name, entry in sorted(policy[RunsPolicy].registry.items())]
        return RegistryView(await self._policy_version(), entries)

    async def put_registry(
        self, entries: Sequence[RegistryEntry | Mapping[str, Any]], *, version: int | None = None
    ) -> RegistryWritten:
        """Replace the tenant's own entries; a built-in type left out is back at its default."""
        entries = _entries(entries)
        names = [entry.trigger_type for entry in entries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise refusal("type", [("entries", f"{name} is listed twice") for name in twice])
        for _ in range(TRIES_MAX):
            overrides, at = await self._overrides(entries)
            warnings = await self._demand_working(overrides, names)
            command = SetPolicy(overrides, expected_version=at if version is None else version)
            try:
                await self.submit(tenant_stream(self.caller.tenant), command)
            except VersionMismatch:
                # Without a version the entries are laid over whatever policy is in force by now.
                if version is not None:
                    raise
            else:
                after = await self.registry()
                return RegistryWritten(after.version, after.entries, warnings)
        raise VersionMismatch("the policy was changed by others at every attempt; try again")

    async def _overrides(self, entries: list[RegistryEntry]) -> tuple[dict[str, Any], int]:
        """Return the tenant's policy with these entries in it, and the version that was changed."""
        state: TenantState | None = await self.state(tenant_stream(self.caller.tenant))
        overrides = dict(state.policy) if state else {}
        registry = {entry.trigger_type: _body(entry) for entry in entries}
        return overrides | {"runs": {**overrides.get("runs", {}), "registry": registry}}, _version(state)

    async def _demand_working(self, overrides: dict[str, Any], names: list[str]) -> list[Remark]:
        """Return warnings about entries that may be mistakes; raise `Invalid` with all that can never work."""
        try:
            policy = await checked_policy(self, overrides)
        except Invalid as error:
            problems = tuple((_entry_path(path, names), message) for path, message in error.problems)
            raise Invalid(str(error), problems) from None
        found = call_warnings(self.deployment, calls_of_policy(policy))
        paths = [(_entry_path(remark.path, names), remark.message) for remark in found]
        return [Remark(path, message) for path, message in paths if path.startswith("entries")]

    async def _policy_version(self) -> int:
        return _version(await self.state(tenant_stream(self.caller.tenant)))


def _entries(entries: Sequence[RegistryEntry | Mapping[str, Any]]) -> list[RegistryEntry]:
    sent = [msgspec.to_builtins(entry) for entry in entries]
    return check_value(sent, list[RegistryEntry], "entries")


def repeated_types(request: Any) -> Iterator[Problem]:
    """Yield the entries of a request whose type another has."""
    seen: set[str] = set()
    for place, entry in readable(request.entries):
        for name in broken_rules(entry, [lambda one: (one.trigger_type,)]):
            if name in seen:
                yield f"entries[{place}].trigger_type", f"{name} is listed twice"
            seen.add(name)


def uncallable_urls(deployment: Deployment, policy: Policy) -> Rule[Any]:
    """Return a rule that names the handlers of a request whose URL can never be called, but for those in force."""

    def find_urls(request: Any) -> Iterator[Problem]:
        for place, entry in readable(request.entries):
            for handler in broken_rules(entry, [lambda one: (one.handler,)]):
                yield from url_problems(deployment, {f"entries[{place}].handler": handler}, calls_of_policy(policy))

    return find_urls


def _version(state: TenantState | None) -> int:
    return state.policy_version if state else 0


def _entry_view(name: str, entry: Entry) -> RegistryEntry:
    return RegistryEntry(trigger_type=name, **{field: getattr(entry, field) for field in entry.__struct_fields__})


def _body(entry: RegistryEntry) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(entry)
    del body["trigger_type"]
    return body


def _entry_path(path: str, names: list[str]) -> str:
    """Return a path in the policy as one in the list that was sent: `runs.registry.X.mode` is `entries[0].mode`."""
    for place, name in enumerate(names):
        prefix = f"runs.registry.{name}"
        if path == prefix or path.startswith(prefix + "."):
            return f"entries[{place}]{path[len(prefix) :]}"
    return path
