"""The first rule that hits decides, the trace says why, and it never grows past its bound."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from betimes.core.canonical import encode
from betimes.core.verdicts import TRACE_BYTES_MAX, Finding, Hit, Rule, RuleTable, Step, Verdict, within_bound

Case = dict[str, int]
PASS = Hit("NOW", "ADMITTED")


def closed(case: Case) -> Finding:
    return Finding((case["closed"],), Hit("NEVER", "CLOSED") if case["closed"] else None)


def busy(case: Case) -> Finding:
    return Finding((case["busy"], 3), Hit("LATER", "BUSY", until=900) if case["busy"] >= 3 else None)


def early(case: Case) -> Finding:
    return Finding((), Hit("LATER", "EARLY", until=case["opens"]) if case["opens"] else None)


TABLE: RuleTable[Case] = RuleTable(
    "gate",
    (
        Rule("closed", closed, ("closed",), "The gate is closed: {closed}."),
        Rule("busy", busy, ("busy", "cap"), "{busy} of at most {cap} are inside."),
        Rule("early", early),
    ),
    PASS,
)


def case(closed: int = 0, busy: int = 0, opens: int = 0) -> Case:
    return {"closed": closed, "busy": busy, "opens": opens}


def test_when_no_rule_hits_the_table_says_what_happens() -> None:
    verdict = TABLE.judge(case(busy=2))
    assert (verdict.answer, verdict.reasons, verdict.table, verdict.until) == ("NOW", ("ADMITTED",), "gate", None)
    assert verdict.trace == (Step("closed", None, (0,)), Step("busy", None, (2, 3)), Step("early"))


def test_the_first_hit_wins_and_later_rules_are_not_looked_at() -> None:
    verdict = TABLE.judge(case(closed=1, busy=9, opens=5))
    assert (verdict.answer, verdict.reasons) == ("NEVER", ("CLOSED",))
    assert verdict.trace == (Step("closed", "CLOSED", (1,)),)
    later = TABLE.judge(case(busy=9, opens=5))
    assert (later.answer, later.reasons, later.until) == ("LATER", ("BUSY",), 900)


@given(st.integers(0, 1), st.integers(0, 5), st.integers(0, 5), st.sets(st.sampled_from(("closed", "busy", "early"))))
def test_the_first_hit_alone_is_what_a_verdict_goes_by(closed: int, busy: int, opens: int, shadowed: set[str]) -> None:
    verdict = TABLE.judge(case(closed, busy, opens), shadowed)
    hit = TABLE.first_hit(case(closed, busy, opens), shadowed)
    assert (hit.answer, (hit.reason,), hit.until) == (verdict.answer, verdict.reasons, verdict.until)


def test_a_shadowed_rule_is_recorded_and_does_not_bind() -> None:
    verdict = TABLE.judge(case(closed=1, busy=9), shadowed={"closed"})
    assert (verdict.answer, verdict.reasons) == ("LATER", ("BUSY",))
    assert verdict.trace == (Step("closed", "CLOSED", (1,), shadow=True), Step("busy", "BUSY", (9, 3)))
    assert TABLE.judge(case(closed=1), shadowed={"closed"}).answer == "NOW"


def test_shadowing_a_rule_that_does_not_hit_changes_nothing() -> None:
    assert TABLE.judge(case(), shadowed={"closed", "busy", "early"}) == TABLE.judge(case())


def test_a_trace_is_explained_in_sentences() -> None:
    first, second = TABLE.explain(TABLE.judge(case(closed=1, busy=9), shadowed={"closed"}))
    assert (first.rule, first.matched, first.reason, first.mode) == ("closed", True, "CLOSED", "shadow")
    assert (second.rule, second.matched, second.reason, second.mode) == ("busy", True, "BUSY", "enforce")
    assert second.values == {"busy": 9, "cap": 3}
    assert second.sentence == "9 of at most 3 are inside."


def test_a_value_that_was_cut_reads_as_a_question_mark() -> None:
    [step] = TABLE.explain(Verdict("LATER", ("BUSY",), "gate", trace=(Step("busy", "BUSY"),)))
    assert step.sentence == "? of at most ? are inside."
    [silent] = TABLE.explain(Verdict("LATER", ("EARLY",), "gate", trace=(Step("early", "EARLY"),)))
    assert (silent.sentence, silent.values) == ("", {})


SPOKEN: RuleTable[Case] = RuleTable(
    "spoken",
    (
        Rule("busy", busy, ("busy", "cap"), "{busy} of {cap} are inside", "only {busy} of {cap} are inside"),
        Rule("ban", closed, ("reason",), "banned: {reason}", "the ban of {reason} is over", "not banned"),
    ),
    PASS,
    places=("busy", "ban"),
)


def sentences(*trace: Step, cut: bool = False) -> list[str]:
    return [step.sentence for step in SPOKEN.explain(Verdict("NOW", ("X",), "spoken", trace=trace, trace_cut=cut))]


def test_a_rule_that_did_not_match_says_so() -> None:
    assert sentences(Step("busy", None, (1, 3)), Step("ban", None, ("rage",))) == [
        "only 1 of 3 are inside",
        "the ban of rage is over",
    ]
    assert sentences(Step("busy", "BUSY", (3, 3)), Step("ban", "CLOSED", ("rage",))) == [
        "3 of 3 are inside",
        "banned: rage",
    ]


def test_a_rule_that_had_nothing_to_look_at_says_so_also_in_traces_that_recorded_no_values() -> None:
    assert sentences(Step("ban", None, (None,)), Step("ban")) == ["not banned", "not banned"]


def test_values_that_are_not_recorded_are_not_made_up() -> None:
    assert sentences(Step("busy")) == ["it did not match; what it saw is not recorded"]
    assert sentences(Step("ban"), cut=True) == ["it did not match; what it saw is not recorded"]


def test_a_rule_with_one_sentence_says_it_whether_it_matched_or_not_and_one_without_any_says_nothing() -> None:
    [first, *_, last] = TABLE.explain(TABLE.judge(case()))
    assert (first.sentence, first.values) == ("The gate is closed: 0.", {"closed": 0})
    assert last.sentence == ""


def bytes_of(trace: tuple[Step, ...]) -> int:
    return len(encode(trace).encode())


seen = st.text(max_size=200) | st.integers(-(2**63), 2**63 - 1) | st.lists(st.text(max_size=20), max_size=10)
reasons = st.none() | st.sampled_from(("QUIET_HOURS", "CAP"))
steps = st.builds(Step, st.text(max_size=30) | st.integers(0, 40), reasons, st.lists(seen).map(tuple), st.booleans())
traces = st.lists(steps, max_size=30).map(tuple)


@given(traces)
def test_a_trace_is_never_longer_than_its_bound(trace: tuple[Step, ...]) -> None:
    bounded = within_bound(Verdict("NOW", ("ADMITTED",), trace=trace))
    assert bytes_of(bounded.trace) <= TRACE_BYTES_MAX
    assert bounded.trace_cut == (bytes_of(trace) > TRACE_BYTES_MAX)


@given(traces)
def test_every_rule_and_reason_stays_and_the_last_values_go_first(trace: tuple[Step, ...]) -> None:
    bounded = within_bound(Verdict("NOW", ("ADMITTED",), trace=trace)).trace
    assert [(s.rule, s.reason, s.shadow) for s in bounded] == [(s.rule, s.reason, s.shadow) for s in trace]
    kept = [short == whole for short, whole in zip(bounded, trace, strict=True) if whole.values]
    assert kept == sorted(kept, reverse=True)
    assert all(not short.values for short, whole in zip(bounded, trace, strict=True) if short != whole)


def test_the_bound_is_counted_in_bytes() -> None:
    trace = (Step("a", None, ("ü" * 700,)), Step("b", None, ("ü" * 700,)))
    bounded = within_bound(Verdict("NOW", ("ADMITTED",), trace=trace))
    assert bounded.trace == (trace[0], Step("b"))


@pytest.mark.parametrize("values", [(), (1, "two", None, [3])])
def test_a_short_trace_is_left_alone(values: tuple[Any, ...]) -> None:
    verdict = Verdict("NOW", ("ADMITTED",), trace=(Step("a", None, values),))
    assert within_bound(verdict) is verdict


@pytest.mark.parametrize("rule", [3, -1, "gone"])
def test_a_rule_the_table_never_had_keeps_its_values(rule: str | int) -> None:
    [step] = TABLE.explain(Verdict("LATER", ("BUSY",), "gate", trace=(Step(rule, "BUSY", (9, "x")),)))
    name = rule if isinstance(rule, str) else "?"
    assert (step.rule, step.matched, step.reason, step.values) == (name, True, "BUSY", {"0": 9, "1": "x"})
    assert step.sentence == ""


def new(case: Case) -> Finding:
    return Finding((case["opens"],))


INSERTED = replace(SPOKEN, rules=(Rule("new", new, ("opens",), "new: {opens}"), *SPOKEN.rules))
MOVED = replace(SPOKEN, rules=SPOKEN.rules[::-1])
RETIRED = replace(SPOKEN, rules=SPOKEN.rules[1:], retired=SPOKEN.rules[:1])


@pytest.mark.parametrize("later", [INSERTED, MOVED, RETIRED], ids=["inserted", "moved", "retired"])
@pytest.mark.parametrize("numbered", [False, True], ids=["by name", "by place"])
def test_an_old_verdict_reads_the_same_when_rules_are_inserted_moved_and_retired(
    later: RuleTable[Case], numbered: bool
) -> None:
    verdict = SPOKEN.judge(case(busy=9), shadowed={"busy"})
    was = [(step.rule, step.sentence, step.values) for step in SPOKEN.explain(verdict)]
    assert was == [("busy", "9 of 3 are inside", {"busy": 9, "cap": 3}), ("ban", "the ban of 0 is over", {"reason": 0})]
    if numbered:  # as traces were recorded before they had names
        steps = tuple(replace(step, rule=place) for place, step in enumerate(verdict.trace))
        verdict = replace(verdict, trace=steps)
    recorded = msgspec.json.decode(encode(verdict), type=Verdict)
    assert recorded == verdict
    assert [(step.rule, step.sentence, step.values) for step in later.explain(recorded)] == was


def test_an_old_trace_is_the_new_one_once_its_rules_have_names() -> None:
    verdict = SPOKEN.judge(case(busy=2))
    old = replace(verdict, trace=tuple(replace(step, rule=place) for place, step in enumerate(verdict.trace)))
    assert old != verdict
    assert SPOKEN.with_rule_names(old) == verdict
    assert SPOKEN.with_rule_names(verdict) is verdict


def test_a_table_with_two_rules_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="busy"):
        RuleTable("twice", (SPOKEN.rules[0], TABLE.rules[1]), PASS)
    with pytest.raises(ValueError, match="gone"):
        RuleTable("lost", SPOKEN.rules, PASS, places=("gone",))


def test_every_rule_is_explained_the_retired_and_the_unseen_too() -> None:
    """A retired rule has no number, and one that came later than the verdict was not looked at."""
    later = replace(SPOKEN, rules=(*SPOKEN.rules, Rule("new", new)), retired=(Rule("old", closed, says="old"),))
    verdict = Verdict("NOW", ("PASS",), SPOKEN.name, trace=(Step(0, None, (1, 5)), Step("old", None), Step("ban", "X")))
    told = later.explain_all(verdict)
    assert [(rule.number, rule.rule, rule.outcome) for rule in told] == [
        (1, "busy", "passed"),
        (None, "old", "passed"),
        (2, "ban", "bound"),
        (3, "new", "not_reached"),
    ]
    assert told[-1].sentence == "an earlier rule had decided"
    assert later.explain_all(replace(verdict, trace=()))[0].sentence == "it was not checked"
