"""What is wrong with a request is said all at once, each with its path."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from betimes.core.checking import checked
from betimes.core.errors import Invalid


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
        checked(value, House)
    return sorted(path for path, _ in refusal.value.problems)


def test_what_fits_is_converted() -> None:
    assert checked({"street": "Elm", "pets": [{"kind": "cat", "lives": 9}]}, House) == House("Elm", [Cat(9)])


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
        checked(value, Parcel)
    assert refusal.value.problems == (problem,)


class Home(msgspec.Struct, frozen=True):
    pet: Cat | Dog | None = None
    size: Literal["small", "large"] | None = None


def test_a_choice_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(Invalid) as refused:
        checked({"pet": {"kind": "cow"}, "size": "huge"}, Home)
    assert refused.value.problems == (
        ("pet.kind", "Invalid value 'cow'; one of cat, dog"),
        ("size", "Invalid enum value 'huge'; one of small, large"),
    )
