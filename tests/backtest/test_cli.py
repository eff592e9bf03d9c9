"""`betimes backtest`: what it prints, writes and refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from shutil import copy

import pytest

from tests.backtest.recordings import POLICY, notifications, recorded, runs
from tests.cli.running_inside import Said, command

STRICT = "[runs]\ndaily_run_budget = 1\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small database."""
    folder = tmp_path_factory.mktemp("recorded")

    async def record() -> None:
        async with recorded(runs, notifications, steps=25, url=f"sqlite:///{folder}/betimes.db"):
            pass

    asyncio.run(record())
    return folder


@pytest.fixture
def folder(recording: Path, tmp_path: Path) -> Path:
    """A working folder with the database and a policy in it."""
    for file in recording.iterdir():
        copy(file, tmp_path)
    (tmp_path / "strict.toml").write_text(STRICT)
    return tmp_path


def backtest(folder: Path, *words: str, stdin: str = "") -> Said:
    return command("backtest", *words, folder=folder, stdin=stdin)


def test_it_says_first_how_well_the_recorded_policy_is_reproduced_then_what_changes(folder: Path) -> None:
    said = backtest(folder, "--policy", "strict.toml", "--overrides-of", "default")
    assert said.code == 0
    first = said.out.splitlines()[0]
    assert first.startswith("The recorded policy reproduces all ")
    assert "ALLOW→SKIP" in said.out
    assert "BUDGET_EXHAUSTED" in said.out
    assert "told at 00 01 02" in said.out
    assert "→  budget" in said.out


def test_json_and_the_page_are_the_same_bytes_every_time(folder: Path) -> None:
    words = ("--policy", "strict.toml", "--json", "--html")
    first, second = backtest(folder, *words, "one.html"), backtest(folder, *words, "two.html")
    assert first.out == second.out
    assert (folder / "one.html").read_bytes() == (folder / "two.html").read_bytes()
    assert first.json["control"]["reproduced"] is True
    assert first.json["candidates"][0]["name"] == "strict"


def test_a_page_alone_is_written_and_named(folder: Path) -> None:
    said = backtest(folder, "--policy", "strict.toml", "--html", "report.html")
    assert "The report is in report.html." in said.out
    assert "\nstrict: It would have changed " in said.out
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_several_policies_are_tried_at_once_also_from_standard_input(folder: Path) -> None:
    said = backtest(folder, "--policy", "strict.toml", "--policy", "-", "--json", stdin='{"policy": {}}')
    assert [one["name"] for one in said.json["candidates"]] == ["strict", "-"]
    assert said.json["candidates"][1]["policy"] == {}


def test_a_sweep_without_a_policy_tries_values_on_the_one_in_force(folder: Path) -> None:
    said = backtest(folder, "--sweep", "runs.daily_run_budget=1,6", "--json")
    one, six = said.json["candidates"]
    assert (one["name"], six["name"]) == ("runs.daily_run_budget=1", "runs.daily_run_budget=6")
    assert six["policy"] == POLICY
    assert (six["flip_count"], one["flip_count"] > 0) == (0, True)


def test_the_overrides_of_a_tenant_are_tried_on_its_own_traffic(folder: Path) -> None:
    said = backtest(folder, "--policy", "strict.toml", "--overrides-of", "default", "--domain", "runs", "--json")
    assert (said.json["tenant"], said.json["domain"]) == ("default", "runs")
    assert said.json["candidates"][0]["tenant"] == "default"
    assert {line["domain"] for line in said.json["candidates"][0]["outcomes"]} == {"runs"}


def test_a_window_is_kept_to(folder: Path) -> None:
    window = ("--since", "2026-03-27T20:00:00Z", "--until", "2026-03-28T00:00:00Z")
    said = backtest(folder, "--policy", "strict.toml", "--json", *window)
    assert (said.json["since"], said.json["until"]) == ("2026-03-27T20:00:00Z", "2026-03-28T00:00:00Z")
    assert said.json["commands"] < backtest(folder, "--policy", "strict.toml", "--json").json["commands"]


def test_samples_says_how_many_changed_answers_are_shown(folder: Path) -> None:
    none = backtest(folder, "--policy", "strict.toml", "--samples", "0", "--json")
    assert none.json["candidates"][0]["samples"] == []
    assert none.json["candidates"][0]["flip_count"] > 0
    assert "the answer" not in backtest(folder, "--policy", "strict.toml", "--samples", "0").out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--policy", "bad.toml"), 65, "runs.nonsense"),
        (("--policy", "bad.toml", "--policy", "strict.toml"), 65, "bad: runs.nonsense"),
        (("--policy", "missing.toml"), 66, "missing.toml"),
        (("--policy", "strict.toml", "--policy", "strict.toml"), 65, "twice"),
        ((), 65, "needs a policy"),
        (("--sweep", "runs.daily_run_budget"), 65, "section.setting"),
        (("--policy", "strict.toml", "--domain", "cooking"), 65, "cooking"),
        (("--policy", "strict.toml", "--since", "yesterday"), 65, "yesterday"),
        (("--policy", "strict.toml", "--tenant", "a", "--overrides-of", "b"), 65, "one tenant"),
        (("--policy", "strict.toml", "--html", "no/such/folder.html"), 65, "cannot be written"),
        (("--policy", "strict.toml", "--tenant", "nobody"), 66, "nothing is recorded of the tenant 'nobody'"),
        (("--policy", "strict.toml", "--overrides-of", "nobody"), 66, "nothing is recorded of the tenant 'nobody'"),
        (("--policy", "strict.toml", "--html", "."), 65, "cannot be written"),
        (("--policy", "bad.toml", "--sweep", "runs.daily_run_budget=few,1"), 65, "=1: runs.nonsense"),
        (("--policy", "bad.toml", "--policy", "strict.toml"), 65, "1 of the 2 policies"),
        (("--sweep", "runs.daily_run_budget=1", "--sweep", "runs.daily_run_budget=2"), 65, "swept twice"),
        (("--policy", "strict.toml", "--samples", "-1"), 65, "samples_max is -1"),
        (("--policy", "strict.toml", "--samples", "1000000"), 65, "0 to 10000"),
        (("--policy", "strict.toml", "--jobs", "0"), 65, "jobs is 0"),
        (("--policy", "strict.toml", "--jobs", "100000"), 65, "1 to 256"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    (folder / "bad.toml").write_text("[runs]\nnonsense = 1\n")
    refused = backtest(folder, *words)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err


def test_a_window_in_which_nothing_happened_says_so(folder: Path) -> None:
    said = backtest(folder, "--policy", "strict.toml", "--since", "2030-01-01T00:00:00Z")
    assert (said.code, said.out.startswith("Nothing is recorded in this window")) == (0, True)


def test_files_of_one_name_are_told_apart_by_their_folders(folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b" / "strict.toml").write_text("")
    said = backtest(folder, "--policy", "strict.toml", "--policy", "b/strict.toml", "--json")
    assert [one["name"] for one in said.json["candidates"]] == ["strict.toml", "b/strict.toml"]
