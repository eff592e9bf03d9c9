"""Assertions that say what was expected and what was found, whatever runs the checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from betimes.core.errors import StoreError


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def expect_equal(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}\n  expected: {expected!r}\n  found:    {found!r}")


@contextmanager
def expect_refusal(kind: type[StoreError], what: str) -> Iterator[None]:
    """The block must be refused with exactly this error."""
    try:
        yield
    except StoreError as error:
        if not isinstance(error, kind):
            raise AssertionError(f"{what}: {kind.__name__} was expected, not {error!r}") from error
    else:
        raise AssertionError(f"{what}: {kind.__name__} was expected, nothing was refused")
