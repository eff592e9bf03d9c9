"""Every error has a code, and every code one status and one exit code."""

from collections.abc import Iterator

import pytest

from betimes.core import errors
from betimes.core.errors import STATUS, BetimesError, Invalid, Refused, StoreError


def classes(of: type[BetimesError] = BetimesError) -> Iterator[type[BetimesError]]:
    yield of
    for below in of.__subclasses__():
        yield from classes(below)


OURS = [kind for kind in classes() if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_says_what_it_means(kind: type[BetimesError]) -> None:
    http, exit_code = STATUS[kind.code]
    assert 400 <= http <= 599
    assert 64 <= exit_code <= 78
    assert kind.__doc__


def test_every_status_belongs_to_an_error() -> None:
    assert {kind.code for kind in OURS} == set(STATUS)


def test_a_store_has_exactly_five_answers() -> None:
    names = {kind.__name__ for kind in StoreError.__subclasses__()}
    assert names == {"Conflict", "Duplicate", "Fenced", "Unavailable", "Unknown"}
    assert len({kind.code for kind in StoreError.__subclasses__()}) == 5


def test_an_error_knows_its_status() -> None:
    refused = Refused("QUIET_HOURS", "not at night")
    assert (refused.reason, str(refused)) == ("QUIET_HOURS", "not at night")
    assert (refused.http_status, refused.exit_code) == STATUS["REFUSED"]
    assert Invalid("bad", (("field", "missing"),)).problems == (("field", "missing"),)
