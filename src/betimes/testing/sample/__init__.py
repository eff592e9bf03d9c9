"""A small domain of realistic cost, for tests, benchmarks and as an example: a gate with a doorkeeper.

Visitors knock at gates. A gate admits one visitor at a time: not while it is closed, not within the cooldown after the
last, not more than its cap in any hour, and, if the policy says so, not more than all gates of the tenant may in an
hour (a shared `quota` stream). Whoever must wait is judged once more when the alarm rings and is turned away if it
still cannot be. Every admission may call a handler, at most once, and is counted by a `tally` stream, exactly once.
"""

from betimes.testing.sample.decide import GATE, QUOTA, SAMPLE, TALLY
from betimes.testing.sample.model import Count, GateState, Knock, Open, QuotaState, Shut, TallyState
from betimes.testing.sample.policy import GatePolicy

SECTIONS = {"gates": GatePolicy}

__all__ = [
    "GATE",
    "QUOTA",
    "SAMPLE",
    "SECTIONS",
    "TALLY",
    "Count",
    "GatePolicy",
    "GateState",
    "Knock",
    "Open",
    "QuotaState",
    "Shut",
    "TallyState",
]
