"""The simulator: whole histories of several workers, clients and a failing database, from one number.

    outcome = simulate(1234)
    assert outcome.is_sound, str(outcome)

A run is a seed. The seed gives the order in which everything happens, the faults and the work, and nothing else has a
say, so a failing seed fails again: `python -m betimes.testing.simulator --seed 1234 --verbose`. Engines run unchanged,
on an event loop with its own time (`loop`), each in a process that can be killed, stopped and closed (`worker`), over a
database server that outlives them (`server`, `connection`). While clients act, commits are cut off, refused and lost,
locks vanish, clocks are wrong, executors outlive their leases (`faults`); then nothing goes wrong any more and
everything owed must come to its end. `invariants` says what must hold after any run of any domain; `bugs` breaks the
system on purpose, to show that it would be noticed.

**Your own deciders.** Describe them as a `Workload` and pass it to `simulate`:

    def clients(world):
        yield knocks(world)                                  # coroutines; the run's faults last until all have ended

    async def knocks(world):
        for number in range(10):
            await world.pause(2.0)                           # virtual seconds, on average
            await world.insist(Submission(stream=..., command=..., key=f"errand {number}"))

    def check(world):                                        # your oracle: a sentence for everything that is wrong
        for segment in world.server.database.segments:
            ...

    DOORS = Workload(name="doors", deciders=(DOOR,), sections={"doors": DoorPolicy}, clients=clients, check=check,
                     executors={"handler:ring": ring})
    outcome = simulate(7, DOORS)

`world.ask` sends a command once, `world.insist` until it is answered, always under the same key. Draw whatever a client
does from `world.random`. Deciders are made to raise on the commands in `Workload.fails_on`. `gates` does all of this
for the sample domain.
"""

from betimes.testing.simulator.bugs import BUGS, planted
from betimes.testing.simulator.faults import Faults
from betimes.testing.simulator.gates import GATES
from betimes.testing.simulator.loop import Deadlock, SeededLoop
from betimes.testing.simulator.runner import Outcome, Unsound, simulate
from betimes.testing.simulator.workload import Workload
from betimes.testing.simulator.world import World

__all__ = [
    "BUGS",
    "GATES",
    "Deadlock",
    "Faults",
    "Outcome",
    "SeededLoop",
    "Unsound",
    "Workload",
    "World",
    "planted",
    "simulate",
]
