"""`--app`: an application of one's own, and what the configuration adds to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from betimes.app.betimes import Betimes
from betimes.app.bootstrap import Wired
from betimes.cli.bootstrap import Target
from betimes.core.errors import STATUS, Invalid
from betimes.outbound.channels import LogChannel, WebhookChannel
from tests.cli.running import serving
from tests.cli.running_inside import command
from tests.patience import HANGS_S

FILE = """
[channels.pager]
kind = "webhook"
url = "https://pager.example/hook"
[engine]
batch_max = 64
[policy.intents]
retry_minutes = 5
"""
PLAIN = 'from betimes import Betimes\nbt = Betimes("sqlite:///betimes.db")\n'
SET_UP = """
from betimes import Betimes, EngineSettings
from betimes.app.settings import Settings
bt = Betimes("sqlite:///betimes.db", settings=Settings(engine=EngineSettings(batch_max=32)))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def opened(folder: Path, name: str, text: str, file: str) -> Betimes:
    """The application of this text under this configuration, not yet open."""
    (folder / f"{name}.py").write_text(text)
    (folder / "betimes.toml").write_text(file)
    return cast(Betimes, Wired().open_application(Target(app=f"{name}:bt"), starts=True))


def test_the_configuration_reaches_the_application(folder: Path) -> None:
    bt: Any = opened(folder, "plain_shop", PLAIN, FILE)
    assert isinstance(bt.settings.channels.channels["pager"], WebhookChannel)
    assert bt.settings.engine.batch_max == 64
    assert bt._policy == {"intents": {"retry_minutes": 5}}


def test_what_the_application_says_itself_stays(folder: Path) -> None:
    bt = opened(folder, "set_up_shop", SET_UP, "[webhooks]\ntimeout_s = 7\n")
    assert bt.settings.engine.batch_max == 32
    assert bt.settings.webhooks.timeout_s == 7
    assert isinstance(bt.settings.channels.channels["push"], LogChannel)


def test_what_both_say_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(Invalid, match="both twice_shop:bt and the configuration say engine") as refused:
        opened(folder, "twice_shop", SET_UP, FILE)
    assert [path for path, _ in refused.value.problems] == ["engine"]


def test_saying_the_same_twice_is_no_contradiction(folder: Path) -> None:
    assert opened(folder, "same_shop", SET_UP, "[engine]\nbatch_max = 32\n").settings.engine.batch_max == 32


def test_two_databases_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PLAIN)
    said = command("tick", "--app", "shop:bt", "--json", folder=tmp_path, BETIMES_DB="sqlite:///other.db")
    assert said.code == STATUS["INVALID"][1]
    assert "sqlite:///other.db" in said.problem["detail"]
    assert command("tick", "--app", "shop:bt", folder=tmp_path, BETIMES_DB="sqlite:///betimes.db").code == 0


def test_a_named_application_whose_last_decorator_was_removed_fires_no_longer(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f'{PLAIN}@bt.schedule("0 8 * * *")\ndef brief(body): ...\n')
    listed = ("schedule", "list", "--db", "sqlite:///betimes.db", "--json")
    assert command("tick", "--app", "shop:bt", folder=tmp_path).code == 0
    assert [one["status"] for one in command(*listed, folder=tmp_path).json["items"]] == ["active"]
    (tmp_path / "shop.py").write_text(PLAIN)
    assert command("tick", "--db", "sqlite:///betimes.db", folder=tmp_path).code == 0, "a visitor changes nothing"
    assert [one["status"] for one in command(*listed, folder=tmp_path).json["items"]] == ["active"]
    assert command("tick", "--app", "shop:bt", folder=tmp_path).code == 0
    [brief] = command(*listed, folder=tmp_path).json["items"]
    assert (brief["status"], brief["paused_reason"]) == ("paused", "NOT_DECLARED")


@pytest.mark.parametrize(
    ("named", "code", "says"),
    [
        ("shop:app", "NOT_FOUND", "the module 'shop' has no 'app'; there is bt"),
        ("shop:__name__", "INVALID", "shop:__name__ is not a Betimes but str; there is bt"),
        ("json:bt", "NOT_FOUND", "the module 'json' has no 'bt'; json has nothing that is an application"),
        ("shoop:bt", "NOT_FOUND", "there is no module 'shoop' to import 'bt' from; looked in "),
        ("shop", "INVALID", "write module:name, such as shop:bt"),
    ],
)
def test_an_application_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, named: str, code: str, says: str
) -> None:
    (tmp_path / "shop.py").write_text(PLAIN)
    refused = command("tick", "--app", named, folder=tmp_path)
    assert (refused.code, says in refused.err) == (STATUS[code][1], True), refused.err


def test_virtual_time_of_an_application_is_said_in_its_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PLAIN)
    refused = command("serve", "--app", "shop:bt", "--virtual-clock", "2026-01-01T00:00:00Z", folder=tmp_path)
    assert (refused.code, "clock=VirtualClock(…) to its Betimes" in refused.err) == (STATUS["INVALID"][1], True)
    (tmp_path / "shop.py").write_text(
        "from betimes import Betimes, VirtualClock\n"
        'bt = Betimes("memory://", clock=VirtualClock("2026-01-01T00:00:00Z"))\n'
        'bt.schedule("0 8 * * *", schedule_id="brief")(lambda body: None)\n'
    )
    with serving("serve", "--dev", "--port", "0", "--app", "shop:bt", folder=tmp_path) as server:
        moved = server.ask("POST", "/v1/clock", {"advance_s": 86_400}).json
        assert moved["fired"] == {"schedule": 1}
        assert "processes 1 alive" in command("status", "--url", server.url, folder=tmp_path).out


def test_a_command_that_logs_nothing_does_not_load_the_logger() -> None:
    program = (
        "import sys\nfrom betimes.app.bootstrap import Wired\nfrom betimes.cli.main import main\n"
        "main(Wired(), ('policy', 'show', '--db', 'memory://'))\nassert 'structlog' not in sys.modules\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert ended.returncode == 0, ended.stderr
