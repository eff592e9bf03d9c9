"""A view has the fields of its model, rendered as its own types ask; a new field is declared and copied nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from betimes.core.instants import SECOND, Instant
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView


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
