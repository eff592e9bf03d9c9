"""Commands by the thousand from a seed: the same seed gives the same commands under the same keys."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.testing.sample import Knock, Open, Shut
from betimes.testing.sample.model import GateCommands
from tests.crash.journal import Asked


class Workload(msgspec.Struct, frozen=True):
    """How much of what; `shared` keys are used by every process, each for the same command."""

    seed: int = 0
    commands: int = 1_000_000
    at_once: int = 4
    tenants: int = 2
    gates: int = 100
    shared: int = 400
    pause_s: float = 0.0
    """Rest between commands, so that other processes of a test get their share of the machine."""

    def errands(self, name: str) -> Iterator[Asked]:
        """A bounded run of commands, each with its key."""
        dice = Random(f"{self.seed}/{name}")
        for number in range(self.commands):
            if self.shared and dice.random() < 0.15:
                yield self._errand(f"shared-{dice.randrange(self.shared)}")
            else:
                yield self._errand(f"{name}-{number}")

    def _errand(self, key: str) -> Asked:
        """What is asked under a key depends on the key alone; every visitor knocks once."""
        dice = Random(f"{self.seed}/{key}")
        tenant, gate = f"tenant{dice.randrange(self.tenants)}", f"gate{dice.randrange(self.gates)}"
        return Asked(key, tenant, gate, _command(dice, key))


def _command(dice: Random, key: str) -> GateCommands:
    chance = dice.random()
    if chance < 0.02:
        return Shut()
    return Open() if chance < 0.06 else Knock(key)


def submission(asked: Asked, actor: str) -> Submission:
    stream = StreamId(asked.tenant, "gate", asked.gate)
    return Submission(stream=stream, command=asked.command, key=asked.key, actor=actor)
