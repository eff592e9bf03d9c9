"""The report as a page: whole, escaped, the same every time, and nothing fetched or run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from betimes.backtest.page import page
from betimes.backtest.plan import planned
from betimes.backtest.report import (
    Affected,
    BacktestReport,
    CandidateReport,
    Change,
    ControlReport,
    Cost,
    Flip,
    FlipLine,
    Nights,
    OutcomeLine,
    Rate,
    Side,
)
from betimes.backtest.summary import change, control_sentence, notes, pairs, window_sentence
from betimes.domain.service import TraceStep
from tests.backtest.recordings import notifications, recorded, runs

EVIL = "<script>alert('x')</script>&\"quoted\""


def step(rule: str, *, matched: bool = False, reason: str | None = None, **values: Any) -> TraceStep:
    return TraceStep(rule, matched, reason, "enforce", values)


def flip(before: list[TraceStep], after: list[TraceStep], id: str = "ana") -> Flip:
    return Flip(
        "2026-03-28T03:00:00Z",
        "default",
        "inbox",
        id,
        "evt-1",
        Side("LATER", ("QUIET_HOURS",), "2026-03-28T07:00:00Z", before),
        Side("NOW", ("DEFAULT_PASS",), None, after),
    )


QUIET = [step("ban"), step("quiet_hours", matched=True, reason="QUIET_HOURS", window="22:00-07:00")]
AWAKE = [step("ban"), step("quiet_hours"), step("score", score="0.7")]


def candidate(name: str = "loud", **changed: Any) -> CandidateReport:
    hours = [0] * 24
    whole = CandidateReport(
        name,
        None,
        {"notifications": {"shadow": ["quiet_hours"]}},
        [OutcomeLine("notifications", "LATER", "QUIET_HOURS", 4, 0), OutcomeLine("runs", "ALLOW", "", 7, 7)],
        [FlipLine("notifications", "LATER", "NOW", 4)],
        4,
        [Affected("default", "inbox", "ana", 4)],
        hours,
        [*hours[:3], 4, *hours[4:]],
        [Nights("default", "ana", 0, 4)],
        Cost(Change(7, 7), Change(9, 13), Change(0, 4), 2, 10.0, Rate(0.45, 0.65)),
        {"handler:think": 1, "enrichment": 2},
        {"NOT_FOUND": 3},
        5,
        [flip(QUIET, AWAKE)],
    )
    return replace(whole, **changed)


def report(*candidates: CandidateReport, control: ControlReport | None = None) -> BacktestReport:
    sound = ControlReport(True, 1_234, 1_234, 1_300, 1_290, [], {})
    listed = list(candidates or (candidate(),))
    return BacktestReport(
        "2026-03-27T00:00:00Z", "2026-03-29T00:00:00Z", None, None, 1_300, 900, control or sound, listed
    )


class Elements(HTMLParser):
    """Reads a page strictly enough to see that every element is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(text: str) -> list[tuple[str, dict[str, str | None]]]:
    reader = Elements()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader.seen


def test_how_well_the_recorded_policy_was_reproduced_comes_before_any_difference() -> None:
    text = page(report())
    assert "The recorded policy reproduces all 1,234 verdicts" in text
    assert text.index("reproduces all") < text.index("LATER → NOW")


def test_verdicts_that_were_not_reproduced_are_counted_and_listed() -> None:
    difference = {"segment": "inbox:ana:3", "tenant": "default", "recorded": '{"answer":"NOW"}', "rehearsed": ""}
    control = ControlReport(False, 10, 9, 10, 9, [difference], {})
    text = page(report(control=control))
    assert "reproduces 9 of 10 verdicts" in text
    assert "inbox:ana:3" in text
    assert '<div class="control bad"' in text


def test_a_window_without_verdicts_says_so() -> None:
    assert "no verdicts" in control_sentence(ControlReport(True, 0, 0, 3, 3, [], {}))
    assert "Nothing is recorded" in control_sentence(ControlReport(True, 0, 0, 0, 0, [], {}))


def test_every_element_is_closed_and_nothing_is_fetched_or_run() -> None:
    seen = elements(page(report(candidate("a"), candidate("b"))))
    tags = {tag for tag, _ in seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    for _, attributes in seen:
        assert not {"src", "onclick", "onload", "srcset"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page(report())
    assert "@import" not in page(report())


def test_whatever_was_recorded_is_escaped() -> None:
    evil = candidate(
        EVIL,
        tenant=EVIL,
        policy={EVIL: EVIL},
        outcomes=[OutcomeLine(EVIL, EVIL, EVIL, 1, 2)],
        flips=[FlipLine(EVIL, EVIL, EVIL, 1)],
        affected=[Affected(EVIL, EVIL, EVIL, 1)],
        nights=[Nights(EVIL, EVIL, 0, 1)],
        fallbacks={EVIL: 1},
        refused={EVIL: 1},
        samples=[
            Flip(
                EVIL,
                EVIL,
                EVIL,
                EVIL,
                EVIL,
                Side(EVIL, (EVIL,), EVIL, [step(EVIL, x=EVIL, reason=EVIL)]),
                Side(EVIL, (EVIL,), EVIL, [step(EVIL, matched=True, reason=EVIL, y=EVIL)]),
            )
        ],
    )
    control = ControlReport(
        False, 1, 0, 1, 0, [dict.fromkeys(("segment", "tenant", "recorded", "rehearsed"), EVIL)], {}
    )
    text = page(replace(report(evil, candidate(), control=control), tenant=EVIL, domain=EVIL, since=EVIL, until=EVIL))
    assert "<script" not in text
    assert "alert('x')\"" not in text
    elements(text)


def test_each_changed_answer_opens_with_the_keyboard_and_marks_where_the_traces_part() -> None:
    text = page(report())
    sample = text[text.index('<details class="sample">') :]
    assert sample.index("<summary>") < sample.index("LATER → NOW")
    [parting] = re.findall(r'<tr class="parts"><th scope="row">(\w+)', sample)
    assert parting == "quiet_hours"
    assert 'data-side="after">not looked at' not in sample
    assert "until 2026-03-28T07:00:00Z" in sample


def test_charts_have_titles_and_tables_with_the_same_numbers() -> None:
    seen = elements(page(report()))
    charts = [attributes for tag, attributes in seen if tag == "svg"]
    assert charts
    assert all(attributes.get("role") == "img" and attributes.get("aria-label") for attributes in charts)
    text = page(report())
    assert "<title>03:00, after: told 4 times</title>" in text
    assert '<th scope="row">03:00</th><td class="number">0</td><td class="number">4</td>' in text


def test_several_policies_are_set_side_by_side_and_one_is_not() -> None:
    assert "Side by side" not in page(report())
    text = page(report(candidate("calm"), candidate("loud")))
    assert 'href="#candidate-1">loud</a>' in text


def test_a_policy_that_changes_nothing_says_so() -> None:
    quiet = candidate(
        outcomes=[],
        flips=[],
        flip_count=0,
        affected=[],
        nights=[],
        hours_after=[0] * 24,
        samples=[],
        fallbacks={},
        refused={},
        gone=0,
    )
    text = page(report(quiet))
    assert "It would have changed no answer." in text
    assert "Most affected" not in text
    elements(text)


@pytest.mark.parametrize(
    ("before", "after", "parting"),
    [
        (QUIET, AWAKE, "quiet_hours"),
        (AWAKE, QUIET, "quiet_hours"),
        ([step("ban"), step("cap", used=1)], [step("ban"), step("cap", used=2)], "cap"),
        ([step("a", matched=True, reason="A")], [step("b", matched=True, reason="B")], "a"),
        ([], [step("ban")], "ban"),
        ([], [], None),
    ],
)
def test_traces_part_at_the_first_rule_that_held_in_one_world_only(
    before: list[TraceStep], after: list[TraceStep], parting: str | None
) -> None:
    found = pairs(flip(before, after))
    assert next((pair.rule for pair in found if pair.parts), None) == parting
    assert sum(pair.parts for pair in found) == (parting is not None)
    assert [pair.before for pair in found if pair.before] == before
    assert [pair.after for pair in found if pair.after] == after


def test_what_was_assumed_is_told_beside_the_numbers() -> None:
    told = "\n".join(notes(candidate()))
    assert "1 call of handler:think" in told
    assert "2 scores" in told
    assert "5 calls made then" in told
    assert "3 commands" in told
    assert (change(3, 1), change(1, 3), change(2, 2)) == ("−2", "+2", "=")


def test_counts_of_one_are_in_the_singular_and_rates_have_two_decimals() -> None:
    one = ControlReport(True, 1, 1, 1, 1, [], {})
    assert control_sentence(one) == "The recorded policy reproduces the only verdict (1 of 1 segment to the byte)."
    alone = Cost(Change(1, 1), Change(1, 1), Change(0, 0), 1, 1.0, Rate(14.1636, 1234.0))
    short = replace(report(candidate(cost=alone), control=one), commands=1, segments=1)
    assert "1 command from outside, 1 segment." in window_sentence(short)
    assert "per person and day, of 1 person</dt><dd>14.16 → 1,234.00" in page(short)
    assert "of 2 people" in page(report())
    assert (change(14.1636, 15.1), change(0.001, 0.002)) == ("+0.94", "=")


async def test_two_backtests_of_one_recording_give_the_same_page() -> None:
    async with recorded(runs, notifications, steps=25) as live:
        plan = planned({"strict": {"runs": {"daily_run_budget": 1}}, "none": {}})
        first, second = page(await live.bt.backtest(plan)), page(await live.bt.backtest(plan))
    assert first == second
    elements(first)
