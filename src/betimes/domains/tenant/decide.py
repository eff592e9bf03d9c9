"""What may be put in force for a tenant: only a policy that works, and only when it changes something."""

from __future__ import annotations

from betimes.core.canonical import fingerprint
from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.errors import PolicyInvalid
from betimes.core.instants import Instant
from betimes.core.policies import Policy, PolicyBook
from betimes.core.streams import StreamId
from betimes.domains.tenant.model import DEPLOYMENT, Commands, Events, PolicySet, SetPolicy, TenantState, tenant_stream


def tenant_decider(book: PolicyBook) -> Decider[TenantState]:
    """The decider of `tenant` streams; the book knows which policies work."""

    def decide(
        view: View[TenantState], command: SetPolicy | Wake | Settled, policy: Policy, now: Instant
    ) -> Decision | Refusal:
        if not isinstance(command, SetPolicy):
            return Decision()
        if view.stream.id != view.stream.tenant:
            return Refusal("WRONG_STREAM", f"the policy of a tenant is in force in {tenant_stream(view.stream.tenant)}")
        if command.expected_version not in (None, view.version):
            return Refusal("VERSION_MISMATCH", f"the policy is at version {view.version}; read it again")
        deployment = view.others.get(DEPLOYMENT)
        try:
            book.effective(deployment.policy if deployment else {}, command.policy)
        except PolicyInvalid as error:
            return Refusal("POLICY_INVALID", str(error))
        name = fingerprint(command.policy)
        if view.state and view.state.fingerprint == name:
            return Decision()
        return Decision(events=(PolicySet(command.policy, name),))

    return Decider(
        kind="tenant", state=TenantState, commands=Commands, events=Events, decide=decide, fold=fold, needs=needs
    )


def needs(stream: StreamId, command: SetPolicy | Wake | Settled, policy: Policy) -> tuple[StreamId, ...]:
    """Overrides must work on top of what the deployment has in force."""
    return () if stream == DEPLOYMENT else (DEPLOYMENT,)


def fold(state: TenantState | None, event: PolicySet) -> TenantState:
    return TenantState(event.policy, event.fingerprint)
