"""The declaration of sensors."""

from __future__ import annotations

from typing import get_args

from betimes.core.deciders import Command, Event
from betimes.core.outcomes import EventOutcome
from betimes.domain.declaration import BacktestRules, Domain
from betimes.sensors.decide import SENSOR
from betimes.sensors.model import EvaluationStatus, SensorEvaluated
from betimes.sensors.outlook import waiting_evaluation
from betimes.sensors.policy import AutomationPolicy
from betimes.sensors.tables import TABLES
from betimes.sensors.variations import VARIATIONS

WORDS = {"no_change": "no change", "skipped_stale_cursor": "skipped, the cursor had moved"}


def outcome_of(event: Event) -> EventOutcome | None:
    """Return how an evaluation ended."""
    return EventOutcome(event.status) if isinstance(event, SensorEvaluated) else None


def describe_event(event: Event, command: Command | None) -> str:
    """Return how an evaluation ended, in a sentence."""
    if not isinstance(event, SensorEvaluated):
        return ""
    problem = f": {event.error}" if event.error else ""
    return f"The evaluation ({event.cause}) ended: {WORDS.get(event.status, event.status)}{problem}."


DOMAIN = Domain(
    package="betimes.sensors",
    area="automation",
    deciders=(SENSOR,),
    policy=AutomationPolicy,
    outcome_of=outcome_of,
    outcomes=get_args(EvaluationStatus),
    phrases={
        "triggered": "the sensor {who} asked for runs",
        "no_change": "the sensor {who} saw no change",
        "error": "the sensor {who} failed",
        "skipped_stale_cursor": "the sensor {who} had moved on, so what it found was dropped",
    },
    words=WORDS,
    describe_event=describe_event,
    tables=TABLES,
    collections=("sensor_evaluations",),
    waiting_items={"sensor": waiting_evaluation},
    variations={"sensor": VARIATIONS},
    backtest=BacktestRules(results={"evaluator": {"run_requests": []}}),
    commands={"sensor": "Sensors."},
)
