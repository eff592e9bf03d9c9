"""A state whose text depends on which object a default is, and not on its value, is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec
import pytest

from betimes.core.deciders import Decider, Decision
from betimes.core.errors import Invalid
from betimes.engine.codecs import Kinds, spelt_by_identity


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = "nobody"


class Holder(msgspec.Struct, frozen=True):
    held: tuple[Named | None, ...] = ()


class Harmless(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str = ""
    count: int = 7
    mode: Literal["first", "last"] = "first"
    maybe: Literal["first", "last"] | None = "first"
    at: int | None = None
    parts: dict[str, int] = {}


class Spelt(msgspec.Struct, frozen=True):
    name: str = "nobody"
    share: Decimal = Decimal("0.5")


def test_the_danger_is_real() -> None:
    live, read = Named("nobody"), msgspec.json.decode('{"name":"nobody"}', type=Named)
    assert live == read
    assert msgspec.json.encode(live) != msgspec.json.encode(read)


def test_it_is_found_wherever_it_hides() -> None:
    assert spelt_by_identity(Holder) == ("Named.name",)
    assert spelt_by_identity(Harmless) == ()
    assert spelt_by_identity(Spelt) == ()


def test_such_a_decider_is_refused_by_name() -> None:
    decider = Decider(
        kind="named",
        state=Named,
        commands=Harmless,
        events=Harmless,
        decide=lambda view, command, policy, now: Decision(),
        fold=lambda state, event: state,
    )
    with pytest.raises(Invalid, match=r"Named\.name"):
        Kinds([decider])
