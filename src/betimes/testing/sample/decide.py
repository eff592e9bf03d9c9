"""The doorkeeper: an ordered table of rules, one retry, and what an admission causes."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core import windows
from betimes.core.deciders import Call, Decider, Decision, Effect, Event, Index, Refusal, Send, Settled, View, Wake
from betimes.core.instants import SECOND, Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable, Verdict
from betimes.testing.sample.model import (
    HOUR_S,
    Admitted,
    Count,
    Counted,
    GateCommands,
    GateEvents,
    GateState,
    Greeted,
    Knock,
    Open,
    Postponed,
    QuotaState,
    Shut,
    SlotTaken,
    TallyState,
    TurnedAway,
    Waiting,
    WasOpened,
    WasShut,
)
from betimes.testing.sample.policy import GatePolicy


class Case(msgspec.Struct, frozen=True, gc=False):
    """Everything a rule may look at."""

    gate: GateState
    quota: QuotaState
    policy: GatePolicy
    now: Instant


def _shut(case: Case) -> Finding:
    return Finding((case.gate.shut,), Hit("NEVER", "SHUT") if case.gate.shut else None)


def _cooldown(case: Case) -> Finding:
    last, limit = case.gate.last_admitted_at, case.policy.cooldown_s
    if last is None:
        return Finding((None, limit))
    ends_at = last + limit * SECOND
    return Finding(
        ((case.now - last) // SECOND, limit), Hit("LATER", "COOLDOWN", ends_at) if case.now < ends_at else None
    )


def _hourly_cap(case: Case) -> Finding:
    used, cap = windows.count(case.gate.admitted, case.now, HOUR_S), case.policy.per_hour
    if used < cap:
        return Finding((used, cap))
    return Finding((used, cap), Hit("LATER", "HOURLY_CAP", windows.free_at(case.gate.admitted, case.now, HOUR_S, cap)))


def _tenant_cap(case: Case) -> Finding:
    cap = case.policy.tenant_per_hour
    if cap is None:
        return Finding((None, None))
    used = windows.count(case.quota.taken, case.now, HOUR_S)
    if used < cap:
        return Finding((used, cap))
    return Finding((used, cap), Hit("LATER", "TENANT_CAP", windows.free_at(case.quota.taken, case.now, HOUR_S, cap)))


RULES: RuleTable[Case] = RuleTable(
    "gates",
    (
        Rule("shut", _shut, ("shut",), "the gate is shut: {shut}", "the gate is open"),
        Rule(
            "cooldown",
            _cooldown,
            ("elapsed_s", "limit_s"),
            "{elapsed_s} of a cooldown of {limit_s} have passed",
            "the last was admitted {elapsed_s} ago; the cooldown is {limit_s}",
            "nobody was admitted before",
        ),
        Rule(
            "hourly_cap",
            _hourly_cap,
            ("used", "cap"),
            "{used} of {cap} were admitted in the last hour",
            "{used} of {cap} were admitted in the last hour",
        ),
        Rule(
            "tenant_cap",
            _tenant_cap,
            ("used", "cap"),
            "{used} of {cap} were admitted at all gates in the last hour",
            "{used} of {cap} were admitted at all gates in the last hour",
            "there is no cap for all gates",
        ),
    ),
    otherwise=Hit("NOW", "WELCOME"),
)


def decide(
    view: View[GateState], command: GateCommands | Wake | Settled, policy: Policy, now: Instant
) -> Decision | Refusal:
    gate = view.state or GateState()
    match command:
        case Knock(visitor):
            return _knock(view, gate, visitor, policy[GatePolicy], now)
        case Wake():
            return _retry(view, gate, policy[GatePolicy], now)
        case Shut():
            gone = tuple(TurnedAway(w.visitor, "SHUT") for w in gate.waiting)
            return (
                Refusal("ALREADY_SHUT", f"{view.stream} is shut already") if gate.shut else Decision((WasShut(), *gone))
            )
        case Open():
            return Decision((WasOpened(),)) if gate.shut else Refusal("NOT_SHUT", f"{view.stream} is open already")
        case Settled(status=status):
            return Decision((Greeted(status),))


def _judge(view: View[GateState], gate: GateState, policy: GatePolicy, now: Instant) -> Verdict:
    quota = view.others.get(quota_of(view.stream)) or QuotaState()
    return RULES.judge(Case(gate, quota, policy, now))


def _knock(view: View[GateState], gate: GateState, visitor: str, policy: GatePolicy, now: Instant) -> Decision:
    verdict = _judge(view, gate, policy, now)
    if verdict.answer == "NOW":
        return _admit(view, (visitor,), (), verdict, policy, now)
    if verdict.answer == "LATER" and verdict.until is not None and len(gate.waiting) < policy.waiting_max:
        return Decision((Postponed(visitor, verdict.until),), verdict=verdict, promised_at=verdict.until)
    return Decision((TurnedAway(visitor, verdict.reasons[0]),), verdict=replace(verdict, answer="NEVER"))


def _retry(view: View[GateState], gate: GateState, policy: GatePolicy, now: Instant) -> Decision:
    """Judge whoever is due once more: the first may come in, the others have waited in vain."""
    due = [waiting.visitor for waiting in gate.waiting if waiting.until_at <= now]
    verdict = _judge(view, gate, policy, now)
    welcome = tuple(due[:1]) if verdict.answer == "NOW" else ()
    away = tuple(TurnedAway(visitor, "RETRY_EXHAUSTED") for visitor in due[len(welcome) :])
    return _admit(view, welcome, away, verdict, policy, now)


def _admit(
    view: View[GateState],
    visitors: tuple[str, ...],
    away: tuple[Event, ...],
    verdict: Verdict,
    policy: GatePolicy,
    now: Instant,
) -> Decision:
    events = (*(Admitted(visitor, now) for visitor in visitors), *away)
    also: dict[StreamId, tuple[Event, ...]] = {}
    if policy.tenant_per_hour is not None and visitors:
        also[quota_of(view.stream)] = (SlotTaken(now),)
    return Decision(events, also=also, effects=_effects(view.stream, visitors, policy), verdict=verdict)


def _effects(stream: StreamId, visitors: tuple[str, ...], policy: GatePolicy) -> tuple[Effect, ...]:
    effects: list[Effect] = []
    for visitor in visitors:
        if policy.greet:
            effects.append(Call("handler:greet", {"visitor": visitor}, at_most_once=True, report_to=stream))
        if policy.announce:
            effects.append(Call("handler:announce", {"visitor": visitor}))
        if policy.tally:
            effects.append(Send(StreamId(stream.tenant, "tally", "all"), Count(visitor)))
    return tuple(effects)


def fold(state: GateState | None, event: GateEvents) -> GateState:
    gate = state or GateState()
    match event:
        case Admitted(visitor, at):
            return replace(
                gate,
                admitted=windows.add(gate.admitted, at, HOUR_S),
                admitted_count=gate.admitted_count + 1,
                first_admitted_at=gate.first_admitted_at or at,
                last_admitted_at=at,
                waiting=_without(gate, visitor),
            )
        case Postponed(visitor, until_at):
            return replace(gate, waiting=(*gate.waiting, Waiting(visitor, until_at)))
        case TurnedAway(visitor):
            return replace(gate, waiting=_without(gate, visitor), turned_away_count=gate.turned_away_count + 1)
        case WasShut():
            return replace(gate, shut=True)
        case WasOpened():
            return replace(gate, shut=False)
        case Greeted():
            return replace(gate, greeted_count=gate.greeted_count + 1)


def _without(gate: GateState, visitor: str) -> tuple[Waiting, ...]:
    """The queue less the visitor's first place in it."""
    for place, waiting in enumerate(gate.waiting):
        if waiting.visitor == visitor:
            return gate.waiting[:place] + gate.waiting[place + 1 :]
    return gate.waiting


def alarm(gate: GateState) -> Instant | None:
    return min((waiting.until_at for waiting in gate.waiting), default=None)


def index(gate: GateState) -> Index:
    """Gates are inspected in the order in which they were first used."""
    return Index(status="shut" if gate.shut else "open", due_at=gate.first_admitted_at)


def quota_of(stream: StreamId) -> StreamId:
    return StreamId(stream.tenant, "quota", "all")


def needs(stream: StreamId, command: Any, policy: Policy) -> tuple[StreamId, ...]:
    return () if policy[GatePolicy].tenant_per_hour is None else (quota_of(stream),)


GATE = Decider(
    kind="gate",
    scope="gates:write",
    decide=decide,
    needs=needs,
    tables=(RULES,),
    stops=(Shut,),
    fold=fold,
    alarm=alarm,
    index=index,
)

QUOTA: Decider[QuotaState] = Decider(
    kind="quota",
    scope="gates:write",
    state=QuotaState,
    commands=SlotTaken,
    events=SlotTaken,
    decide=lambda view, command, policy, now: Refusal("NOT_A_COMMAND", "a quota is written by gates alone"),
    fold=lambda state, event: QuotaState(windows.add(state.taken if state else (), event.at, HOUR_S)),
)

TALLY: Decider[TallyState] = Decider(
    kind="tally",
    scope="gates:write",
    state=TallyState,
    commands=Count,
    events=Counted,
    decide=lambda view, command, policy, now: Decision((Counted(command.visitor),)),
    fold=lambda state, event: TallyState((state.count if state else 0) + 1),
)

SAMPLE = (GATE, QUOTA, TALLY)
