"""`betimes console` finds the server that runs, and says where the page is."""

from __future__ import annotations

import pytest

from betimes.console.command import console, is_answering, open_console
from betimes.core.errors import Invalid
from tests.console.town import Served


def test_the_page_is_opened_or_its_address_told(capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def open_page(page: str) -> bool:
        opened.append(page)
        return True

    open_console("http://127.0.0.1:1", open_page)
    assert opened == ["http://127.0.0.1:1/console"]
    open_console("http://127.0.0.1:1", lambda page: False)
    assert "no browser could be opened; the console is at http://127.0.0.1:1/console" in capsys.readouterr().out


def test_a_server_that_answers_is_found(nothing: Served) -> None:
    assert is_answering(nothing.address)
    assert not is_answering("http://127.0.0.1:1")


def test_an_address_where_nobody_answers_is_refused_with_the_next_step() -> None:
    with pytest.raises(Invalid, match="betimes serve"):
        console(url="http://127.0.0.1:1")
    with pytest.raises(Invalid, match="begins with http"):
        console(url="127.0.0.1:8080")
