"""Commands in a folder without a database: all but those that begin one leave the folder as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclopts import App

from betimes.core.errors import STATUS
from tests.cli.running_inside import command as betimes
from tests.cli.test_documents import builder

STAYS = {"serve", "worker", "console", "demo"}
"""These begin a database or have their own, and stay."""
BEGINS = {"tick", "key create", "policy apply", "schedule put", "sensor put", "intent put"}
NEEDS_NONE = {"config", "secrets key", "schedule preview", "intent check", "policy check"}
INTENT = {
    "user_id": "ana",
    "trigger_type": "interval",
    "schedule": {"interval_minutes": 60},
    "action_type": "notify",
    "action_context": "look",
}
POLICY = "policy.json"
WORDS = {
    "explain": ["run:none:1"],
    "sensor cursor": ["x", "null", "--state-version", "1"],
    "schedule preview": ["*/5 * * * *"],
    "backtest": ["--policy", POLICY],
    "policy check": [POLICY],
    "policy apply": [POLICY],
    "intent check": ["intent.json"],
    "key create": ["--scope", "admin"],
}
COMMANDS = {name: command for name, command in builder().commands() if name not in STAYS}


def _words(name: str, command: App) -> list[str]:
    """Return a command with what it cannot do without."""
    if name in WORDS:
        return [*name.split(), *WORDS[name]]
    places = [one for one in command.assemble_argument_collection() if one.index is not None and one.required]
    return [*name.split(), *("x" for _ in places)]


def _refused(folder: Path, *words: str) -> str:
    said = betimes(*words, "--json", folder=folder)
    assert (said.code, said.problem["code"]) == (STATUS["NOT_FOUND"][1], "NOT_FOUND"), said.err + said.out
    return str(said.problem["detail"])


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - BEGINS - NEEDS_NONE))
def test_a_command_makes_no_database_to_look_into(name: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    before = {*folder.iterdir()}
    assert _refused(folder, *_words(name, COMMANDS[name])) == (
        "there is no database betimes.db; say which is meant with --db, or begin one with betimes serve"
    )
    assert {*folder.iterdir()} == before


@pytest.mark.parametrize("name", sorted(NEEDS_NONE))
def test_a_command_that_needs_no_database_makes_none(name: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    before = {*folder.iterdir()}
    said = betimes(*_words(name, COMMANDS[name]), folder=folder)
    assert said.code == 0, said.err + said.out
    assert {*folder.iterdir()} == before


def test_a_database_that_is_named_is_looked_for_also_by_a_command_that_needs_none(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    assert "no database coppy.db" in _refused(folder, "policy", "check", POLICY, "--db", "sqlite:///coppy.db")


def test_a_hold_is_begun_and_not_looked_up_where_there_is_no_database(tmp_path: Path) -> None:
    _refused(tmp_path, "hold", "--end")
    assert [*tmp_path.iterdir()] == []
    betimes("hold", "--until", "2100-01-01T00:00:00", "--reason", "x", folder=tmp_path)
    assert (tmp_path / "betimes.db").exists()


def _folder(folder: Path) -> Path:
    (folder / POLICY).write_text("{}")
    (folder / "intent.json").write_text(json.dumps(INTENT))
    return folder
