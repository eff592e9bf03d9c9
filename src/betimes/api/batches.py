"""Answers of batches: one entry for each item, in order, with its body or its problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from betimes.api.problems import Problem, problem_of
from betimes.api.routes import Answer
from betimes.core.errors import Invalid


class BatchItem(msgspec.Struct, frozen=True):
    """As the single call would have answered; exactly one of `body` and `problem` is set."""

    index: int
    status: int
    body: Any
    problem: Problem | None


class Batch(msgspec.Struct, frozen=True):
    items: list[BatchItem]


def batch_item(place: int, answer: Any, name: str = "items") -> BatchItem:
    """The entry for an answer, a bare body, or an error; bad fields are named by where they are in the batch."""
    if isinstance(answer, BaseException):
        problem, _ = problem_of(_placed(answer, f"{name}[{place}]"))
        return BatchItem(place, problem.status, None, problem)
    told = answer if isinstance(answer, Answer) else Answer(answer)
    return BatchItem(place, told.status, told.body, None)


def batch(answers: Sequence[Any], name: str = "items") -> Batch:
    return Batch([batch_item(place, answer, name) for place, answer in enumerate(answers)])


def _placed(error: BaseException, path: str) -> BaseException:
    if not isinstance(error, Invalid):
        return error
    problems = ((name if name.startswith(path) else f"{path}.{name}", message) for name, message in error.problems)
    return Invalid(str(error), tuple(problems))
