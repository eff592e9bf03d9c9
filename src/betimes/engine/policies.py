"""The policy in force for a tenant: the deployment's, with the tenant's own overrides laid over it.

Both are states of `tenant` streams (the deployment's has the tenant and id `*`), read inside every batch's transaction,
so no process decides by an older policy than the last committed one. The policy that was in force last is remembered
only to guess, before the transaction, which streams a command will need; the guess is checked inside it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from betimes.core.policies import Body, Policy, PolicyBook
from betimes.engine.holds import HoldsInForce
from betimes.engine.tenants.model import TenantState

REMEMBERED_MAX = 10_000
Name = TypeVar("Name", bound=Hashable)


class PoliciesInForce:
    """Effective policies by their layers, and the last one seen of each tenant."""

    def __init__(self, book: PolicyBook) -> None:
        self._book = book
        self._by_layers: dict[tuple[str, str], Policy] = {}
        self._last: dict[str, Policy] = {}
        self.saved: set[str] = set()
        """The fingerprints of those that are known to be in the store."""
        self.holds = HoldsInForce()

    def repairing(self) -> Policy:
        """Return the policy for `tenant` streams when the one in force does not fit the code any more."""
        return self._book.effective()

    def guess(self, tenant: str) -> Policy:
        return self._last.get(tenant) or self.effective(tenant, None, None)

    def effective(self, tenant: str, deployment: TenantState | None, own: TenantState | None) -> Policy:
        # By layers, not by tenant: all who override nothing share one policy.
        layers = (deployment.fingerprint if deployment else "", own.fingerprint if own else "")
        policy = self._by_layers.get(layers)
        if policy is None:
            policy = self._book.effective(_body(deployment), _body(own))
            _remember(self._by_layers, layers, policy)
        if self._last.get(tenant) is not policy:
            _remember(self._last, tenant, policy)
        return policy


def _body(state: TenantState | None) -> Body:
    return state.policy if state else {}


def _remember(memory: dict[Name, Policy], name: Name, policy: Policy) -> None:
    """Both memories can be rebuilt at any time, so a full one simply starts again."""
    if len(memory) >= REMEMBERED_MAX:
        memory.clear()
    memory[name] = policy
