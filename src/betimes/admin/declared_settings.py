"""Settings that applications declare in code, such as the types of `@bt.run`: kept by a roll back, missed by a change.

An application puts them in force each time it opens, and without them what it asks for is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from betimes.admin.policy_history import PolicyVersion
from betimes.core.errors import Refused
from betimes.core.policies import Body, merge
from betimes.domain.warnings import Remark
from betimes.engine.tenants.model import TenantState


def dropped_declarations(tenant: TenantState, overrides: Body) -> list[Remark]:
    """Return a warning for each declared setting that these overrides do not have, or have otherwise."""
    return [
        Remark(
            path,
            f"the application {application!r} declares it in code: as it is here, it may refuse what that application "
            "asks for, until it is opened again and puts its own back",
        )
        for application, declared in sorted(tenant.declared.items())
        for path in _missing(overrides, declared)
    ]


def _missing(overrides: Body, declared: Body) -> Iterator[str]:
    """Yield the declared entries, as section.table.name, that overrides do not have or have otherwise."""
    whole = merge(overrides, declared)
    for section, tables in declared.items():
        for table, entries in tables.items():
            present = overrides.get(section, {}).get(table, {})
            yield from (
                f"{section}.{table}.{name}" for name in entries if present.get(name) != whole[section][table][name]
            )


def keep_declarations(tenant: TenantState, earlier: PolicyVersion) -> dict[str, Any]:
    """Return earlier overrides with what is declared now; raise `Refused` if that is all that differs from now."""
    kept = reduce(merge, (declared for _, declared in sorted(tenant.declared.items())), earlier.overrides)
    if kept == tenant.policy and earlier.overrides != tenant.policy:
        paths = ", ".join(path for each in tenant.declared.values() for path in _missing(earlier.overrides, each))
        raise Refused(
            "DECLARED_IN_CODE",
            f"version {earlier.version} differs from what is in force only in what applications declare in code "
            f"({paths}), which stays: they would put it back when they open. Change it there",
        )
    return kept
