"""The pages say what is there, and what they tell people to type works as it is written."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from betimes.app.configuration import Configuration, file_body, parse_configuration
from betimes.cli.main import COMMANDS, application
from betimes.cli.overview import HELP, answer_at_once
from betimes.testing import fixtures
from tests.cli.running import environment, serving
from tests.patience import HANGS_S

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_cli", ROOT / "docs" / "build_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_and_option_is_documented() -> None:
    made = builder()
    assert made.PAGE.read_text() == made.page_with(made.written()), "run python docs/build_cli.py"
    names = {name for name, _ in made.commands()}
    assert {"serve", "key create", "tick", "sweep", "worker", "effects retry", "policy check", "demo"} <= names


def test_the_help_that_is_stored_is_what_the_commands_say(monkeypatch: pytest.MonkeyPatch) -> None:
    made = builder()
    assert Path(HELP).read_text() == made.overview(), "run `make reference`"
    monkeypatch.setenv("COLUMNS", "80")
    assert answer_at_once(["--help"]) == made.overview()
    assert answer_at_once(["serve", "--help"]) is None
    monkeypatch.setenv("COLUMNS", "60")
    assert answer_at_once(["--help"]) is None


def in_path() -> dict[str, str]:
    """An environment in which `betimes` is the one of this Python."""
    return environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's commands are for curl")
def test_the_readmes_commands_work_as_they_are_written(tmp_path: Path) -> None:
    start, ask, look = blocks(README, "sh")
    commands = [line.partition("#")[0].rstrip() for line in start.splitlines()]
    assert commands == ["pip install '.[server]'", "betimes serve --dev"]
    with serving("serve", "--dev", folder=tmp_path, BETIMES_SERVER__PORT="0") as server:
        asked = _shell(ask.replace("http://127.0.0.1:8080", server.url), tmp_path)
        verdicts = [msgspec.json.decode(body) for body in asked.replace("}{", "}\n{").splitlines()]
        assert [(verdict["result"], verdict["reason"]) for verdict in verdicts] == [
            ("ALLOW", "WITHIN_LIMITS"),
            ("SKIP", "DEBOUNCED"),
        ]
        looked = _shell(look, tmp_path)
    assert "bt_acme~" in looked
    assert "WITHIN_LIMITS" in looked
    assert "True" in looked


def _shell(script: str, folder: Path) -> str:
    command = ["/bin/sh", "-e", "-c", script]
    ended = subprocess.run(
        command, cwd=folder, env=in_path(), capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("containing", "says"), [("quick_start", "NOW"), ("mornings", "")], ids=["library", "virtual time"]
)
def test_the_readmes_programs_run(tmp_path: Path, containing: str, says: str) -> None:
    (program,) = [block for block in blocks(README, "python") if containing in block]
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert says in ended.stdout


def test_the_page_on_testing_is_tested(tmp_path: Path) -> None:
    """Its program as it is, its fixtures as a user's pytest finds them."""
    month, conftest, night, *_ = blocks((ROOT / "docs" / "testing.md").read_text(), "python")
    exec(month, {})
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_night.py").write_text(night)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_night.py"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_every_command(shell: Any) -> None:
    script = application().generate_completion(shell=shell)
    assert all(re.search(rf"\b{name}\b", script) for name in COMMANDS)


def test_every_fixture_is_documented() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    made = [name for name, found in vars(fixtures).items() if type(found).__name__ == "FixtureFunctionDefinition"]
    assert len(made) == 4
    assert all(f"`{name}`" in page for name in made)


def test_the_configuration_on_its_page_is_valid_and_names_every_section(tmp_path: Path) -> None:
    named = set()
    for number, example in enumerate(blocks((ROOT / "docs" / "configuration.md").read_text(), "toml")):
        (tmp_path / f"{number}.toml").write_text(example)
        body = file_body(tmp_path / f"{number}.toml")
        parse_configuration(body)
        named |= set(body)
    assert named == set(Configuration.__struct_fields__)


def test_what_is_public_is_named_twice_alike() -> None:
    """Once for type checkers, once for what is loaded when it is used."""
    import ast

    import betimes

    tree = ast.parse(Path(betimes.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == betimes._PLACES
    assert set(betimes.__all__) == set(imported)
    assert all(getattr(betimes, name) is not None for name in betimes.__all__)


def test_importing_the_package_loads_nothing_else() -> None:
    command = [sys.executable, "-c", "import sys, betimes; print([n for n in sys.modules if n.startswith('betimes.')])"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=HANGS_S, check=True)
    assert ended.stdout.strip() == "[]"
