"""The limit of a person: the intents of theirs that are enabled.

It is locked together with an intent that is made or enabled, so there is never one too many. A disabled intent reports
itself with a command of its own, which may arrive after it was enabled again; the version in the command tells.
"""

from __future__ import annotations

from betimes.core.deciders import Decider, Decision, Refusal, Settled, View, Wake
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.intents.model import ForgetIntent, IntentCounted, IntentUncounted, OwnerEvents, OwnerState


def decide(
    view: View[OwnerState], command: ForgetIntent | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    if not isinstance(command, ForgetIntent):
        return Refusal("NOT_A_COMMAND", "a limit has no alarm and no effects that could end")
    enabled_at = (view.state or OwnerState()).enabled.get(command.intent_id)
    if enabled_at is None or enabled_at >= command.version:
        return Decision()
    return Decision((IntentUncounted(command.intent_id),))


def fold(state: OwnerState | None, event: OwnerEvents) -> OwnerState:
    enabled = dict(state.enabled) if state else {}
    match event:
        case IntentCounted(intent_id, version):
            enabled[intent_id] = version
        case IntentUncounted(intent_id):
            enabled.pop(intent_id, None)
    return OwnerState(enabled)


OWNER = Decider(kind="owner", scope="intents:write", decide=decide, fold=fold)
