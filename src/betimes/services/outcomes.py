"""What a segment decided, in the spelling of its domain: verdicts, fires, ticks, evaluations, decays."""

from __future__ import annotations

from datetime import datetime

import msgspec

from betimes.core.deciders import Event
from betimes.core.instants import render
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domains.automation.model import ScheduleTicked, TicksSkipped
from betimes.domains.automation.sensor_model import SensorEvaluated
from betimes.domains.catalogue import DOMAIN_OF
from betimes.domains.intents.model import CLAIM_EXPIRED, FireCooled, IntentFired
from betimes.domains.notifications.sentences import sentence as notification_sentence
from betimes.domains.runs.sentences import sentence as run_sentence
from betimes.domains.scores.amounts import points
from betimes.domains.scores.model import Decayed, GameOver
from betimes.engine.kinds import Kinds, checkpoint_of
from betimes.services.moments import moment

RUN_OUTCOMES = {"NOW": "ALLOW", "LATER": "DEFER", "NEVER": "SKIP"}


class Outcome(msgspec.Struct, frozen=True):
    outcome: str
    reasons: tuple[str, ...]
    explanation: str
    defer_until: datetime | None = None
    would_pass_at: datetime | None = None


def spelt(kind: str, answer: str) -> str:
    """ALLOW, DEFER, SKIP of a run; NOW, LATER, NEVER of everything else."""
    return RUN_OUTCOMES[answer] if DOMAIN_OF.get(kind) == "runs" else answer


def judged(kinds: Kinds, segment: Segment) -> Outcome | None:
    """The segment's verdict, if it has one."""
    if segment.verdict is None:
        return None
    verdict = kinds.of(segment.stream).recorded(segment).verdict
    if verdict is None:
        return None
    return Outcome(
        spelt(segment.stream.kind, verdict.answer), verdict.reasons, _sentence(segment, verdict),
        moment(verdict.until), moment(verdict.would_pass_at),
    )  # fmt: skip


def outcomes_of(kinds: Kinds, segment: Segment) -> list[Outcome]:
    """Everything the segment decided, in order; of most segments one thing or nothing."""
    domain = DOMAIN_OF.get(segment.stream.kind)
    if domain in ("runs", "notifications"):
        verdict = judged(kinds, segment)
        return [verdict] if verdict else []
    if domain is None or checkpoint_of(segment):
        return []
    told = (_told(event) for event in kinds.of(segment.stream).events(segment))
    return [outcome for outcome in told if outcome]


def _sentence(segment: Segment, verdict: Verdict) -> str:
    match DOMAIN_OF.get(segment.stream.kind):
        case "runs":
            return run_sentence(segment.stream.id, verdict, segment.at)
        case "notifications":
            return notification_sentence(verdict)
        case _:
            return f"{', '.join(verdict.reasons)}."


def _told(event: Event) -> Outcome | None:
    match event:
        case IntentFired(status, _, next_check_at, _, error):
            after = f"the next check is at {render(next_check_at)}" if next_check_at else "no further check is planned"
            reasons = (CLAIM_EXPIRED,) if error == CLAIM_EXPIRED else ()
            return Outcome(status, reasons, f"Recorded as {status}; {after}.", moment(next_check_at))
        case FireCooled(_, next_check_at):
            return Outcome(
                "cooldown_active", ("COOLDOWN_ACTIVE",), "It fired too recently; its cooldown lasts.",
                moment(next_check_at),
            )  # fmt: skip
        case ScheduleTicked(scheduled_for, _, cause, error=error):
            outcome, after = ("failed", f": {error}") if error else ("fired", "")
            explanation = f"The tick of {render(scheduled_for)} {outcome} ({cause}){after}."
            return Outcome(outcome, ("TARGET_FAILED",) if error else (), explanation)
        case TicksSkipped(reason, first, last, count):
            span = render(first) if first == last else f"{render(first)} to {render(last)}"
            return Outcome("skipped", (reason,), f"{count or 1} ticks were left out, {span}: {reason}.")
        case SensorEvaluated():
            problem = f": {event.error}" if event.error else ""
            return Outcome(event.status, (), f"The evaluation ({event.cause}) ended as {event.status}{problem}.")
        case Decayed(amount, score):
            return Outcome("decay", (), f"It fell by {points(amount)} to {points(score)}.", moment(event.due_at))
        case GameOver(reason, status):
            return Outcome("game_over", (reason,), f"It reached the floor; the status is {status} now.")
        case _:
            return None
