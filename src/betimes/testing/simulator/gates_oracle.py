"""What must hold at gates, read from the events alone: none of the doorkeeper's rules or folds is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from betimes.core.errors import Refused
from betimes.core.instants import HOUR, SECOND, Instant
from betimes.core.segments import Segment
from betimes.core.streams import StreamId
from betimes.engine.store import SEND
from betimes.testing.simulator.invariants import command_name, events_of

if TYPE_CHECKING:
    from betimes.testing.simulator.world import World


class Admission(NamedTuple):
    """An admission, with the segment it is in and the orders it was decided under."""

    visitor: str
    at: Instant
    segment: Segment
    orders: dict[str, Any]


def check_gates(world: World) -> Iterator[str]:
    orders = {name: msgspec.json.decode(body)["gates"] for name, body in world.server.database.policies.items()}
    admissions: list[Admission] = []
    gates = {stream: h for stream, h in sorted(world.server.database.histories.items()) if stream.kind == "gate"}
    lawless = [segment for history in gates.values() for segment in history if segment.policy not in orders]
    if lawless:
        yield from (f"{segment.handle} was decided under orders that are not kept" for segment in lawless)
        return
    for stream, history in gates.items():
        admitted = list(_admissions(history, orders))
        admissions += admitted
        yield from _cooldowns(stream, admitted)
        yield from _caps(stream, admitted)
        yield from _waiting(stream, history)
    yield from _one_errand_each(world)
    yield from _quotas(world, admissions)
    yield from _tallies(world, admissions)
    yield from _effects(world, admissions)
    yield from _refusals(world)


def _admissions(history: list[Segment], orders: dict[str, Any]) -> Iterator[Admission]:
    for segment in history:
        for event in events_of(segment):
            if event["type"] == "Admitted":
                yield Admission(event["visitor"], event["at"], segment, orders[segment.policy])


def _cooldowns(stream: StreamId, admitted: list[Admission]) -> Iterator[str]:
    for place, admission in enumerate(admitted[1:], start=1):
        needed = admission.orders["cooldown_s"] * SECOND
        if admission.at - admitted[place - 1].at < needed:
            yield f"{admission.visitor} was let in at {stream} within the cooldown"


def _caps(stream: StreamId, admitted: list[Admission]) -> Iterator[str]:
    for place, admission in enumerate(admitted):
        before = sum(admission.at - earlier.at < HOUR for earlier in admitted[:place])
        if before >= admission.orders["per_hour"]:
            yield f"{admission.visitor} was let in at {stream} as one too many in an hour"


def _waiting(stream: StreamId, history: list[Segment]) -> Iterator[str]:
    """Whoever was asked to wait is judged once, and not before the time, unless the gate is shut."""
    waiting: dict[str, Instant] = {}
    for segment in history:
        woken = command_name(segment) == "Wake"
        for event in events_of(segment):
            visitor = event.get("visitor", "")
            match event["type"]:
                case "Postponed":
                    waiting[visitor] = event["until_at"]
                case "Admitted" | "TurnedAway" if visitor in waiting:
                    until_at = waiting.pop(visitor)
                    if segment.at < until_at and event.get("reason") != "SHUT":
                        yield f"{visitor} was judged at {stream} before the time"
                case "Admitted" | "TurnedAway" if woken:
                    yield f"{visitor} was judged at {stream} without waiting"
    for visitor in waiting:
        yield f"{visitor} still waits at {stream}"


def _one_errand_each(world: World) -> Iterator[str]:
    """A visitor's knock is on one ledger once, whatever was lost or sent again."""
    knocks = Counter(
        (segment.stream.tenant, msgspec.json.decode(segment.command or "")["visitor"])
        for segment in world.server.database.segments
        if segment.stream.kind == "gate" and command_name(segment) == "Knock"
    )
    for (tenant, visitor), count in knocks.items():
        if count > 1:
            yield f"the knock of {visitor} at {tenant} is on the ledger {count} times"


def _quotas(world: World, admissions: list[Admission]) -> Iterator[str]:
    """Under a common limit each admission takes a slot in its own turn, and there never is one too many."""
    database = world.server.database
    slots = {segment.turn: segment for segment in database.segments if segment.stream.kind == "quota"}
    for admission in admissions:
        limited = admission.orders["tenant_per_hour"] is not None
        slot = slots.get(admission.segment.turn)
        if limited and (slot is None or admission.at not in [event["at"] for event in events_of(slot)]):
            yield f"{admission.visitor} was let in without a slot of the tenant's"
    for stream, history in database.histories.items():
        if stream.kind == "quota":
            yield from _slots(world, stream, history)


def _slots(world: World, stream: StreamId, history: list[Segment]) -> Iterator[str]:
    taken = [(event["at"], segment.policy) for segment in history for event in events_of(segment)]
    for place, (at, policy) in enumerate(taken):
        cap = msgspec.json.decode(world.server.database.policies[policy])["gates"]["tenant_per_hour"]
        if cap is not None and sum(at - earlier < HOUR for earlier, _ in taken[:place]) >= cap:
            yield f"a slot of {stream} was taken as one too many in an hour"


def _tallies(world: World, admissions: list[Admission]) -> Iterator[str]:
    """Each admission that is to be counted was counted once."""
    expected = Counter((a.segment.stream.tenant, a.visitor) for a in admissions if a.orders["tally"])
    counted = Counter(
        (stream.tenant, event["visitor"])
        for stream, history in world.server.database.histories.items()
        if stream.kind == "tally"
        for segment in history
        for event in events_of(segment)
    )
    for (tenant, visitor), count in (expected - counted).items():
        yield f"{visitor} was let in at {tenant} and counted {count} times too few"
    for (tenant, visitor), count in (counted - expected).items():
        yield f"{visitor} was counted at {tenant} {count} times too often"


def _effects(world: World, admissions: list[Admission]) -> Iterator[str]:
    """Each admission asked for exactly the calls its orders name."""
    asked = Counter(
        (effect.id.source, effect.executor, msgspec.json.decode(effect.payload)["visitor"])
        for effect in (held.write for held in world.server.database.effects.values())
        if effect.executor != SEND
    )
    expected = Counter(
        (admission.segment.stream, f"handler:{name}", admission.visitor)
        for admission in admissions
        for name in ("greet", "announce")
        if admission.orders[name]
    )
    for stream, executor, visitor in expected - asked:
        yield f"{visitor} was let in at {stream} without {executor}"
    for stream, executor, visitor in asked - expected:
        yield f"{visitor} was let in at {stream} with {executor} that nobody ordered"


def _refusals(world: World) -> Iterator[str]:
    """Whoever was told that a gate is shut, or open, was told so of a moment between the question and the answer."""
    for attempt in world.attempts:
        if isinstance(attempt.outcome, Refused):
            stream = attempt.submission.stream
            history = world.server.database.histories.get(stream, [])
            was_shut = attempt.outcome.reason == "ALREADY_SHUT"
            if was_shut not in _shut_between(history, attempt.asked_seq, attempt.answered_seq):
                yield f"a{attempt.number} was told that {stream} is {'shut' if was_shut else 'open'}, and it was not"


def _shut_between(history: list[Segment], from_seq: int, to_seq: int) -> set[bool]:
    """Whether a gate was shut, at any moment from one place in the ledger to another."""
    shut, seen = False, set()
    for segment in history:
        if segment.seq > from_seq:
            seen.add(shut)
        if segment.seq > to_seq:
            return seen
        for event in events_of(segment):
            shut = event["type"] == "WasShut" or (shut and event["type"] != "WasOpened")
    return seen | {shut}
