"""The declaration of a domain: what everything that must know of all domains collects from one value per folder.

A domain is a folder. Its `domain.py` exports `DOMAIN`, and `betimes.catalogue` lists it; nothing else names it. Two
things are found by the name of their file instead, so that a process loads them only when it needs them: `routes.py`
exports `ROUTES`, and `commands.py` exports what `Domain.commands` announces, each command or group under its name.

This module and every `domain.py` are pure: they import deciders and policies, never a service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from betimes.core.deciders import Command, Decider, Event
from betimes.core.instants import Instant
from betimes.core.lake_tables import Table
from betimes.core.occurrence_counts import StepCounts, StepGrid
from betimes.core.outcomes import EventOutcome, JudgedThing
from betimes.core.outlooks import Outlook, SubjectStreams, WaitingItem
from betimes.core.policies import Policy
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict
from betimes.domain.variations import Variations


def list_reasons(segment: Segment, verdict: Verdict) -> str:
    """Return the sentence of a verdict whose domain has none of its own: its reason codes."""
    return f"{', '.join(verdict.reasons)}."


class RecordedInput(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a provider gave before a command was submitted, and that the recorded command carries."""

    provider: str
    """The name that reports count missing values under."""
    noun: str
    """One such value, in the notes of a report."""
    command: type[Command]
    is_given: Callable[[Any], bool]
    """Return whether a command carries a value."""
    is_used: Callable[[Any], bool]
    """Return whether a reply shows that the decision used a value, or its fallback."""


class BacktestRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for rehearsing a domain in a backtest, and the events that it counts besides answers."""

    contacts: tuple[type[Event], ...] = ()
    """Events that tell the person of the stream something, each with `at`."""
    costs: tuple[type[Event], ...] = ()
    """Events that start something expensive."""
    sweeps: Mapping[str, type[Command]] = {}
    """By kind of stream: the command, with `at`, that a worker gives to all streams that are due."""
    starts: Mapping[str, type[Command]] = {}
    """By kind of stream: the command, with `effect` and `worker`, that announces an at-most-once call of the stream.
    Such a call is the same in two worlds whenever each makes it."""
    results: Mapping[str, Any] = {}
    """By the beginning of an executor's name: the result of a call that was never made in the recorded traffic."""
    input: RecordedInput | None = None
    parts: frozenset[str] = frozenset()
    """Kinds of streams that belong to another one, under which changed answers are listed."""


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """One domain, as the rest of the package knows it."""

    package: str
    """Where its routes and commands are, such as `betimes.runs`."""
    area: str
    """Its section of the policy, its scopes (`runs:read`, `runs:write`), and the name its numbers are counted under.
    Folders may share one."""
    deciders: tuple[Decider[Any], ...]
    policy: type[msgspec.Struct] | None = None
    answers: Mapping[str, str] = {}
    """How it spells NOW, LATER and NEVER, where it spells them otherwise."""
    describe_verdict: Callable[[Segment, Verdict], str] = list_reasons
    shadow_rules: Callable[[Any], Collection[str]] = lambda policy: ()
    """Return the rules that are judged and recorded and do not bind, from its section of the policy."""
    outcome_of: Callable[[Event], EventOutcome | None] | None = None
    """Return what an event decided, if anything. Without it, a segment decided what its verdict says."""
    outcomes: tuple[str, ...] = ()
    """Every outcome that `outcome_of` returns."""
    outcome_reasons: tuple[str, ...] = ()
    """Reasons of these outcomes that are in no decider's table."""
    phrases: Mapping[str, str] = {}
    """By outcome: what it came to, as a clause about `{who}`, the id of the stream, and `{what}` was judged."""
    words: Mapping[str, str] = {}
    """Outcomes and statuses that are spelled as codes, in words."""
    statuses: Mapping[str, tuple[str, ...]] = {}
    """By kind of stream: its statuses, where its state has no closed list of them."""
    describe_event: Callable[[Event, Command | None], str] = lambda event, command: ""
    """Return a sentence about an event that `outcome_of` knows, and the command that led to it, if one did."""
    complete_event: Callable[[Event, Verdict], Event] | None = None
    """Return an event with what only the verdict that led to it knows, before it is described."""
    render_amounts: Mapping[str, Mapping[str, Callable[[int], Any]]] = {}
    """Fields that hold scaled integers, by kind of stream, each with how people read it."""
    lost_claims: Mapping[str, Callable[[Event], bool]] = {}
    """By kind of stream: whether an event says that a claim ran out."""
    tables: tuple[Table, ...] = ()
    """Its tables of the lake."""
    variations: Mapping[str, Variations] = {}
    """By kind of stream: what might have been otherwise when a verdict was given."""
    backtest: BacktestRules = BacktestRules()
    commands: Mapping[str, str] = {}
    """Its commands and groups of commands by name, each with its line of `betimes --help`."""
    judged: Mapping[str, Callable[[Command | None, Sequence[Event], Any], Iterable[JudgedThing]]] = {}
    """By kind of stream: what a segment judged, from its command, events and reply."""
    collections: tuple[str, ...] = ()
    """Of its idempotency keys, besides those that are named like its kinds of streams."""
    waiting_items: Mapping[str, Callable[[Any], Iterable[WaitingItem]]] = {}
    """By kind of stream: what waits in a state, for lists of what comes next."""
    occurrences: Mapping[str, Callable[[Any, StepGrid, int], StepCounts]] = {}
    """By kind of stream that recurs: how often in each step of time, looking at a bounded number of occurrences."""
    due_kinds: tuple[str, ...] = ()
    """Kinds of streams, each with an owner, that wait to be claimed when they are due, not for an alarm."""
    outlook: Mapping[str, Callable[[Any, Policy, Instant, Instant, Instant], Outlook]] = {}
    """By kind of stream: the bands, windows and prospects of a state under a policy, now and between two instants."""
    timezones: Mapping[str, Callable[[Any], str]] = {}
    """By kind of stream: the zone of the person, or of what recurs, from its state."""
    subjects: tuple[SubjectStreams, ...] = ()
    """Its streams that belong on the timeline of a person or an account."""
