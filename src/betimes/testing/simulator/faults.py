"""What may go wrong in a run, and how often; drawn anew for every seed.

Each kind of fault is left out of about half of the runs, because faults hide each other: a system that is never
available never shows what it does when a commit is cut off.
"""

from __future__ import annotations

from random import Random

import msgspec

CRASHES = ("crash_before_commit", "crash_after_commit", "crash_during_commit")
UNKNOWNS = ("unknown_written", "unknown_not_written", "unknown_written_later", "unknown_given_up_later")


class Faults(msgspec.Struct, frozen=True):
    """Chances per commit, per call of the store, per second of a worker's life, or per decision."""

    crash: float = 0.0
    """Per commit: the worker dies before it reaches the store, after it was written, or while it is under way."""
    unknown: float = 0.0
    """Per commit: its outcome is not told."""
    conflict: float = 0.0
    """Per commit: refused as conflicting though nothing conflicts."""
    unavailable: float = 0.0
    """Per call of the store."""
    answer_lost: float = 0.0
    """Per call that writes outside a batch: done, and not told."""
    session_ended: float = 0.0
    """Per commit: the server has ended the transaction; its locks are gone and the commit is refused."""
    locks_lost: float = 0.0
    """Per commit: the locks are gone and nobody knows; only the comparison of versions is left."""
    slow: float = 0.0
    """Per call of the store."""
    stop: float = 0.0
    """Per second: the worker is stopped for a while, then goes on as if nothing had happened."""
    kill: float = 0.0
    """Per second."""
    close: float = 0.0
    """Per second: the worker is closed as for a new release."""
    flaky: float = 0.0
    """Per decision: the decider raises."""
    fail: float = 0.0
    """Per call of an executor: it raises."""
    sluggish: float = 0.0
    """Per call of an executor: it takes longer than its lease."""
    skew_s: float = 0.0
    """How far a worker's clock may be off."""
    hang_up: float = 0.0
    """Per request: the client does not wait for the answer."""

    @classmethod
    def drawn(cls, random: Random) -> Faults:
        return cls(
            crash=_maybe(random, 0.01, 0.08),
            unknown=_maybe(random, 0.02, 0.15),
            conflict=_maybe(random, 0.02, 0.2),
            unavailable=_maybe(random, 0.01, 0.08),
            answer_lost=_maybe(random, 0.02, 0.2),
            session_ended=_maybe(random, 0.02, 0.1),
            locks_lost=_maybe(random, 0.05, 0.3),
            slow=_maybe(random, 0.02, 0.2),
            stop=_maybe(random, 0.01, 0.05),
            kill=_maybe(random, 0.01, 0.03),
            close=_maybe(random, 0.005, 0.02),
            flaky=_maybe(random, 0.05, 0.4),
            fail=_maybe(random, 0.1, 0.5),
            sluggish=_maybe(random, 0.05, 0.3),
            skew_s=_maybe(random, 0.01, 5.0),
            hang_up=_maybe(random, 0.02, 0.2),
        )


NO_FAULTS = Faults()


def _maybe(random: Random, low: float, high: float) -> float:
    return random.uniform(low, high) if random.random() < 0.5 else 0.0
