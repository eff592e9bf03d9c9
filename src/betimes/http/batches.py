"""Answers of batches: one entry for each item, in order, with its body or its problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from betimes.core.errors import Invalid
from betimes.http.problems import Problem, problem_of
from betimes.http.routes import Answer

BATCH_MAX = 500
Body = TypeVar("Body")


class Items(msgspec.Struct, Generic[Body], frozen=True, forbid_unknown_fields=True):
    """Several requests in place of one."""

    items: Annotated[list[Body], msgspec.Meta(min_length=1, max_length=BATCH_MAX)]


class BatchItem(msgspec.Struct, Generic[Body], frozen=True):
    """As the single call would have answered; exactly one of `body` and `problem` is set."""

    index: int
    status: int
    body: Body | None
    problem: Problem | None


class Batch(msgspec.Struct, Generic[Body], frozen=True):
    items: list[BatchItem[Body]]


def batch_item(place: int, answer: Any, name: str = "items") -> BatchItem[Any]:
    """The entry for an answer, a bare body, or an error; bad fields are named by where they are in the batch."""
    if isinstance(answer, BaseException):
        problem, _ = problem_of(_place_in_batch(answer, f"{name}[{place}]"))
        return BatchItem(place, problem.status, None, problem)
    told = answer if isinstance(answer, Answer) else Answer(answer)
    return BatchItem(place, told.status, told.body, None)


def batch(answers: Sequence[Any], name: str = "items") -> Batch[Any]:
    return Batch([batch_item(place, answer, name) for place, answer in enumerate(answers)])


def _place_in_batch(error: BaseException, path: str) -> BaseException:
    if not isinstance(error, Invalid):
        return error
    problems = ((name if name.startswith(path) else f"{path}.{name}", message) for name, message in error.problems)
    return Invalid(str(error), tuple(problems))
