"""Verdicts: may this happen NOW, LATER or NEVER, and why.

A verdict carries its reason codes, `until` when postponed, and its trace: every rule that was looked at, in
order, with the values it saw. The trace is stored as rule numbers and bare values, at most 2 kB of it; the
rule table it belongs to turns it back into names and sentences when somebody reads it. ALLOW, DEFER and SKIP
are the same three answers in the spelling of runs; a domain spells them at its edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from string import Formatter
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from betimes.core.canonical import encode
from betimes.core.instants import Instant

Answer: TypeAlias = Literal["NOW", "LATER", "NEVER"]
TRACE_BYTES_MAX = 2048
Case = TypeVar("Case")


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A rule matched: the answer it gives, its reason code, and until when."""

    answer: Answer
    reason: str
    until: Instant | None = None


class Finding(msgspec.Struct, frozen=True, gc=False):
    """What a rule saw, in the order of its `sees`, and the hit if it matched."""

    values: tuple[Any, ...] = ()
    hit: Hit | None = None


PASSED = Finding()
"""A rule saw nothing; one that has names in `sees` records a value for each, also when it does not match."""


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One line of a trace: the rule's number in its table, the reason if it matched, what it saw."""

    rule: int
    reason: str | None = None
    values: tuple[Any, ...] = ()
    shadow: bool = False


@cache
def _passed(rule: int) -> Step:
    return Step(rule)


class Verdict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer with its reasons; `table` names the rules its trace counts by."""

    answer: Answer
    reasons: tuple[str, ...]
    table: str = ""
    until: Instant | None = None
    would_pass_at: Instant | None = None
    trace: tuple[Step, ...] = ()
    trace_cut: bool = False


class Rule(msgspec.Struct, Generic[Case], frozen=True):
    """One named rule: what it checks, the names of the values it records, and its sentences for a human."""

    name: str
    check: Callable[[Case], Finding]
    sees: tuple[str, ...] = ()
    says: str = ""
    """When it matched."""
    passes: str = ""
    """When it did not."""
    absent: str = ""
    """When it did not because there was nothing to look at: its first value is `None`."""

    def sentence(self, step: Step, values: dict[str, Any], *, cut: bool) -> str:
        """Return what the rule says of a step, or that what it saw is missing."""
        if step.reason is not None:
            return self.says.format_map(_Blanks(values))
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


class RuleTable(msgspec.Struct, Generic[Case], frozen=True):
    """An ordered tuple of rules; the first hit wins, and when none hits, `otherwise` is the answer."""

    name: str
    rules: tuple[Rule[Case], ...]
    otherwise: Hit

    def judge(self, case: Case, shadowed: Collection[str] = ()) -> Verdict:
        """Look at the rules in order until one hits. A shadowed rule is recorded and does not bind."""
        trace: list[Step] = []
        for number, rule in enumerate(self.rules):
            finding = rule.check(case)
            if finding is PASSED:
                trace.append(_passed(number))
                continue
            hit = finding.hit
            if hit is None:
                trace.append(Step(number, None, finding.values))
            elif rule.name in shadowed:
                trace.append(Step(number, hit.reason, finding.values, shadow=True))
            else:
                trace.append(Step(number, hit.reason, finding.values))
                return self._verdict(hit, trace)
        return self._verdict(self.otherwise, trace)

    def first_hit(self, case: Case, shadowed: Collection[str] = ()) -> Hit:
        """The hit that `judge` would go by, without the trace."""
        for rule in self.rules:
            hit = rule.check(case).hit
            if hit is not None and rule.name not in shadowed:
                return hit
        return self.otherwise

    def _verdict(self, hit: Hit, trace: list[Step]) -> Verdict:
        return Verdict(hit.answer, (hit.reason,), self.name, until=hit.until, trace=tuple(trace))

    def explain(self, verdict: Verdict) -> list[ExplainedStep]:
        """The trace with the names and sentences of this table's rules; a rule the table does not have reads as `?`."""
        return [self._explained(step, verdict.trace_cut) for step in verdict.trace]

    def _explained(self, step: Step, cut: bool) -> ExplainedStep:
        name, sentence = "?", ""
        values = dict(zip(map(str, range(len(step.values))), step.values, strict=True))
        if 0 <= step.rule < len(self.rules):
            rule = self.rules[step.rule]
            values = dict(zip(rule.sees, step.values, strict=False))
            name, sentence = rule.name, rule.sentence(step, values, cut=cut)
        mode: Literal["enforce", "shadow"] = "shadow" if step.shadow else "enforce"
        return ExplainedStep(name, step.reason is not None, step.reason, mode, values, sentence)


class _Blanks(dict[str, Any]):
    """Values for a sentence; one that was cut from the trace reads as `?`, one that there is not as `–`."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return "–" if value is None else value

    def __missing__(self, key: str) -> str:
        return "?"


def within_bound(verdict: Verdict) -> Verdict:
    """The verdict with a trace of at most `TRACE_BYTES_MAX`: the last values are dropped first, and it says so."""
    if _size(verdict.trace) <= TRACE_BYTES_MAX:
        return verdict
    bare = [Step(step.rule, step.reason, (), step.shadow) for step in verdict.trace]
    room = TRACE_BYTES_MAX - _size(bare)
    kept: list[Step] = []
    for step, without in zip(verdict.trace, bare, strict=True):
        room -= _size(step) - _size(without)
        kept.append(step if room >= 0 else without)
    return msgspec.structs.replace(verdict, trace=tuple(kept), trace_cut=True)


def _size(value: Any) -> int:
    """In bytes, not characters: names of people are not ASCII."""
    return len(encode(value).encode())
