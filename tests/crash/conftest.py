"""Every test that takes `place` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scene import Place
from tests.crash.servers import postgres_place

STORES = [pytest.param("sqlite", id="sqlite"), pytest.param("postgres", id="postgres", marks=pytest.mark.postgres)]


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return Place(path=str(tmp_path / "betimes.db"))


@pytest.fixture
def postgres() -> Iterator[Place]:
    with postgres_place() as place:
        yield place


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(path=str(tmp_path / "betimes.db"))
    else:
        with postgres_place() as place:
            yield place
