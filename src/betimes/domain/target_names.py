"""The names in a definition: those of the policy must be known to it, those of Python to some process.

And the scope that saving a target needs: that of the kind of stream, or the work, it will reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from betimes.core.checks import Problem
from betimes.core.policies import Policy
from betimes.domain.hooks import Hooks
from betimes.domain.targets import CommandTarget, HandlerTarget, NotificationTarget, SweepTarget, Target, TriggerTarget
from betimes.domain.warnings import Remark
from betimes.engine.codecs import Kinds
from betimes.notifications.decide import name_problems
from betimes.notifications.policy import NotificationsPolicy
from betimes.runs.policy import RunsPolicy
from betimes.sensors.model import HandlerEvaluator


def unknown_names(targets: tuple[Target, ...], policy: Policy) -> Iterator[Problem]:
    """Yield what the policy in force does not know of a definition's targets, of which the first is `target`."""
    for place, target in enumerate(targets):
        path = f"allowed_targets[{place - 1}]" if place else "target"
        for name, message in _unknown_in(target, policy):
            yield f"{path}.{name}", message


def unknown_hook_names(policy: Policy, before: Policy) -> Iterator[Problem]:
    """Yield what a policy does not know of the targets of its own hooks; those in force before are left alone."""
    known = [hook.target for hook in before[Hooks].entries]
    for place, hook in enumerate(policy[Hooks].entries):
        for name, message in () if hook.target in known else _unknown_in(hook.target, policy):
            yield f"hooks[{place}].target.{name}", message


def _unknown_in(target: Target, policy: Policy) -> tuple[Problem, ...]:
    match target:
        case NotificationTarget():
            return name_problems(target.event_type, target.channels, policy[NotificationsPolicy])
        case TriggerTarget(trigger_type) if trigger_type not in policy[RunsPolicy].registry:
            return (("trigger_type", policy[RunsPolicy].type_problem(trigger_type)),)
        case _:
            return ()


# A warning and no refusal: executors belong to processes, and the one that saves need not be the one that serves.
def unserved_names(definition: Any, executors: Collection[str]) -> list[Remark]:
    """Return a warning for a handler and an evaluator that this process does not have: another may have them."""
    wanted = {
        "target.name": ("handler", definition.target if isinstance(definition.target, HandlerTarget) else None),
        "evaluator.name": ("evaluator", getattr(definition, "evaluator", None)),
    }
    return [
        Remark(
            path, f"this process has no {kind} {named.name!r}; nothing happens until a process that has it is running"
        )
        for path, (kind, named) in wanted.items()
        if isinstance(named, HandlerTarget | HandlerEvaluator) and f"{kind}:{named.name}" not in executors
    ]


def scope_to_save(target: Target, kinds: Kinds) -> str | None:
    """Return the scope that saving a target needs besides `automation:write`, if there is one."""
    match target:
        case TriggerTarget():
            return "runs:write"
        case NotificationTarget():
            return "notifications:write"
        case SweepTarget():
            return "sweep"
        case CommandTarget(stream):
            return kinds.scope(stream.kind)
        case _:
            return None
