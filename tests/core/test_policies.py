"""A policy is merged from layers, checked as a whole, and named by what it says."""

from decimal import Decimal
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.errors import Invalid, PolicyInvalid
from betimes.core.policies import PolicyBook, merge

Share = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Caps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hour: Annotated[int, msgspec.Meta(ge=1)] = 4
    day: Annotated[int, msgspec.Meta(ge=1)] = 20

    def __post_init__(self) -> None:
        if self.hour > self.day:
            raise ValueError("an hour may not hold more than a day")


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    caps: Caps = Caps()
    share: Share = 50
    threshold: Decimal = Decimal("0.65")
    modes: dict[str, str] = {}


class Inbox(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quiet: bool = True
    zone: str = "UTC"


class Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listed: ClassVar[str] = "entries"

    entries: tuple[Share, ...] = ()
    source: str = "here"


BOOK = PolicyBook({"runs": Runs, "inbox": Inbox})
bodies = st.fixed_dictionaries(
    {},
    optional={
        "runs": st.fixed_dictionaries(
            {},
            optional={
                "caps": st.fixed_dictionaries({}, optional={"hour": st.integers(1, 4), "day": st.integers(4, 99)}),
                "share": st.integers(0, 100),
                "threshold": st.decimals(0, 1, places=4).map(str),
                "modes": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
            },
        ),
        "inbox": st.fixed_dictionaries({}, optional={"quiet": st.booleans(), "zone": st.text(max_size=9)}),
    },
)


def refused(*layers: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(PolicyInvalid) as refusal:
        BOOK.effective(*layers)
    assert all(path in str(refusal.value) for path, _ in refusal.value.problems)
    return dict(refusal.value.problems)


def test_a_policy_without_layers_is_the_defaults() -> None:
    policy = BOOK.effective()
    assert (policy[Runs], policy[Inbox]) == (Runs(), Inbox())


def test_later_layers_lie_over_earlier_ones() -> None:
    policy = BOOK.effective({"runs": {"caps": {"hour": 2, "day": 9}, "share": 10}}, {"runs": {"caps": {"hour": 3}}})
    assert policy[Runs] == Runs(caps=Caps(3, 9), share=10)


def test_mappings_are_merged_and_everything_else_replaced() -> None:
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    assert merge(base, {"a": {"y": [3]}, "b": {"z": 1}}) == {"a": {"x": 1, "y": [3]}, "b": {"z": 1}}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}


def test_something_of_another_kind_takes_the_place_of_the_first() -> None:
    python, webhook = {"kind": "python", "name": "brief"}, {"kind": "webhook", "url": "https://example.org"}
    assert merge({"handler": python}, {"handler": webhook}) == {"handler": webhook}
    assert merge({"handler": python}, {"handler": {"name": "other"}}) == {
        "handler": {"kind": "python", "name": "other"}
    }


trees = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8)
mappings = st.dictionaries(st.sampled_from("abc"), trees)


@given(mappings, mappings)
def test_what_lies_on_top_is_what_counts(base: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merge(base, over)
    assert merge(merged, over) == merged
    assert merged.keys() == base.keys() | over.keys()
    assert merge({}, over) == over == merge(over, {})
    assert merge(base, base) == base


def test_an_unknown_section_is_refused_with_those_that_are_known() -> None:
    assert refused({"rnus": {}}) == {"rnus": "no such section; known: inbox, runs"}


def test_every_bad_path_is_named_at_once() -> None:
    problems = refused(
        {
            "rnus": {},
            "inbox": {"quiet": "maybe", "zone": 3},
            "runs": {"caps": {"hour": 0, "day": "many", "week": 1}, "share": 101},
        }
    )
    assert problems.keys() == {
        "rnus",
        "inbox.quiet",
        "inbox.zone",
        "runs.caps.hour",
        "runs.caps.day",
        "runs.caps.week",
        "runs.share",
    }
    assert problems["runs.share"] == "must be at most 100"


def test_values_that_do_not_go_together_are_refused() -> None:
    assert refused({"runs": {"caps": {"hour": 9, "day": 8}}}) == {"runs.caps": "an hour may not hold more than a day"}


def test_a_section_that_is_no_mapping_is_refused() -> None:
    assert refused({"runs": 5}).keys() == {"runs"}
    assert refused({"runs": {"caps": None}}).keys() == {"runs.caps"}


def test_a_bad_value_inside_a_table_is_named() -> None:
    assert refused({"runs": {"modes": {"night": 3}}}).keys() == {"runs.modes.night"}


@given(bodies)
def test_a_saved_policy_is_the_policy_it_was(body: dict[str, Any]) -> None:
    policy = BOOK.effective(body)
    again = BOOK.from_stored(policy.body)
    assert (again[Runs], again[Inbox]) == (policy[Runs], policy[Inbox])
    assert (again.fingerprint, again.body) == (policy.fingerprint, policy.body)


@given(bodies, bodies)
def test_two_policies_share_a_fingerprint_only_if_they_say_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = BOOK.effective(one), BOOK.effective(other)
    assert (first.fingerprint == second.fingerprint) == (first.body == second.body)


def test_saying_the_default_aloud_is_the_same_policy() -> None:
    assert BOOK.effective({"runs": {"share": 50}}).fingerprint == BOOK.effective().fingerprint


def test_a_known_fingerprint_stays_as_it_is() -> None:
    assert BOOK.effective({"runs": {"share": 7}}).fingerprint == "b852b32cd881f783"


def test_two_sections_of_one_type_are_refused_by_name() -> None:
    with pytest.raises(Invalid, match="'runs' and 'walks' are both Runs"):
        PolicyBook({"runs": Runs, "walks": Runs})


def test_a_section_nobody_passed_says_how_to_pass_it() -> None:
    with pytest.raises(Invalid, match=r"no section Inbox; pass it as sections={'…': Inbox}"):
        PolicyBook({"runs": Runs}).effective()[Inbox]


@pytest.mark.parametrize("body", [None, 5, "runs", ["runs"]])
def test_a_body_that_is_no_mapping_is_a_named_problem(body: Any) -> None:
    assert refused(body).keys() == {"policy"}
    assert refused({"runs": {"share": 101}}, body).keys() == {"policy", "runs.share"}


@pytest.mark.parametrize("section", [None, 5, "share", ["share"], Runs()])
def test_a_section_that_is_no_mapping_says_what_it_is(section: Any) -> None:
    problem = refused({"runs": section})["runs"]
    assert problem == f"expected a mapping of names to values, got {type(section).__name__}"


def test_a_name_that_is_no_text_is_a_named_problem() -> None:
    assert refused({1: {}, "rnus": {}}).keys() == {"1", "rnus"}  # type: ignore[dict-item]


def test_a_section_may_be_written_as_the_list_it_is_short_for() -> None:
    book = PolicyBook({"steps": Steps})
    assert book.effective({"steps": [1, 2]})[Steps] == Steps((1, 2))
    assert book.effective({"steps": {"source": "there"}}, {"steps": [3]})[Steps] == Steps((3,), "there")
    assert book.from_stored(book.effective({"steps": [1]}).body)[Steps] == Steps((1,))


def test_a_bad_item_of_such_a_list_is_named() -> None:
    with pytest.raises(PolicyInvalid) as refusal:
        PolicyBook({"steps": Steps}).effective({"steps": [1, 200, "x"]})
    assert [path for path, _ in refusal.value.problems] == ["steps.entries[1]", "steps.entries[2]"]


class Table(msgspec.Struct, frozen=True):
    weights: dict[str, int] = msgspec.field(default_factory=lambda: {"a": 1, "b": 2})


def test_an_override_of_one_entry_of_a_table_leaves_the_other_defaults() -> None:
    assert PolicyBook({"table": Table}).effective({"table": {"weights": {"b": 3, "c": 4}}})[Table].weights == {
        "a": 1,
        "b": 3,
        "c": 4,
    }


def test_a_stored_policy_is_what_it_was_whatever_the_defaults_are_now() -> None:
    assert PolicyBook({"table": Table}).from_stored('{"table":{"weights":{"a":9}}}')[Table].weights == {"a": 9}
