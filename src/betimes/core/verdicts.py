"""Verdicts: may this happen NOW, LATER or NEVER, and why.

A verdict carries its reason codes, `until` when postponed, and its trace: every rule that was looked at, in
order, with the values it saw. The trace is stored as rule names and bare values, at most 2 kB of it; the rule
table it belongs to turns it back into sentences when somebody reads it. Rules may be added, moved and retired: a
name never gets another meaning, so what was recorded still reads as it did. ALLOW, DEFER and SKIP are the same three
answers in the spelling of runs; a domain spells them at its edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property
from string import Formatter
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.canonical import encode
from betimes.core.instants import Instant, spell_duration

Answer: TypeAlias = Literal["NOW", "LATER", "NEVER"]
TRACE_BYTES_MAX = 2048
Case = TypeVar("Case")


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A rule matched: the answer it gives, its reason code, and until when."""

    answer: Answer
    reason: str
    until: Instant | None = None


class Finding(msgspec.Struct, frozen=True, gc=False):
    """The values a rule saw, in the order of its `sees`, and the hit if it matched."""

    values: tuple[Any, ...] = ()
    hit: Hit | None = None


PASSED = Finding()
"""A rule saw nothing; one that has names in `sees` records a value for each, also when it does not match."""


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One line of a trace: the rule's name, the reason if it matched, what it saw."""

    rule: str | int
    """A number in traces that were recorded before names were: the rule's place in its table then."""
    reason: str | None = None
    values: tuple[Any, ...] = ()
    shadow: bool = False


class Verdict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer with its reasons; `table` names the table its rules belong to."""

    answer: Answer
    reasons: tuple[str, ...]
    table: str = ""
    until: Instant | None = None
    would_pass_at: Instant | None = None
    """When it would pass at the earliest, as things stand; what waits ahead of it in its stream is not counted."""
    trace: tuple[Step, ...] = ()
    trace_cut: bool = False


class Rule(msgspec.Struct, Generic[Case], frozen=True):
    """One named rule: what it checks, the names of the values it records, and its sentences for a human."""

    name: str
    check: Callable[[Case], Finding]
    sees: tuple[str, ...] = ()
    says: str = ""
    """When it matched. `{count}` is a value it saw, `{count:time|times}` the value with its noun."""
    passes: str = ""
    """When it did not; left out, it is the same."""
    absent: str = ""
    """When it did not because there was nothing to look at: its first value is `None`."""
    reads: tuple[str, ...] = ()
    """The settings of the policy that it goes by, as dotted paths: `runs.registry.{trigger_type}.mode`; a name in
    braces stands for one that the case gives."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "passes", self.passes or self.says)

    def sentence(self, step: Step, values: dict[str, Any], *, cut: bool) -> str:
        """Return what the rule says of a step, or that what it saw is missing."""
        if step.reason is not None:
            return self.says.format_map(_Blanks(values))
        # A trace that was cut has no values either, and does not tell whether there were any to see.
        nothing = step.values[0] is None if step.values else not cut
        said = self.absent if self.absent and nothing else self.passes
        return said.format_map(_Blanks(values)) if _fields(said) <= values.keys() else UNRECORDED


UNRECORDED = "it did not match; what it saw is not recorded"


@cache
def _fields(sentence: str) -> frozenset[str]:
    """Return the names of the values that a sentence tells."""
    return frozenset(name for _, name, _, _ in Formatter().parse(sentence) if name)


class ExplainedStep(msgspec.Struct, frozen=True):
    """A trace line as people read it."""

    rule: str
    matched: bool
    reason: str | None
    mode: Literal["enforce", "shadow"]
    values: dict[str, Any]
    sentence: str


RuleOutcome: TypeAlias = Literal["passed", "bound", "shadow", "not_reached"]


class ExplainedRule(msgspec.Struct, frozen=True):
    """One rule of a table and what became of it in a verdict."""

    number: int | None
    """Its place in the table, from 1; `null` for a retired rule."""
    rule: str
    outcome: RuleOutcome
    """`bound`: it decided; `shadow`: it would have decided, but is not enforced; `not_reached`: an earlier rule had
    decided."""
    reason: str | None
    values: dict[str, Any]
    sentence: str
    """Its sentence about the values it saw."""
    reads: tuple[str, ...]
    """The policy settings it uses."""


NOT_REACHED = "an earlier rule had decided"
NOT_JUDGED = "it was not checked"


class RuleTable(msgspec.Struct, Generic[Case], frozen=True, dict=True):
    """An ordered tuple of rules; the first hit wins, and when none hits, `otherwise` is the answer."""

    name: str
    rules: tuple[Rule[Case], ...]
    otherwise: Hit
    retired: tuple[Rule[Any], ...] = ()
    """Rules that are not checked any more but keep their sentences, because old traces name them."""
    places: tuple[str, ...] = ()
    """The names that numbers in old traces stand for. It is never changed."""

    def __post_init__(self) -> None:
        """Raise `ValueError` if two rules share a name, or a place names no rule."""
        names = [rule.name for rule in (*self.rules, *self.retired)]
        wrong = {name for name in names if names.count(name) > 1} | {name for name in self.places if name not in names}
        if wrong:
            raise ValueError(f"the table {self.name} must have one rule, in use or retired, for: {sorted(wrong)}")

    @cached_property
    def by_name(self) -> dict[str | int, Rule[Any]]:
        """The rules by name, whether or not they still judge, and by their place in old traces."""
        named: dict[str | int, Rule[Any]] = {rule.name: rule for rule in (*self.rules, *self.retired)}
        return {**named, **{place: named[name] for place, name in enumerate(self.places)}}

    @cached_property
    def _checks(self) -> tuple[tuple[str, Callable[[Case], Finding], Step], ...]:
        """The rules in order, each with its check and the step of its passing.

        Most rules of most verdicts pass without a value; that step is shared instead of made anew.
        """
        return tuple((rule.name, rule.check, Step(rule.name)) for rule in self.rules)

    def with_rule_names(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the names of its rules where an old trace has numbers."""
        steps = tuple(self._with_rule_name(step) for step in verdict.trace)
        return verdict if steps == verdict.trace else msgspec.structs.replace(verdict, trace=steps)

    def _with_rule_name(self, step: Step) -> Step:
        rule = self.by_name.get(step.rule) if isinstance(step.rule, int) else None
        return msgspec.structs.replace(step, rule=rule.name) if rule else step

    def judge(self, case: Case, shadowed: Collection[str] = ()) -> Verdict:
        """Look at the rules in order until one hits. A shadowed rule is recorded and does not bind."""
        trace: list[Step] = []
        given = self.otherwise
        for name, check, passed in self._checks:
            finding = check(case)
            if finding is PASSED:
                trace.append(passed)
                continue
            hit = finding.hit
            if hit is None:
                trace.append(Step(name, None, finding.values))
            elif name in shadowed:
                trace.append(Step(name, hit.reason, finding.values, shadow=True))
            else:
                trace.append(Step(name, hit.reason, finding.values))
                given = hit
                break
        return Verdict(given.answer, (given.reason,), self.name, until=given.until, trace=tuple(trace))

    def first_hit(self, case: Case, shadowed: Collection[str] = ()) -> Hit:
        """Return the hit that `judge` would go by, without the trace."""
        for rule in self.rules:
            hit = rule.check(case).hit
            if hit is not None and rule.name not in shadowed:
                return hit
        return self.otherwise

    def explain(self, verdict: Verdict) -> list[ExplainedStep]:
        """Return the trace with the sentences of this table's rules; one it never had has none."""
        return [self._explain_step(step, verdict.trace_cut) for step in verdict.trace]

    def explain_all(self, verdict: Verdict) -> list[ExplainedRule]:
        """Return every rule that was looked at, in order, and after them those of this table that were not."""
        steps = self.explain(verdict)
        seen = {step.rule for step in steps}
        # Without a rule that bound, those not looked at were added to the table after the verdict.
        why = NOT_REACHED if any(_outcome(step) == "bound" for step in steps) else NOT_JUDGED
        unseen = [rule for rule in self.rules if rule.name not in seen]
        return [
            *(self._explain_rule(step.rule, _outcome(step), step.reason, step.values, step.sentence) for step in steps),
            *(self._explain_rule(rule.name, "not_reached", None, {}, why) for rule in unseen),
        ]

    def _explain_rule(
        self, name: str, outcome: RuleOutcome, reason: str | None, values: dict[str, Any], sentence: str
    ) -> ExplainedRule:
        number = next((place for place, rule in enumerate(self.rules, start=1) if rule.name == name), None)
        rule = self.by_name.get(name)
        return ExplainedRule(number, name, outcome, reason, values, sentence, rule.reads if rule else ())

    def sentence_for(self, verdict: Verdict, reason: str) -> str:
        """Return what the rule that enforced this reason says; nothing if the trace has no such rule."""
        for step in verdict.trace:
            if step.reason == reason and not step.shadow:
                return self._explain_step(step, verdict.trace_cut).sentence
        return ""

    def describe(self, name: str, reason: str | None, values: Mapping[str, Any]) -> str:
        """Return what a rule says of the values it saw, by their names; nothing if the table never had such a rule."""
        rule = self.by_name.get(name)
        if rule is None:
            return ""
        step = Step(name, reason, tuple(values.values()))
        return rule.sentence(step, dict(values), cut=bool(rule.sees) and not values)

    def _explain_step(self, step: Step, cut: bool) -> ExplainedStep:
        rule = self.by_name.get(step.rule)
        if rule is None:
            name, sentence = step.rule if isinstance(step.rule, str) else "?", ""
            # Without a rule nobody knows what the values were called; they are told by their place.
            values = {str(place): value for place, value in enumerate(step.values)}
        else:
            # A trace may be older than the names of today, so either side may have more.
            values = dict(zip(rule.sees, step.values, strict=False))
            name, sentence = rule.name, rule.sentence(step, values, cut=cut)
        mode: Literal["enforce", "shadow"] = "shadow" if step.shadow else "enforce"
        return ExplainedStep(name, step.reason is not None, step.reason, mode, values, sentence)


def _outcome(step: ExplainedStep) -> RuleOutcome:
    if not step.matched:
        return "passed"
    return "shadow" if step.mode == "shadow" else "bound"


def readable_template(sentence: str) -> str:
    """Return a sentence with bare names in its braces: `{count} times` for `{count:time|times}`."""
    return _COUNTED.sub(r"{\1} \2", sentence)


_COUNTED = re.compile(r"\{(\w+):[^|}]*\|([^}]*)\}")


class _Blank:
    """A value in a sentence; `{count:time|times}` gives it with the word for one or for several."""

    def __init__(self, name: str, value: Any) -> None:
        self._value = value
        is_duration = name.endswith("_s") and isinstance(value, int | float)
        self._text = "–" if value is None else spell_duration(value) if is_duration else str(value)

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return f"{self._text} {one if self._value == 1 else many}" if words else self._text


class _Blanks(dict[str, Any]):
    """Values for a sentence; one that was cut from the trace reads as `?`, one that there is not as `–`.

    A number of seconds, by a name that ends in `_s`, reads as people say it.
    """

    def __getitem__(self, key: str) -> _Blank:
        return _Blank(key, super().__getitem__(key))

    # An old trace may lack a value that a sentence has come to name; it must still be explained.
    def __missing__(self, key: str) -> str:
        return "?"


def within_bound(verdict: Verdict) -> Verdict:
    """Return the verdict with a trace of at most `TRACE_BYTES_MAX`; it drops the last values first, and says so."""
    if _size(verdict.trace) <= TRACE_BYTES_MAX:
        return verdict
    # Names and reasons are kept whatever it costs: without them nobody could say which rule decided.
    bare = [Step(step.rule, step.reason, (), step.shadow) for step in verdict.trace]
    room = TRACE_BYTES_MAX - _size(bare)
    kept: list[Step] = []
    for step, without in zip(verdict.trace, bare, strict=True):
        # Room is never given back, so that all behind the first cut are cut: a reader sees where it stops.
        room -= _size(step) - _size(without)
        kept.append(step if room >= 0 else without)
    return msgspec.structs.replace(verdict, trace=tuple(kept), trace_cut=True)


def _size(value: Any) -> int:
    """Return the size in bytes, not characters: names of people are not ASCII."""
    return len(encode(value).encode())
