"""What callers are told when something behind the API fails."""

from __future__ import annotations

import pytest

from betimes.core.errors import Conflict, Fenced, StoreError, Unavailable, Unknown
from betimes.http.problems import problem_of


@pytest.mark.parametrize("kind", [Unavailable, Unknown, Conflict])
def test_nobody_is_told_where_the_database_is(kind: type[StoreError]) -> None:
    problem, headers = problem_of(kind("PostgreSQL at db.internal:5432, database betimes: no answer"))
    assert (problem.status, headers["Retry-After"]) == (503, "1")
    assert "db.internal" not in str(problem)
    assert problem.error_id


def test_a_lost_claim_says_whose() -> None:
    problem, _ = problem_of(Fenced("the lease on effect account:a:1:0 was lost"))
    assert problem.code == "CLAIM_LOST"
    assert "account:a:1:0" in problem.detail
