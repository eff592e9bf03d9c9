"""The arithmetic of decay, all of it: how much is lost by when, and when so much will be lost.

`loss_after(terms, x)` is D: the loss of a neglected score `x` microseconds after its grace ended. It is the rate times
the time, at most the daily cap within each 24 hours from the grace end, rounded down once to whole micro-points. A
sweep takes `D(b) - D(a)`, so it does not matter how often scores are swept: nothing is rounded per sweep.
`time_to_lose` is its inverse. The cap per cycle and the floor are applied by `debt_until`, on top.

Whole numbers throughout: micro-points, microseconds, micro-points per hour. Nothing here knows a state or a policy.
"""

from __future__ import annotations

import msgspec

from betimes.core.instants import DAY, HOUR, Instant
from betimes.scores.amounts import Micro


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The terms on which a score fades in one stage."""

    grace_us: int
    rate: Micro
    """Per hour."""
    daily_cap: Micro
    cycle_cap: Micro

    @property
    def per_day(self) -> Micro:
        """The loss of a whole day."""
        return min(self.daily_cap, 24 * self.rate)


def loss_after(terms: Terms, x: int) -> Micro:
    """Return D(x): the loss `x` microseconds after the grace end; nothing before it."""
    if x <= 0:
        return 0
    cap, rate = terms.daily_cap, terms.rate
    if x < DAY:
        part = rate * x // HOUR
        return part if part < cap else cap
    # Days are counted from the end of the grace, so each has its cap to the full.
    days, rest = divmod(x, DAY)
    part = rate * rest // HOUR
    return days * terms.per_day + (part if part < cap else cap)


def time_to_lose(terms: Terms, amount: Micro) -> int | None:
    """Return the time after the grace end at which `amount` (at least 1) is first lost; `None` if never."""
    per_day = terms.per_day
    if per_day == 0:
        return None
    # One less, since an amount that is a whole number of days is lost within the last of them.
    days = (amount - 1) // per_day
    # Rounded up: at the instant itself the amount has been lost, one microsecond before it has not.
    return days * DAY + -(-(amount - days * per_day) * HOUR // terms.rate)


class Debt(msgspec.Struct, frozen=True, gc=False):
    """The debt of one cycle: its period, the amount to take, and what the cap per cycle forgives."""

    from_at: Instant
    to_at: Instant
    grace_ends_at: Instant
    amount: Micro
    forgiven: Micro = 0


def debt_until(terms: Terms, base_at: Instant, applied_at: Instant | None, until_at: Instant, score: Micro) -> Debt:
    """Return the debt until an instant of a score last tended at `base_at` and last decayed up to `applied_at`."""
    grace_ends_at = base_at + terms.grace_us
    from_at = grace_ends_at if applied_at is None or applied_at < grace_ends_at else applied_at
    if until_at <= from_at:
        return Debt(from_at, from_at, grace_ends_at, 0)
    # A difference of totals: what rounding leaves out of one sweep comes with the next, however many there are.
    due = loss_after(terms, until_at - grace_ends_at) - loss_after(terms, from_at - grace_ends_at)
    cap = terms.cycle_cap
    taken = due if due < cap else cap
    return Debt(from_at, until_at, grace_ends_at, taken if taken < score else score, due - taken)


def next_loss_at(terms: Terms, base_at: Instant, applied_at: Instant | None) -> Instant | None:
    """Return the first instant at which a sweep finds something to take; `None` if there is never any."""
    grace_ends_at = base_at + terms.grace_us
    so_far = 0 if applied_at is None else loss_after(terms, applied_at - grace_ends_at)
    after_us = time_to_lose(terms, so_far + 1)
    return None if after_us is None else grace_ends_at + after_us


def falls_to_at(
    terms: Terms, base_at: Instant, applied_at: Instant | None, score: Micro, level: Micro, now: Instant
) -> Instant | None:
    """Return when the score is first at or under the level if nothing happens and sweeps come often from now on.

    The debt until now is one cycle, with its cap; after that no cycle's cap binds.
    """
    until_now = debt_until(terms, base_at, applied_at, now, score)
    grace_ends_at, start_at, needed = until_now.grace_ends_at, until_now.from_at, score - level
    if until_now.amount < needed:
        start_at, needed = max(start_at, now), needed - until_now.amount
    after_us = time_to_lose(terms, loss_after(terms, start_at - grace_ends_at) + needed)
    return None if after_us is None else grace_ends_at + after_us
