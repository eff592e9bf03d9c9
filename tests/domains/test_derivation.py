"""A view has the fields of its model, rendered as its own types ask; a new field is declared and copied nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from betimes.core.instants import SECOND, Instant
from betimes.domain.derivation import derive, deriver
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import From


class Part(msgspec.Struct, frozen=True):
    starts_at: Instant | None = None


class PartView(JsonView, frozen=True):
    starts_at: datetime | None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    at: Instant
    part: Part | UnsetType = UNSET
    error: str = ""
    cursor: Any = None
    chosen: tuple[str, ...] | UnsetType = UNSET

    @property
    def size(self) -> int:
        return len(self.name)


class View(JsonView, frozen=True, kw_only=True):
    id: str
    name: str
    at: datetime
    part: PartView | None
    error: str | None
    cursor: Any
    chosen: tuple[str, ...]
    size: int
    note: str | None = None


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_AT = int(NOON.timestamp()) * SECOND


def test_a_view_is_rendered_from_its_model() -> None:
    model = Model(name="abc", at=NOON_AT, part=Part(NOON_AT), error="late", cursor="", chosen=("x",))
    shown = View(
        id="m", name="abc", at=NOON, part=PartView(NOON), error="late", cursor="", chosen=("x",), size=3, note=None
    )
    assert derive(View, model, id="m") == shown


def test_what_is_unset_or_empty_is_none_or_an_empty_tuple() -> None:
    view = derive(View, Model(name="", at=0), id="m")
    assert (view.name, view.part, view.error, view.cursor, view.chosen) == ("", None, None, None, ())


def test_a_model_is_derived_from_a_view_and_back() -> None:
    for model in (Model(name="abc", at=NOON_AT, part=Part(NOON_AT), chosen=("x",)), Model(name="abc", at=NOON_AT)):
        again = derive(Model, derive(View, model, id="m"), error=model.error)
        assert again == model


def test_the_first_source_with_a_field_wins_and_what_is_given_wins_over_all() -> None:
    first, second = (
        Model(name="first", at=1),
        View(id="second", name="second", at=NOON, part=None, error=None, cursor=None, chosen=(), size=0, note="noted"),
    )
    view = derive(View, first, second, error="given")
    assert (view.id, view.name, view.note, view.error) == ("second", "first", "noted", "given")


def test_a_field_that_nobody_has_is_missing_by_name() -> None:
    with pytest.raises(TypeError, match="View cannot be filled from Model: nothing has id"):
        derive(View, Model(name="abc", at=0))


def euros(cents: int) -> Decimal:
    return Decimal(cents) / 100


class Price(JsonView, frozen=True):
    """Fields with names that the compiled text could be thought to use itself."""

    kind: str
    at: Annotated[datetime | None, From("asked_at")]
    amount: Annotated[Decimal | None, From("cents", euros)]
    parts: list[PartView]
    instant: str | None = "default"


class Quote(msgspec.Struct, frozen=True):
    asked_at: Instant | None
    cents: int | None
    parts: tuple[Part, ...] = ()
    instant: str | None = ""


def test_a_field_is_taken_from_the_name_that_its_annotation_says_and_rendered() -> None:
    quote = Quote(NOON_AT, 250, (Part(NOON_AT), Part()))
    price = Price("asked", NOON, Decimal("2.5"), [PartView(NOON), PartView(None)], "")
    assert derive(Price, quote, kind="asked") == price
    assert derive(Price, price) == price
    assert derive(Price, Quote(None, None), kind="asked") == Price("asked", None, None, [], "")


class Made(JsonView, frozen=True):
    starts: datetime | None
    """The instant of that name, without its ending."""
    made: bool = False


class MadeAt(msgspec.Struct, frozen=True):
    starts_at: Instant
    made_at: Instant = 0


def test_only_an_instant_may_leave_out_its_ending() -> None:
    assert derive(Made, MadeAt(NOON_AT)) == Made(NOON, made=False)


def test_text_that_may_be_none_itself_stays_as_it_was_written() -> None:
    assert derive(Price, Quote(None, None, instant=""), kind="x").instant == ""
    assert derive(View, Model(name="abc", at=0, error=""), id="m").error is None


def test_what_is_derived_beforehand_is_the_same() -> None:
    show, model = deriver(View, Model, given=("id", "at")), Model(name="abc", at=NOON_AT)
    assert show(model, id="m", at=NOON) == show(model, id="m", at=NOON_AT) == derive(View, model, id="m")
    with pytest.raises(TypeError, match="cannot be filled from Part: nothing has id, name, at, "):
        deriver(View, Part)


class Sent(msgspec.Struct, frozen=True):
    count: int | None = None
    is_strict: bool | None = None
    title: str | None = None


class Kept(msgspec.Struct, frozen=True):
    count: int | UnsetType = UNSET
    is_strict: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET


def test_what_is_left_out_is_empty_and_zero_is_not() -> None:
    assert derive(Kept, Sent(0, False, "")) == Kept(0, False)
    assert derive(Kept, Sent()) == Kept()
