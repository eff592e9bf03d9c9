"""The first snippet of every page runs as printed, in an empty folder, as it would for a stranger.

A Python snippet is a program. A shell snippet is run line by line: what stays (a server, the demo) is started, seen to
say something, and stopped; `pip install` was done by whoever runs these tests. A configuration is read by `betimes
config`.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import environment
from tests.patience import HANGS_S

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
NOTHING_TO_RUN = {
    "docs/architecture.md": "where things are",
    "docs/concepts.md": "a picture of how a command is decided",
    "docs/deployment.md": "lines for crontab, Kubernetes and nginx",
    "docs/dst.md": "a generated table",
    "docs/guarantees.md": "promises; tests/crash holds them",
    "docs/index.md": "links",
    "docs/measurements.md": "what was measured",
    "docs/reference.md": "generated",
    "docs/reliability.md": "long runs; tests/soak has them at a small scale",
    "docs/stores.md": "statements for the shells of both databases",
}
"""Pages whose first snippet is no program, and why."""
PICTURES_BYTES_MAX = 1_500_000
STAYS = ("serve", "worker", "demo")


def first_snippet(page: str) -> tuple[str, str] | None:
    """Return the language and the text of the first snippet that a reader could run."""
    found = re.search(r"^```(python|sh|toml)\n(.*?)^```$", (ROOT / page).read_text(), flags=re.M | re.S)
    return (found[1], found[2]) if found else None


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOTHING_TO_RUN])
def test_the_first_snippet_of_a_page_runs_as_printed(page: str, tmp_path: Path) -> None:
    snippet = first_snippet(page)
    assert snippet, f"{page} has no snippet to run; add one, or say in NOTHING_TO_RUN why not"
    language, text = snippet
    if language == "python":
        (tmp_path / "snippet.py").write_text(text)
        run([sys.executable, "snippet.py"], tmp_path)
    elif language == "toml":
        (tmp_path / "betimes.toml").write_text(text)
        run([*BETIMES, "config"], tmp_path)
    else:
        for line in text.replace("\\\n", " ").splitlines():
            run_line(shlex.split(line, comments=True), tmp_path)


def test_the_programs_of_all_pages_run_one_after_the_other_in_one_folder(tmp_path: Path) -> None:
    programs: list[str] = []
    for page in PAGES:
        for text in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), flags=re.M | re.S):
            if '.db"' in text and re.match("import|from", text) and "asynccontextmanager" not in text:
                programs.append(f"{page.replace('/', '_')}_{len(programs)}.py")
                (tmp_path / programs[-1]).write_text(text)
    in_turn = "import runpy, sys\nfor name in sys.argv[1:]: runpy.run_path(name, run_name='__main__')"
    run([sys.executable, "-c", in_turn, *programs], tmp_path)


def test_the_policy_of_the_page_about_runs_is_valid(tmp_path: Path) -> None:
    found = re.search(r"^```toml\n(\[runs\].*?)^```$", (ROOT / "docs/runs.md").read_text(), flags=re.M | re.S)
    assert found
    (tmp_path / "p.toml").write_text(found[1])
    run([*BETIMES, "policy", "check", "p.toml"], tmp_path)


def test_pages_without_a_program_are_known() -> None:
    assert set(NOTHING_TO_RUN) <= set(PAGES)
    programs = {page for page in NOTHING_TO_RUN if (found := first_snippet(page)) and found[0] != "toml"}
    assert programs == set(), "they have one now"


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_of_a_page_are_there(page: str) -> None:
    found = re.findall(r"\]\((?!\w+:)([^)#\s]+)", (ROOT / page).read_text())
    missing = {link for link in found if not ((ROOT / page).parent / link).exists()}
    assert missing == set()


def test_pictures_are_shown_and_small() -> None:
    texts = "".join((ROOT / page).read_text() for page in PAGES)
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    assert [one.name for one in pictures if f"pictures/{one.name}" not in texts] == []
    assert sum(one.stat().st_size for one in pictures) < PICTURES_BYTES_MAX


BETIMES = (sys.executable, "-m", "betimes")
VARIABLES = {"BETIMES_SERVER__PORT": "0"}  # the usual one may be taken on the machine of a test


def run_line(words: list[str], folder: Path) -> None:
    if not words or words[:2] == ["pip", "install"]:
        return
    assert words[0] == "betimes", f"only betimes is run here, not {words[0]}"
    if words[1] in STAYS:
        start_and_stop([*BETIMES, *words[1:]], folder)
    else:
        run([*BETIMES, *words[1:]], folder)


def run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(
        command, cwd=folder, env=environment(**VARIABLES), capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "call_failed" not in ended.stderr + ended.stdout, "a handler of the snippet failed, which only the log says"


def start_and_stop(command: list[str], folder: Path) -> None:
    with subprocess.Popen(
        command, cwd=folder, env=environment(**VARIABLES), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANGS_S)
    assert said, errors
    assert process.returncode in (0, 128 + signal.SIGINT), errors
