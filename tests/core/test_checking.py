"""What is wrong with a request is said all at once, each with its path."""

import ast
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from betimes.core.checks import Unreadable, check_value, examine
from betimes.core.errors import Invalid
from betimes.core.problem_texts import describe_problem


class Cat(msgspec.Struct, tag_field="kind", tag="cat", forbid_unknown_fields=True):
    lives: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Dog(msgspec.Struct, tag_field="kind", tag="dog"):
    name: str


class House(msgspec.Struct, forbid_unknown_fields=True):
    street: Annotated[str, msgspec.Meta(max_length=5)]
    pets: list[Cat | Dog] = []
    rooms: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    best: Cat | None = None


def wrong(value: Any) -> list[str]:
    with pytest.raises(Invalid) as refusal:
        check_value(value, House)
    return sorted(path for path, _ in refusal.value.problems)


def test_what_fits_is_converted() -> None:
    assert check_value({"street": "Elm", "pets": [{"kind": "cat", "lives": 9}]}, House) == House("Elm", [Cat(9)])


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({}, ["street"]),
        ({"street": "too long", "colour": 1}, ["colour", "street"]),
        ({"street": "Elm", "pets": [{"kind": "cat", "lives": 0}, {"kind": "dog"}]}, ["pets[0].lives", "pets[1].name"]),
        ({"street": "Elm", "pets": [{"kind": "eel"}]}, ["pets[0].kind"]),
        ({"street": "Elm", "pets": [{"kind": "cat", "lives": 1, "tail": 2}]}, ["pets[0].tail"]),
        ({"street": "Elm", "rooms": {"hall": 0, "loft": "x", "attic": 1}}, ["rooms.hall", "rooms.loft"]),
        ({"street": "Elm", "best": {"kind": "cat", "lives": 10}}, ["best.lives"]),
        ([], [""]),
    ],
)
def test_every_problem_is_named_by_its_path(value: Any, paths: list[str]) -> None:
    assert wrong(value) == paths


class Parcel(msgspec.Struct):
    text: str
    inside: "Parcel | None" = None

    def __post_init__(self) -> None:
        if self.text == "heavy":
            raise ValueError("text: too heavy")
        if self.text == "odd":
            raise ValueError("this: cannot be")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"text": "heavy"}, ("text", "too heavy")),
        ({"text": "light", "inside": {"text": "heavy"}}, ("inside.text", "too heavy")),
        ({"text": "odd"}, ("", "this: cannot be")),
    ],
)
def test_a_struct_that_refuses_its_own_field_names_it(value: Any, problem: tuple[str, str]) -> None:
    with pytest.raises(Invalid) as refusal:
        check_value(value, Parcel)
    assert refusal.value.problems == (problem,)


class Home(msgspec.Struct, frozen=True):
    pet: Cat | Dog | None = None
    size: Literal["small", "large"] | None = None


def test_a_choice_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(Invalid) as refused:
        check_value({"pet": {"kind": "cow"}, "size": "huge"}, Home)
    assert refused.value.problems == (
        ("pet.kind", "must be cat or dog, not 'cow'"),
        ("size", "must be small or large, not 'huge'"),
    )


def test_a_choice_in_another_case_names_the_one_that_is_meant() -> None:
    with pytest.raises(Invalid) as refused:
        check_value({"size": "Large"}, Home)
    told = "did you mean large? It must be small or large, not 'Large'"
    assert refused.value.problems == (("size", told),)


class Stay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    guest: str
    arrives_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    nights: int = 1
    price: Decimal | None = None
    notes: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.nights < 1:
            raise ValueError("nights: at least 1")
        if self.notes.get("dog"):
            raise ValueError("notes: no dogs")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arrives_at", "0001-01-01T00:00:00+23:00"),
        ("arrives_at", "1969-12-31T23:59:59.999999Z"),
        ("arrives_at", "9999-12-31T23:59:59-01:00"),
        ("arrives_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23)))),
        ("guest", "a\0b"),
        ("guest", "\ud800"),
        ("nights", 2**63),
        ("price", "NaN"),
        ("price", "1e999999"),
        ("price", Decimal("1e-101")),
        ("notes", {"x": [float("inf")]}),
        ("notes", {"x": "\udfff"}),
        ("notes", {"x": 10**301}),
        ("notes", {"x": object()}),
    ],
)
def test_what_could_not_be_shown_again_is_refused_at_the_door(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        check_value({"guest": "ann", field: value}, Stay)
    assert [path.partition(".")[0] for path, _ in refusal.value.problems] == [field]


@pytest.mark.parametrize(
    "value",
    [
        {"guest": "🕰", "arrives_at": "1970-01-01T01:00:00+01:00"},
        {"guest": "ann", "arrives_at": "9999-12-31T23:59:59.999999Z", "nights": 2**63 - 1},
        {"guest": "ann", "notes": {"x": "a\0b", "y": [10**300, 1e308, None, True]}, "price": "0.000001"},
    ],
)
def test_what_is_just_within_bounds_is_taken(value: Any) -> None:
    assert check_value(value, Stay).guest == value["guest"]


def test_a_struct_refuses_every_field_it_can_though_others_are_wrong() -> None:
    with pytest.raises(Invalid) as refusal:
        check_value({"guest": 1, "nights": 0, "notes": {"dog": 1}, "cat": 1}, Stay)
    assert [path for path, _ in refusal.value.problems] == ["guest", "cat", "nights", "notes"]


def _early(stay: Stay) -> Iterator[tuple[str, str]]:
    if stay.arrives_at and stay.arrives_at.year < 2000:
        yield "arrives_at", "too early"


def _dear(stay: Stay) -> Iterator[tuple[str, str]]:
    if stay.nights > 3 and stay.guest != "ann":
        yield "nights", "only ann stays so long"


def test_rules_judge_what_is_sound_of_it_in_the_same_answer() -> None:
    with pytest.raises(Invalid) as refusal:
        check_value(
            {"guest": "bob", "nights": 4, "price": "dear", "arrives_at": "1980-01-01T00:00:00Z"},
            Stay,
            "stay",
            (_early, _dear),
        )
    assert [path for path, _ in refusal.value.problems] == ["stay.price", "stay.arrives_at", "stay.nights"]
    with pytest.raises(Invalid) as unreadable:
        check_value({"guest": 7, "nights": 4}, Stay, rules=(_early, _dear))
    assert [path for path, _ in unreadable.value.problems] == ["guest"]


def test_a_part_that_is_wrong_is_still_of_its_type_to_a_rule() -> None:
    examined = examine({"guest": 1, "nights": 2}, Stay)
    match examined.value:
        case Stay(nights=nights):
            assert nights == 2
        case _:
            pytest.fail("not a stay")
    with pytest.raises(Unreadable):
        _ = examined.value.guest


def test_many_problems_are_counted_and_the_first_described() -> None:
    with pytest.raises(Invalid) as refusal:
        check_value({"guest": "ann", **{f"x{n}": n for n in range(5_000)}}, Stay)
    assert len(refusal.value.problems) == 20
    assert refusal.value.total == 5_000
    assert len(str(refusal.value)) < 2_000


def test_looking_for_problems_is_linear_in_what_was_sent() -> None:
    """Counted in steps of the interpreter, not in time."""

    def steps(count: int) -> int:
        taken = 0

        def step(*_: Any) -> None:
            nonlocal taken
            taken += 1

        body = {"guest": "ann", **{f"x{n}": n for n in range(count)}}
        sys.setprofile(step)
        try:
            examine(body, Stay)
        finally:
            sys.setprofile(None)
        return taken

    assert steps(4_000) < 5 * steps(1_000)


def test_items_past_the_most_there_may_be_are_not_looked_through() -> None:
    kind = Annotated[list[Stay], msgspec.Meta(max_length=3)]
    found = examine([{}] * 100_000, kind).found
    assert found.first == [("", "at most 3; it has 100,000")]
    assert examine([{}] * 100_000, list[Stay]).found.total <= 10_000


TimeOfDay = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{2}:[0-9]{2}$", description="a time of day, such as 08:30")]


class Hours(msgspec.Struct, forbid_unknown_fields=True):
    start: TimeOfDay | None = None
    more: list[TimeOfDay] = []
    named: dict[TimeOfDay, int] = {}


def test_what_a_text_must_look_like_is_told_in_words() -> None:
    with pytest.raises(Invalid) as refused:
        check_value({"start": "9", "more": ["10:00", "x"], "named": {"7": 1}}, Hours)
    words = "must be a time of day, such as 08:30"
    assert refused.value.problems == (("start", words), ("more[1]", words), ("named", f"a key in it {words}"))


def test_every_pattern_is_described_in_words() -> None:
    for file in (Path(__file__).parents[2] / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "Meta":
                names = {keyword.arg for keyword in node.keywords}
                assert "pattern" not in names or "description" in names, f"{file.name}:{node.lineno}"


class Trip(msgspec.Struct, frozen=True):
    pet: Cat | Dog | None = None
    nights: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1
    share: Annotated[float, msgspec.Meta(gt=0)] = 1
    guests: Annotated[list[str], msgspec.Meta(min_length=1)] = msgspec.field(default_factory=lambda: ["ann"])
    room: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "7"
    leaves_at: datetime | None = None
    is_paid: bool = False


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("pet", {}, ("pet.kind", "is required: cat or dog")),
        ("pet", "cat", ("pet", "must be an object or null, not a string")),
        ("nights", "3", ("nights", "must be a whole number, not a string")),
        ("nights", 2.5, ("nights", "must be a whole number, not a number with a fraction")),
        ("nights", 0, ("nights", "must be at least 1")),
        ("nights", 31, ("nights", "must be at most 30")),
        ("share", 0, ("share", "must be more than 0")),
        ("guests", None, ("guests", "must be an array, not null")),
        ("guests", ["ann", 5], ("guests[1]", "must be a string, not a whole number")),
        ("room", "", ("room", "must not be empty")),
        ("room", "1234", ("room", "must have at most 3 characters")),
        ("leaves_at", "tomorrow", ("leaves_at", "must be an instant, such as 2026-01-05T09:00:00Z")),
        ("is_paid", "yes", ("is_paid", "must be true or false, not a string")),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_json(field: str, value: Any, problem: tuple[str, str]) -> None:
    with pytest.raises(Invalid) as refused:
        check_value({field: value}, Trip)
    assert refused.value.problems == (problem,)


def test_a_problem_that_is_not_known_is_told_as_it_is() -> None:
    assert describe_problem("Something else - at `$.a[0].b`", int) == ("a[0].b", "Something else")


@pytest.mark.parametrize("name", ["", "a`b", "`", "a\nb"])
def test_a_field_of_any_name_is_named(name: str) -> None:
    message = f"Object contains unknown field `{name}`"
    assert describe_problem(message, Any) == ("", f"no such field: {name}")
