"""What definitions and policies name outside of betimes: URLs to call, and Python handlers.

Whoever saves a name is told at once what the process that saves it knows about it: a URL that can never be called is
refused with the field that has it; one that this process's configuration forbids is saved with a warning, because
another process may call it under another configuration. A name that stays as it was is not refused again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from betimes.core.checking import Problem
from betimes.core.policies import Policy
from betimes.domains.automation.sensor_model import WebhookEvaluator
from betimes.domains.hooks import Hooks
from betimes.domains.runs.policy import RunsPolicy, WebhookHandler
from betimes.domains.targets import WebhookTarget
from betimes.services.remarks import Remark


class UrlFinding(msgspec.Struct, frozen=True):
    """What is known of a URL before it is called; both are empty if there is nothing to say."""

    problem: str = ""
    """Why it can never be called."""
    warning: str = ""
    """Why this process would not call it."""


CheckUrl: TypeAlias = Callable[[str], UrlFinding]


class OutsideRules(msgspec.Struct, frozen=True):
    """What the configuration of this process says of the names that tenants save."""

    check_url: CheckUrl = lambda url: UrlFinding()


Calls: TypeAlias = Mapping[str, Any]
"""Targets, evaluators and handlers by the path of the field that has them."""


def calls_of_definition(definition: Any) -> Calls:
    """Return what a schedule or sensor may call."""
    chosen = getattr(definition, "allowed_targets", None) or ()
    return {
        "target": definition.target,
        "evaluator": getattr(definition, "evaluator", None),
        **{f"allowed_targets[{place}]": target for place, target in enumerate(chosen)},
    }


def calls_of_policy(policy: Policy) -> Calls:
    """Return what trigger types and hooks may call; sections that the policy lacks have none."""
    registry = policy[RunsPolicy].registry if RunsPolicy in policy.sections else {}
    hooks = policy[Hooks].entries if Hooks in policy.sections else ()
    return {
        **{f"runs.registry.{name}.handler": entry.handler for name, entry in registry.items()},
        **{f"hooks[{place}].target": hook.target for place, hook in enumerate(hooks)},
    }


def call_problems(rules: OutsideRules, calls: Calls, before: Calls) -> Iterator[Problem]:
    """Yield what can never work of the calls that were not saved before."""
    known = list(before.values())
    for path, url in _urls({path: call for path, call in calls.items() if call not in known}):
        if problem := rules.check_url(url).problem:
            yield path, problem


def call_warnings(rules: OutsideRules, calls: Calls) -> list[Remark]:
    """Return what this process would not do of the calls."""
    found = ((path, rules.check_url(url)) for path, url in _urls(calls))
    return [Remark(path, told) for path, finding in found if (told := finding.problem or finding.warning)]


def _urls(calls: Calls) -> Iterable[tuple[str, str]]:
    for path, call in calls.items():
        if isinstance(call, WebhookTarget | WebhookEvaluator | WebhookHandler):
            yield f"{path}.url", call.url
