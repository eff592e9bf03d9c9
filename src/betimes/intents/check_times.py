"""The times at which an intent is checked: crons and zones, intervals, and the pauses after failures.

All calendar arithmetic of the domain is here. It is done when something is decided; events carry what came of it.
"""

from __future__ import annotations

from whenever import PlainDateTime

from betimes.core.calendar import calendar_of
from betimes.core.cron import times_of_day
from betimes.core.errors import Invalid
from betimes.core.instants import FIRST, FIRST_TEXT, LAST, LAST_TEXT, MINUTE, Instant, parse
from betimes.core.zones import first_shown
from betimes.intents.model import Definition
from betimes.intents.policy import IntentsPolicy

CHECK_MINUTES = 5
CHECK_MINUTES_PORTFOLIO = 15
DAY_S = 86_400


def read_instant(text: str, zone_name: str) -> Instant:
    """Return the instant of an ISO 8601 text, in the zone if it has no offset; raise `Invalid` if it is neither.

    A local time that the zone skips is the first one after the gap, as for schedules.
    """
    try:
        local = PlainDateTime.parse_iso(text)
    except ValueError:
        at = parse(text)
    else:
        at = first_shown(zone_name, local.to_stdlib())
    if not FIRST <= at <= LAST:
        raise Invalid(f"{text!r} must be from {FIRST_TEXT} to {LAST_TEXT} in UTC")
    return at


def cron_times(cron: str) -> tuple[int, int]:
    """Return the fires on a day with fires, and the least seconds between two; raise `ValueError` if it is no cron."""
    times = times_of_day(cron)
    # The last of a day is followed by the first of the next.
    around = [*times[1:], times[0] + DAY_S]
    return len(times), min(later - earlier for earlier, later in zip(times, around, strict=True))


def next_cron(cron: str, zone_name: str, after: Instant) -> Instant | None:
    """Return the first fire strictly after an instant, if there ever is one."""
    try:
        return next(calendar_of(cron, zone_name).after(after), None)
    except ValueError:  # the zone is not known any more
        return None


def usual_check_minutes(trigger_type: str) -> int:
    return CHECK_MINUTES_PORTFOLIO if trigger_type == "portfolio" else CHECK_MINUTES


def check_minutes(definition: Definition) -> int:
    explicit = definition.schedule.check_interval_minutes
    return usual_check_minutes(definition.trigger_type) if explicit is None else explicit


def check_interval(definition: Definition) -> int:
    """Return, in microseconds, the pause before a check without a result is repeated."""
    return check_minutes(definition) * MINUTE


def first_check(definition: Definition, now: Instant) -> Instant | None:
    """Return the first check of an intent that was just made, changed or enabled: a condition is checked at once."""
    if definition.is_condition_based:
        return now
    if definition.trigger_type == "once":
        return definition.schedule.trigger_at
    return check_after_success(definition, now)


def check_after_success(definition: Definition, now: Instant) -> Instant | None:
    schedule = definition.schedule
    match definition.trigger_type:
        case "cron":
            return next_cron(schedule.cron or "", schedule.timezone, now)
        case "interval":
            return now + (schedule.interval_minutes or 0) * MINUTE
        case "once":
            return None
        case _:
            return now + check_interval(definition)


def check_after_failure(failure_count: int, policy: IntentsPolicy, now: Instant) -> Instant:
    """Return the check after so many failures in a row, this one included."""
    # Bounded, since something may fail for years and the number would grow with every time.
    doubled = policy.retry_minutes << min(failure_count - 1, 20)
    return now + min(doubled, policy.retry_minutes_max) * MINUTE


def check_after_source(count: int, policy: IntentsPolicy, now: Instant) -> Instant:
    """Return when a source that could not be asked `count` times in a row is asked again."""
    doubled = policy.source_retry_minutes << min(count - 1, 20)
    return now + min(doubled, policy.source_retry_minutes_max) * MINUTE


def next_checks(definition: Definition, now: Instant, count: int) -> list[Instant]:
    """Return the checks to come: by the clock, if every check succeeds; of a condition, while it is not met."""
    checks: list[Instant] = []
    # Checks of a condition that is not met are no executions, so there may be any number.
    if definition.max_executions is not None and not definition.is_condition_based:
        count = min(count, definition.max_executions)
    at = first_check(definition, now)
    while at is not None and len(checks) < count:
        if definition.expires_at is not None and at >= definition.expires_at:
            break
        checks.append(at)
        at = check_after_success(definition, at)
    return checks
