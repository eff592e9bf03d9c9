"""A domain of one's own in the simulator, as its documentation says."""

from collections.abc import Coroutine, Iterator
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import Decider, Decision
from betimes.core.segments import Recorded
from betimes.core.streams import StreamId
from betimes.engine.jobs import Submission
from betimes.testing.sample import TALLY, Count
from betimes.testing.simulator import Workload, World, simulate

ALL = StreamId("acme", "tally", "all")
SEEDS = range(25)


async def counts(world: World, name: str) -> None:
    for number in range(6):
        await world.pause(2.0)
        await world.insist(Submission(stream=ALL, command=Count(name), key=f"{name}.{number}"))


def clients(world: World) -> Iterator[Coroutine[Any, Any, None]]:
    yield counts(world, "ann")
    yield counts(world, "bob")


def check(world: World) -> Iterator[str]:
    answered = {attempt.submission.key for attempt in world.attempts if isinstance(attempt.outcome, Recorded)}
    row = world.server.database.rows[ALL]
    if row.state != f'{{"count":{row.version}}}' or row.version < len(answered):
        yield f"{len(answered)} were answered and the state is {row.state} at version {row.version}"


def workload(decider: Decider[Any]) -> Workload:
    return Workload(name="counts", deciders=(decider,), clients=clients, check=check)


def test_a_sound_domain_is_found_sound() -> None:
    findings = [finding for seed in SEEDS for finding in simulate(seed, workload(TALLY)).findings]
    assert findings == []


def test_a_domain_that_forgets_is_found_out() -> None:
    def forget(view: Any, command: Any, policy: Any, now: Any) -> Any:
        return Decision() if view.version == 3 else TALLY.decide(view, command, policy, now)

    findings = simulate(1, workload(replace(TALLY, decide=forget))).findings
    assert any("were answered and the state is" in finding for finding in findings)
