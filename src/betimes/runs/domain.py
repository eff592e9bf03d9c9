"""The declaration of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from betimes.core.deciders import Command, Event
from betimes.core.outcomes import JudgedThing
from betimes.core.outlooks import SubjectStreams
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.declaration import BacktestRules, Domain
from betimes.runs.decide import DECIDERS
from betimes.runs.model import (
    LEASE_RAN_OUT,
    RunAllowed,
    RunDeferred,
    RunEnded,
    RunSkipped,
    StartRun,
    TriggerJoined,
    WouldRun,
)
from betimes.runs.outlook import account_outlook, waiting_run, waiting_triggers
from betimes.runs.policy import RunsPolicy
from betimes.runs.rules import ADMISSION
from betimes.runs.sentences import sentence
from betimes.runs.tables import TABLES
from betimes.runs.variations import VARIATIONS


def describe_verdict(segment: Segment, verdict: Verdict) -> str:
    """Return why a trigger was answered so, in a sentence."""
    return sentence(segment.stream.id, verdict, segment.at)


def shadow_rules(policy: RunsPolicy) -> frozenset[str]:
    """Return the rules that are judged and recorded and do not bind: all of them, or none."""
    return frozenset(rule.name for rule in ADMISSION.rules) if policy.mode == "shadow" else frozenset()


def is_lost_claim(event: Event) -> bool:
    """Return whether a run ended because its lease expired."""
    return isinstance(event, RunEnded) and event.error == LEASE_RAN_OUT


def judged_triggers(command: Command | None, events: Sequence[Event], reply: Any) -> Iterator[JudgedThing]:
    """Yield the triggers that a segment judged, by their keys."""
    for event in events:
        match event:
            case RunAllowed() | RunSkipped() | WouldRun():
                yield JudgedThing(event.key, event.key, event.trigger_type)
                if event.retry_key:
                    yield JudgedThing(event.retry_key, event.key, event.trigger_type)
            case RunDeferred(due):
                yield JudgedThing(due.key, due.key, due.trigger_type)
            case TriggerJoined(key, into, due):
                yield JudgedThing(key, key, due.trigger_type)
                yield JudgedThing(into, into, due.trigger_type)
            case _:
                continue


DOMAIN = Domain(
    package="betimes.runs",
    area="runs",
    deciders=DECIDERS,
    policy=RunsPolicy,
    answers={"NOW": "ALLOW", "LATER": "DEFER", "NEVER": "SKIP"},
    phrases={
        "ALLOW": "{who} was allowed to run for {what}",
        "DEFER": "{who} has to wait before it runs for {what}",
        "SKIP": "{who} did not run for {what}",
    },
    describe_verdict=describe_verdict,
    judged={"account": judged_triggers},
    shadow_rules=shadow_rules,
    lost_claims={"run": is_lost_claim},
    tables=TABLES,
    collections=("triggers",),
    statuses={"account": ("waiting", "idle")},
    waiting_items={"account": waiting_triggers, "run": waiting_run},
    outlook={"account": account_outlook},
    subjects=(SubjectStreams("account_id", "account"), SubjectStreams("account_id", "run", by_owner=True)),
    variations={"account": VARIATIONS},
    backtest=BacktestRules(costs=(RunAllowed,), starts={"run": StartRun}, parts=frozenset({"run"})),
    commands={
        "trigger": "Triggers: show one; cancel a waiting one.",
        "run": "Runs that were admitted, and the counters of an account.",
    },
)
