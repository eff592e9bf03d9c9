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
        path, found, expected = _narrowed(found, expected)
        raise AssertionError(f"{what}{path}\n  expected: {expected!r}\n  found:    {found!r}")


def _narrowed(found: Any, expected: Any) -> tuple[str, Any, Any]:
    """The first part in which two values differ, with the way to it."""
    match found, expected:
        case dict(), dict() if found.keys() == expected.keys():
            place = next(key for key in expected if found[key] != expected[key])
        case (list(), list()) | (tuple(), tuple()) if len(found) == len(expected) > 1:
            place = next(i for i, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other)
        case _:
            return "", found, expected
    path, found, expected = _narrowed(found[place], expected[place])
    return f"[{place}]{path}", found, expected


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
