"""After the worst: a clean process finishes what is due, asks everything again, and the books are compared.

The journals say what was promised, the ledger what happened. `reconcile` holds one against the other and both against
an oracle of its own, which knows the rules of the gates but none of the engine's code paths.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from betimes.core.deciders import EffectCall, Settled
from betimes.core.errors import BetimesError, Refused
from betimes.core.instants import HOUR, SECOND, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.engine import Engine
from betimes.engine.replay import verify
from betimes.engine.store import PAGE_MAX, EffectQuery, LedgerQuery
from betimes.testing.sample.model import Admitted, Counted, GateEvents, Knock, SlotTaken, WasOpened, WasShut
from tests.crash.journal import Answered, Asked, Called, Journal, Journals, verdict_text
from tests.crash.scene import Place, Rules, engine_on
from tests.crash.workload import submission

ASK_AT_ONCE = 200
SOON = 3 * SECOND
"""Alarms and leases that end within this are waited for."""
PASSES_MAX = 200


class Outcome(msgspec.Struct):
    """What a test may still want to know."""

    segments: list[Segment] = []
    admissions: int = 0
    abandoned: int = 0
    answered: int = 0
    unanswered: int = 0
    """Intents without an answer in any journal."""


async def reconcile(place: Place, folder: Path, rules: Rules) -> Outcome:
    """Finish, ask again, compare. Raises with everything that is wrong."""
    journal = Journal(folder, "clean")
    try:
        async with engine_on(
            place.store(), rules, "clean", lambda call: _greet(journal, call), lambda _: None
        ) as engine:
            await finish(engine)
            wrong = await _ask_again(engine, folder)
            await finish(engine)
            outcome, more = await _compare(engine, folder, rules)
    finally:
        journal.close()
    problems = [*wrong, *more]
    assert not problems, f"{len(problems)} problems, the first of them:\n" + "\n".join(problems[:20])
    return outcome


async def _greet(journal: Journal, call: EffectCall) -> None:
    journal.write(Called.of(call.id))


async def finish(engine: Engine) -> None:
    """Work off everything that is due or soon will be."""
    for _ in range(PASSES_MAX):
        result = await engine.tick(limit=10_000)
        next_at = result.next_due_at
        if result.complete and (next_at is None or next_at > result.now + SOON):
            return
        if next_at is not None:
            await asyncio.sleep(max(next_at - result.now, 0) / SECOND)
    raise AssertionError(f"there is still something due after {PASSES_MAX} passes: {await engine.backlog()}")


# -- asking again


async def _ask_again(engine: Engine, folder: Path) -> list[str]:
    """Every key once more: whoever was answered gets the same answer, whoever was not gets one, and keeps it."""
    journals = Journals(folder)
    known = _by_key(engine, await _ledger(engine))
    promised: dict[tuple[str, str], Answered] = {}
    problems = []
    for answer in journals.of(Answered):
        first = promised.setdefault((answer.tenant, answer.key), answer)
        if not answer.agrees_with(first):
            problems.append(f"one key, two answers: {first} and {answer}")
    asked = {(line.tenant, line.key): line for line in journals.of(Asked)}
    errands = list(asked.items())
    for start in range(0, len(errands), ASK_AT_ONCE):
        found = await asyncio.gather(
            *(
                _ask_twice(engine, line, promised.get(name), known.get(name))
                for name, line in errands[start:][:ASK_AT_ONCE]
            )
        )
        problems += [problem for problems_of_one in found for problem in problems_of_one]
    return problems


async def _ask_twice(engine: Engine, line: Asked, promised: Answered | None, known: Answered | None) -> list[str]:
    problems = []
    if promised and not (known and promised.agrees_with(known)):
        problems.append(f"acknowledged and lost: {promised}; on the ledger: {known}")
    try:
        first, second = [Answered.of(line.key, await engine.submit(submission(line, "clean"))) for _ in range(2)]
    except BetimesError as error:
        free = isinstance(error, Refused) and not known
        return (
            problems if free else [*problems, f"cannot be asked again: {line.key}: {error!r}; on the ledger: {known}"]
        )
    if known and not (first.replayed and first.agrees_with(known)):
        problems.append(f"decided twice: {known}, then {first}")
    if not (second.replayed and second.agrees_with(first)):
        problems.append(f"asked again, answered otherwise: {first}, then {second}")
    return problems


# -- the books


async def _compare(engine: Engine, folder: Path, rules: Rules) -> tuple[Outcome, list[str]]:
    segments = await _ledger(engine)
    journals = Journals(folder)
    admitted = dict(_admissions(engine, segments))
    answered = {(line.tenant, line.key) for line in journals.of(Answered)}
    settled = list(_settled(engine, segments))
    outcome = Outcome(
        segments,
        sum(map(len, admitted.values())),
        sum(command.status == "abandoned" for _, command in settled),
        len(answered),
        len({(line.tenant, line.key) for line in journals.of(Asked)} - answered),
    )
    problems = [
        *_keys_used_twice(segments),
        *_out_of_order(segments),
        *against_the_rules(admitted, rules),
        *_admitted_while_shut(engine, segments),
        *_strangers(admitted, journals),
        *_miscounted(engine, segments, admitted, rules),
        *_called_twice(journals),
        *_unsettled(settled, admitted, journals, rules),
        *await _left_over(engine),
        *(str(finding) for finding in (await verify(engine.store, engine.kinds)).findings),
    ]
    return outcome, problems


async def _ledger(engine: Engine) -> list[Segment]:
    segments: list[Segment] = []
    while page := await engine.store.ledger(LedgerQuery(after=segments[-1].seq if segments else 0, limit=PAGE_MAX)):
        segments += page
    return segments


def _by_key(engine: Engine, segments: list[Segment]) -> dict[tuple[str, str], Answered]:
    found = {}
    for segment in segments:
        if segment.key:
            recorded = engine.kinds.of(segment.stream).recorded(segment)
            answer = Answered(segment.key.key, segment.key.tenant, recorded.segment_id, verdict_text(recorded), True)
            found[segment.key.tenant, segment.key.key] = answer
    return found


def _keys_used_twice(segments: list[Segment]) -> Iterator[str]:
    used = Counter(segment.key for segment in segments if segment.key)
    return (f"{key} led to {times} segments" for key, times in used.items() if times > 1)


def _out_of_order(segments: list[Segment]) -> Iterator[str]:
    """A stream's segments are numbered without gaps, and their instants never go back."""
    ordered = sorted(segments, key=lambda segment: (segment.stream, segment.version))
    for before, after in pairwise(ordered):
        if before.stream == after.stream and (after.version != before.version + 1 or after.at < before.at):
            yield f"{after.handle} at {after.at} follows {before.handle} at {before.at}"


Admissions = dict[StreamId, list[tuple[Instant, str]]]


def _admissions(engine: Engine, segments: list[Segment]) -> Admissions:
    found: Admissions = defaultdict(list)
    for segment in segments:
        for event in _events(engine, segment):
            if isinstance(event, Admitted):
                found[segment.stream].append((event.at, event.visitor))
    return found


def _events(engine: Engine, segment: Segment) -> tuple[GateEvents | Counted | SlotTaken | msgspec.Struct, ...]:
    return engine.kinds.of(segment.stream).events(segment)


def against_the_rules(admitted: Admissions, rules: Rules) -> Iterator[str]:
    """Cooldown and caps, computed from the instants alone."""
    policy = rules.gates
    of_tenant: dict[str, list[Instant]] = defaultdict(list)
    for gate, admissions in admitted.items():
        instants = sorted(at for at, _ in admissions)
        of_tenant[gate.tenant] += instants
        close = [at for before, at in pairwise(instants) if at - before < policy.cooldown_s * SECOND]
        yield from (f"{gate} admitted within its cooldown at {at}" for at in close)
        if (most := _most_in_an_hour(instants)) > policy.per_hour:
            yield f"{gate} admitted {most} in an hour, at most {policy.per_hour} may be"
    if policy.tenant_per_hour is not None:
        for tenant, instants in of_tenant.items():
            if (most := _most_in_an_hour(instants)) > policy.tenant_per_hour:
                yield f"{tenant} admitted {most} in an hour, at most {policy.tenant_per_hour} may be"


def _most_in_an_hour(instants: list[Instant]) -> int:
    """In any window `(last - 1 h, last]`."""
    ordered = sorted(instants)
    counts = (place + 1 - bisect_right(ordered, last - HOUR) for place, last in enumerate(ordered))
    return max(counts, default=0)


def _admitted_while_shut(engine: Engine, segments: list[Segment]) -> Iterator[str]:
    shut: set[StreamId] = set()
    for segment in sorted(segments, key=lambda segment: (segment.stream, segment.version)):
        for event in _events(engine, segment):
            match event:
                case WasShut():
                    shut.add(segment.stream)
                case WasOpened():
                    shut.discard(segment.stream)
                case Admitted() if segment.stream in shut:
                    yield f"{segment.handle} admitted while shut"


def _strangers(admitted: Admissions, journals: Journals) -> Iterator[str]:
    """Every visitor knocked, and came in at most once."""
    knocked = {(line.tenant, line.command.visitor) for line in journals.of(Asked) if isinstance(line.command, Knock)}
    came_in = Counter((gate.tenant, visitor) for gate, admissions in admitted.items() for _, visitor in admissions)
    yield from (f"{visitor} was admitted {times} times" for visitor, times in came_in.items() if times > 1)
    yield from (f"{visitor} was admitted and never knocked" for visitor in came_in.keys() - knocked)


def _miscounted(engine: Engine, segments: list[Segment], admitted: Admissions, rules: Rules) -> Iterator[str]:
    """The tally and the quota hold every admission exactly once."""
    came_in = Counter((gate.tenant, visitor) for gate, admissions in admitted.items() for _, visitor in admissions)
    counted = Counter(
        (segment.stream.tenant, event.visitor)
        for segment in segments
        for event in _events(engine, segment)
        if isinstance(event, Counted)
    )
    if rules.gates.tally and counted != came_in:
        yield f"not counted: {list(came_in - counted)[:5]}; counted too often: {list(counted - came_in)[:5]}"
    taken = sum(isinstance(event, SlotTaken) for segment in segments for event in _events(engine, segment))
    if rules.gates.tenant_per_hour is not None and taken != came_in.total():
        yield f"{taken} slots of the quota were taken for {came_in.total()} admissions"


def _called_twice(journals: Journals) -> Iterator[str]:
    return (f"{call} was made {times} times" for call, times in Counter(journals.of(Called)).items() if times > 1)


def _settled(engine: Engine, segments: list[Segment]) -> Iterator[tuple[StreamId, Settled]]:
    for segment in segments:
        if segment.command and segment.stream.kind == "gate":
            command = engine.kinds.of(segment.stream).command(segment.command, segment.handle)
            if isinstance(command, Settled):
                yield segment.stream, command


def _unsettled(
    settled: list[tuple[StreamId, Settled]], admitted: Admissions, journals: Journals, rules: Rules
) -> Iterator[str]:
    """Every call has one end on the ledger, and `done` only if it was made."""
    if not rules.gates.greet:
        return
    ends = Counter((stream.tenant, command.effect) for stream, command in settled)
    yield from (f"{effect} ended {times} times" for effect, times in ends.items() if times > 1)
    owed = sum(map(len, admitted.values()))
    if len(ends) != owed:
        yield f"{len(ends)} calls ended, {owed} were owed"
    made = {(call.tenant, call.effect) for call in journals.of(Called)}
    done = {(stream.tenant, command.effect) for stream, command in settled if command.status == "done"}
    yield from (f"{effect} is done and was never made" for effect in done - made)


async def _left_over(engine: Engine) -> list[str]:
    backlog = await engine.backlog()
    left = [f"left over: {backlog}"] if backlog.alarms_due or backlog.effects_pending or backlog.effects_dead else []
    leased = await engine.store.effects(EffectQuery(status="leased"))
    return [*left, *(f"still leased: {effect}" for effect in leased)]
