"""Running seeds: one seed is one run, always the same."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from betimes.core.canonical import encode
from betimes.testing.simulator.bugs import planted
from betimes.testing.simulator.gates import GATES
from betimes.testing.simulator.invariants import INVARIANTS
from betimes.testing.simulator.loop import Deadlock, Endless
from betimes.testing.simulator.workload import Workload
from betimes.testing.simulator.world import World


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run. `digest` covers the whole ledger: equal seeds have equal digests."""

    seed: int
    workload: str
    findings: tuple[str, ...]
    digest: str
    trace: tuple[str, ...] = ()
    bug: str | None = None

    @property
    def is_sound(self) -> bool:
        return not self.findings

    @property
    def rerun(self) -> str:
        """The line that runs it again."""
        bug = f" --bug {self.bug}" if self.bug else ""
        return f"python -m betimes.testing.simulator --seed {self.seed}{bug} --verbose"

    def __str__(self) -> str:
        head = f"seed {self.seed} of {self.workload}: {len(self.findings) or 'no'} findings; again: {self.rerun}"
        return "\n  ".join([head, *self.findings])


class Unsound(AssertionError):
    """A run broke an invariant; the message names the seed, what was found, and the line that runs it again."""


def simulate(seed: int, workload: Workload = GATES, *, verbose: bool = False, bug: str | None = None) -> Outcome:
    """Run one seed and hold what happened against every invariant; `bug` names what was planted."""
    world = World(seed, workload, verbose=verbose)
    try:
        findings, digest = world.loop.run(_played(world))
    except (Deadlock, Endless) as error:
        findings, digest = [f"{type(error).__name__}: {error}"], ""
    except Exception as error:
        error.add_note(f"in seed {seed} of {workload.name}" + (f" with the bug {bug}" if bug else ""))
        raise
    return Outcome(seed, workload.name, tuple(findings), digest, tuple(world.trace), bug)


async def _played(world: World) -> tuple[list[str], str]:
    await world.play()
    checks = [*INVARIANTS, world.workload.check]
    return [*world.findings, *(finding for check in checks for finding in check(world))], ledger_digest(world)


def ledger_digest(world: World) -> str:
    """One name for the ledger, the rows and the keys as they are."""
    database = world.server.database
    tables = (database.segments, sorted(database.rows.items()), sorted(database.keys.items()))
    return sha256(encode(tables).encode()).hexdigest()


def demand_sound(seeds: range, workload: Workload = GATES) -> None:
    """Run the seeds; `Unsound` with every failing one, if any fails."""
    unsound = [outcome for seed in seeds if not (outcome := simulate(seed, workload)).is_sound]
    if unsound:
        raise Unsound("\n".join(map(str, unsound)))


def first_noticed(bug: str, seeds: range, workload: Workload = GATES) -> Outcome | None:
    """Plant a bug and run seeds until one shows it."""
    with planted(bug):
        for seed in seeds:
            outcome = simulate(seed, workload, bug=bug)
            if not outcome.is_sound:
                return outcome
    return None
