"""Rules for definitions beyond their shape. Every rule that is broken is named, not only the first.

Rules are an ordered table. Each says which fields it reads; a rule whose fields are already known to be wrong is left
out, so that one mistake is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple, TypeAlias

import msgspec

from betimes.core.canonical import encode
from betimes.core.checks import broken_rules
from betimes.core.errors import Invalid
from betimes.core.instants import Instant, render
from betimes.core.streams import StreamId, checked_stream
from betimes.core.zones import is_zone, unknown_zone
from betimes.intents.check_times import cron_times, next_cron, read_instant
from betimes.intents.conditions import comparison_of, expression
from betimes.intents.expressions import TICKER, BadExpression
from betimes.intents.model import CONDITION_BASED, RESERVED_IDS, DefinitionProblem, Draft, IntentState, OwnerState
from betimes.intents.policy import IntentsPolicy

METADATA_BYTES_MAX = 4 * 1024
DECIMALS_MAX = 6
AMOUNT_MAX = Decimal(10) ** 15
WESTMOST = "Etc/GMT+12"
"""Stands in for a zone that is none: what is past there is past everywhere."""
_STRUCTURED = ("ticker", "metric", "operator", "value", "threshold_hours")


class DefinitionCase(msgspec.Struct, frozen=True):
    """Everything a rule may look at."""

    draft: Draft
    stream: StreamId
    before: IntentState | None
    owner: OwnerState
    policy: IntentsPolicy
    channels: frozenset[str]
    """Those that the notifications' policy knows."""
    now: Instant

    @property
    def is_enabling(self) -> bool:
        return self.draft.enabled and not (self.before and self.before.enabled)


Finder: TypeAlias = Callable[[DefinitionCase], Iterator[DefinitionProblem]]


class Check(NamedTuple):
    reads: tuple[str, ...]
    find: Finder


def problems_of(case: DefinitionCase, known: list[DefinitionProblem]) -> list[DefinitionProblem]:
    """Return the problems of the shape, and those of every rule that is broken."""
    found = list(known)
    for check in CHECKS:
        if not any(_touches(problem.path, read) for problem in found for read in check.reads):
            found += broken_rules(case, [check.find])
    return found


def warnings_of(draft: Draft) -> tuple[DefinitionProblem, ...]:
    condition = draft.condition
    if condition is None:
        return ()
    if draft.trigger_type not in CONDITION_BASED:
        return (
            DefinitionProblem(
                "condition", f"a {draft.trigger_type} intent goes by the clock; its condition is not looked at"
            ),
        )
    given = [name for name in _STRUCTURED if getattr(condition, name) is not None]
    if condition.expression is None or not given:
        return ()
    return (DefinitionProblem("condition.expression", f"the expression is used; {', '.join(given)} are not looked at"),)


def _touches(problem: str, read: str) -> bool:
    return problem == read or problem.startswith(f"{read}.") or read.startswith(f"{problem}.")


# -- the rules


def _ids(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    given = case.draft.intent_id
    if case.stream.id in RESERVED_IDS:
        yield DefinitionProblem("intent_id", f"{case.stream.id!r} is the name of a route; choose another")
    elif given is not None and given != case.stream.id:
        yield DefinitionProblem("intent_id", f"the id cannot be changed; this intent is {case.stream.id!r}")


def _user(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    try:
        checked_stream(case.stream.tenant, "owner", case.draft.user_id)
    except Invalid as error:
        yield DefinitionProblem("user_id", str(error))
    if case.before and case.before.definition.user_id != case.draft.user_id:
        yield DefinitionProblem("user_id", f"the owner cannot be changed; it is {case.before.definition.user_id!r}")


def _zone(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    if not is_zone(case.draft.schedule.timezone):
        yield DefinitionProblem("schedule.timezone", unknown_zone(case.draft.schedule.timezone))


def _clock_fields(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    """Demand the field that each kind of clock goes by."""
    fields = {"cron": "cron", "interval": "interval_minutes", "once": "trigger_at"}
    field = fields.get(case.draft.trigger_type)
    if field and getattr(case.draft.schedule, field) is None:
        yield DefinitionProblem(f"schedule.{field}", f"is required for trigger_type {case.draft.trigger_type}")


def _cron(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    cron = case.draft.schedule.cron
    if cron is None:
        return
    try:
        fires, gap_s = cron_times(cron)
    except ValueError as error:
        yield DefinitionProblem("schedule.cron", str(error))
        return
    gap_s_min, fires_max = case.policy.cron_gap_s_min, case.policy.cron_fires_per_day_max
    if gap_s < gap_s_min:
        yield DefinitionProblem("schedule.cron", f"fires {gap_s} s apart; at least {gap_s_min} s are needed")
    if fires > fires_max:
        yield DefinitionProblem("schedule.cron", f"fires {fires} times a day; at most {fires_max} are allowed")


def _cron_fires(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    cron = case.draft.schedule.cron
    if cron is not None and next_cron(cron, case.draft.schedule.timezone, case.now) is None:
        yield DefinitionProblem("schedule.cron", "never fires")


def _trigger_at(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    before = case.before.definition.schedule.trigger_at if case.before else None
    yield from _instant(case, "schedule.trigger_at", case.draft.schedule.trigger_at, before)


def _expires_at(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    before = case.before.definition.expires_at if case.before else None
    yield from _instant(case, "expires_at", case.draft.expires_at, before)


def _instant(case: DefinitionCase, path: str, text: str | None, before: Instant | None) -> Iterator[DefinitionProblem]:
    """Demand an instant that can be read and, if it was just chosen or counts again, lies ahead."""
    if text is None:
        return
    zone_name = case.draft.schedule.timezone
    try:
        at = read_instant(text, zone_name if is_zone(zone_name) else WESTMOST)
    except Invalid as error:
        yield DefinitionProblem(path, str(error))
        return
    # An instant that has passed since it was set must not keep the other fields from being changed.
    if case.draft.enabled and at <= case.now and (case.is_enabling or at != before):
        yield DefinitionProblem(path, f"must be in the future; it is {render(case.now)}")


def _expression(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    condition = case.draft.condition
    if condition is None or condition.expression is None:
        return
    try:
        expression(condition.expression)
    except BadExpression as error:
        yield DefinitionProblem("condition.expression", str(error))


def _amounts(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    condition = case.draft.condition
    if condition is None:
        return
    for name in ("value", "threshold_hours"):
        amount: Decimal | None = getattr(condition, name)
        if amount is not None and not _is_amount(amount):
            yield DefinitionProblem(
                f"condition.{name}", f"must be a number with at most {DECIMALS_MAX} decimals, below 10^15"
            )
        elif amount is not None and name == "threshold_hours" and amount <= 0:
            yield DefinitionProblem("condition.threshold_hours", "must be more than 0")


def _ticker(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    condition = case.draft.condition
    if condition and condition.ticker is not None and not TICKER.fullmatch(condition.ticker):
        yield DefinitionProblem("condition.ticker", "a ticker has letters, digits and . ^ = _ / - only")


def _is_amount(amount: Decimal) -> bool:
    # Finite first: comparing a NaN raises.
    if not amount.is_finite() or abs(amount) >= AMOUNT_MAX:
        return False
    return amount == round(amount, DECIMALS_MAX)


def _condition(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    """Demand a whole condition of an intent that is based on one."""
    draft, condition = case.draft, case.draft.condition
    if draft.trigger_type not in CONDITION_BASED or (condition and condition.expression is not None):
        return
    if condition is None or all(getattr(condition, name) is None for name in _STRUCTURED):
        yield DefinitionProblem(
            "condition", f"a {draft.trigger_type} intent needs a condition: an expression, or its fields"
        )
    elif comparison_of(draft.trigger_type, condition) is None:
        fields = {"price": ("ticker", "operator", "value"), "portfolio": ("metric", "operator", "value")}
        for name in fields.get(draft.trigger_type, ("threshold_hours",)):
            if getattr(condition, name) is None:
                yield DefinitionProblem(f"condition.{name}", f"is required for trigger_type {draft.trigger_type}")


def _channels(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    given = case.draft.action_channels or ()
    if len(set(given)) < len(given):
        yield DefinitionProblem("action_channels", "each channel once")
    for place, name in enumerate(given):
        if name not in case.channels:
            known = ", ".join(sorted(case.channels))
            yield DefinitionProblem(f"action_channels[{place}]", f"no such channel: {name!r:.80}; known: {known}")


def _metadata(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    size = len(encode(case.draft.metadata).encode())
    if size > METADATA_BYTES_MAX:
        yield DefinitionProblem("metadata", f"has {size:,} bytes; at most {METADATA_BYTES_MAX:,} are allowed")


def _executions(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    most, done = case.draft.max_executions, case.before.execution_count if case.before else 0
    if case.draft.enabled and most is not None and done >= most:
        yield DefinitionProblem(
            "max_executions", f"it was executed {done} times already; raise it, or disable the intent"
        )


def _limit(case: DefinitionCase) -> Iterator[DefinitionProblem]:
    others = sum(intent_id != case.stream.id for intent_id in case.owner.enabled)
    if case.is_enabling and others >= case.policy.enabled_per_user_max:
        yield DefinitionProblem(
            "user_id",
            f"{others} intents of {case.draft.user_id} are enabled, which is the limit; disable one, or send this one "
            "with enabled: false",
        )


CHECKS: tuple[Check, ...] = (
    Check(("intent_id",), _ids),
    Check(("user_id",), _user),
    Check(("schedule.timezone",), _zone),
    Check(("trigger_type", "schedule.cron", "schedule.interval_minutes", "schedule.trigger_at"), _clock_fields),
    Check(("schedule.cron",), _cron),
    Check(("schedule.cron", "schedule.timezone"), _cron_fires),
    Check(("schedule.trigger_at",), _trigger_at),
    Check(("expires_at",), _expires_at),
    Check(("condition.expression",), _expression),
    Check(("condition.value", "condition.threshold_hours"), _amounts),
    Check(("condition.ticker",), _ticker),
    Check(("trigger_type", "condition.expression", *(f"condition.{name}" for name in _STRUCTURED)), _condition),
    Check(("action_channels",), _channels),
    Check(("metadata",), _metadata),
    Check(("max_executions", "enabled"), _executions),
    Check(("user_id", "enabled"), _limit),
)
