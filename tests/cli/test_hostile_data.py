"""Whatever people call their things, the command line prints it as it is: no markup, no emoji, no escape sequences."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.app import Betimes
from betimes.core.errors import Invalid
from docs.build_cli import commands
from tests.cli.running_inside import command as betimes

ID = "ann:a:b:smiley:1"
"""An id as ids may be; rich reads two emoji in it."""
TEXT = "[bold red]:smile:[/] [link=x]\x1b[31m"
"""A text as it may come from anybody."""
TEXT_SHOWN = "[bold red]:smile:[/] [link=x]\\x1b[31m"
TARGET = {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED", "account_id": ID}
INTENT = {"user_id": ID, "trigger_type": "cron", "schedule": {"cron": "0 8 * * *"}, "action_type": "notify"}
NOTICE = {
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "message": "Hello",
    "source": "chat",
    "channels": ["push"],
}
SEES_ID = (
    "schedule show brief", "schedule disable brief", "schedule enable brief",
    "schedule put brief schedule.json",
    "sensor show shop", "sensor disable shop", "sensor enable shop", "sensor put shop sensor.json",
    f"intent show {ID}", f"intent put {ID} intent.json", f"intent disable {ID}", f"intent enable {ID}",
    "intent list", f"explain account:{ID}:1", "effects list", f"trigger show {ID}", f"notification show {ID}",
)  # fmt: skip
SEES_TEXT = (f"intent show {ID}", "key list", "intent list --json")
NO_DATA = {
    "serve": "serves", "worker": "serves", "demo": "its own data", "config": "JSON only", "policy show": "JSON only",
    "tick": "counts", "sweep": "counts", "verify": "counts", "prune": "counts", "export": "counts",
    "policy check": "paths and values in JSON", "policy apply": "a fingerprint", "backtest": "see tests/backtest",
    "key create": "a new key's name, as in key list", "key rotate": "as key list", "key revoke": "as key list",
    "schedule list": "names that cannot hold markup", "schedule ticks": "names that cannot hold markup",
    "schedule preview": "instants", "schedule trigger": "as schedule ticks", "intent history": "a table like any",
    "schedule delete": "the word typed", "trigger cancel": "as trigger show",
    "notification cancel": "as notification show", "notification release": "as notification show",
    "sensor list": "names that cannot hold markup", "sensor evaluate": "as sensor evaluations",
    "sensor evaluations": "a table like any", "sensor rotate-secret": "a secret", "sensor cursor": "as sensor show",
    "sensor delete": "the word typed",
    "intent pending": "as intent list", "intent check": "instants",
    "intent delete": "the word that was typed", "effects retry": "as effects list",
    "effects discard": "as effects list",
}  # fmt: skip
"""Commands that are not run here, and what they print."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database in which everything is called something hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    bodies: dict[str, Any] = {
        "schedule": {"cron": "0 8 * * *", "target": TARGET},
        "sensor": {"sensor_type": "push", "target": TARGET},
        "intent": {**INTENT, "action_context": TEXT},
    }
    for name, body in bodies.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(body))
    asyncio.run(_filled(f"sqlite:///{folder}/betimes.db", bodies))
    return folder


async def _filled(url: str, bodies: dict[str, Any]) -> None:
    registry = {"SIGNAL_ARRIVED": {"handler": {"kind": "python", "name": "think"}}}
    async with Betimes(url, workers=False, policy={"runs": {"registry": registry}}) as bt:
        trigger = {"account_id": ID, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": ID}
        await bt.runs.trigger(trigger)
        await bt.mine.schedules.put("brief", bodies["schedule"])
        await bt.mine.sensors.put("shop", bodies["sensor"])
        await bt.intents.put(ID, bodies["intent"])
        await bt.notifications.send({**NOTICE, "event_id": ID, "user_id": ID, "title": TEXT[:40]})
        await bt.mine.tenants.create_key({"name": TEXT, "scopes": ["admin"]})


@pytest.mark.parametrize("words", SEES_ID)
def test_an_id_is_printed_as_it_is(words: str, folder: Path) -> None:
    said = betimes(*words.split(), folder=folder)
    assert said.code == 0, said.err
    assert ID in said.out
    _check_plain(said.out)


@pytest.mark.parametrize("words", SEES_TEXT)
def test_a_text_is_printed_as_it_is(words: str, folder: Path) -> None:
    said = betimes(*words.split(), folder=folder)
    assert said.code == 0, said.err
    assert TEXT_SHOWN in said.out or "\\u001b[31m" in said.out
    _check_plain(said.out)


def test_an_error_is_printed_as_it_is(folder: Path) -> None:
    refused = betimes("schedule", "show", "[bold]x[/bold]", folder=folder)
    assert refused.code == Invalid("").exit_code
    assert "[bold]x[/bold]" in refused.err
    _check_plain(refused.err)


def test_every_command_is_looked_at() -> None:
    run = {name for name, _ in commands() if any(f"{words} ".startswith(f"{name} ") for words in SEES_ID + SEES_TEXT)}
    assert run | NO_DATA.keys() == {name for name, _ in commands()}


def test_there_is_one_way_to_a_terminal() -> None:
    cli = Path(__file__).parent.parent.parent / "src" / "betimes" / "cli"
    makes_one = [file.name for file in cli.glob("*.py") if re.search(r"\bConsole\(|[^.\w]Text\(", file.read_text())]
    assert makes_one == ["printing.py"]


def _check_plain(shown: str) -> None:
    assert "\x1b" not in shown
    assert not re.search("[\U0001f000-\U0001ffff☀-➿]", shown), shown
