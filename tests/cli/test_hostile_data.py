"""Whatever people call their things, the command line prints it as text.

No markup, no emoji codes, no escape sequences, no marks of direction, no lines of somebody else's making.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from betimes import Betimes, BlockingBetimes, GiveUp, VirtualClock
from betimes.core.errors import Invalid
from betimes.engine.store import EffectQuery
from docs.build_cli import commands
from tests.cli.running_inside import Said
from tests.cli.running_inside import command as betimes

ID = "ann:a:b:smiley:1"
"""An id as ids may be; rich reads two emoji in it."""
TEXT = "[bold red]:smile:[/] [link=x]\x1b[31m\x9b1m\u202etxt\u2066\nforged"
"""A text as it may come from anybody."""
TEXT_SHOWN = r"[bold red]:smile:[/] [link=x]\x1b[31m\x9b1m\u202etxt\u2066\nforged"
TEXT_IN_JSON = r"[bold red]:smile:[/] [link=x]\u001b[31m\u009b1m\u202etxt\u2066\nforged"
SIGNAL = {"handler": {"kind": "python", "name": "think"}, "debounce_seconds": 0, "cooldown_seconds": 300}
NOTIFICATION = {
    "kind": "notification",
    "event_type": "MESSAGE",
    "title": TEXT[:40],
    "message": TEXT,
    "source": "chat",
    "channels": ["push"],
    "user_id": ID,
}
INTENT = {"user_id": ID, "trigger_type": "cron", "schedule": {"cron": "0 8 * * *"}, "action_type": "notify"}
NOTICE = {"event_type": "MESSAGE", "priority_hint": "HIGH", "message": TEXT, "source": "chat", "channels": ["push"]}
SEES_ID = (
    "schedule show brief",
    "schedule disable brief",
    "schedule enable brief",
    "schedule put brief schedule.json",
    "sensor show shop",
    "sensor disable shop",
    "sensor enable shop",
    "sensor put shop sensor.json",
    "intent list",
    "intent pending",
    f"intent show {ID}",
    f"intent put {ID} intent.json",
    f"intent disable {ID}",
    f"intent enable {ID}",
    f"intent delete {ID}",
    f"explain account:{ID}:1",
    "effects list",
    f"ledger --kind account --id {ID}",
    f"why {ID}",
    f"day {ID}",
    f"day {ID} --account",
    "next",
    f"trigger show {ID}",
    f"trigger cancel {ID}",
    "run list",
    "run show RUN",
    f"run account {ID}",
    f"inbox show {ID}",
    "score list",
    f"score show {ID}",
    f"notification show {ID}",
    f"notification cancel {ID}",
    f"notification release {ID}",
    "backtest --policy policy.json",
)
SEES_TEXT = (
    f"score history {ID}",
    "inbox messages bob",
    f"intent show {ID}",
    f"intent history {ID}",
    "schedule show brief",
    "sensor show shop",
    "sensor evaluations shop",
    "effects list",
    "effects retry DEAD",
    "key list",
    "key create --scope admin --name TEXT",
    "key rotate KEY",
    "key revoke KEY",
    "policy check hostile.json",
    "policy history --tenant default",
    "hold --until SOON --reason TEXT",
)
SEES_NEITHER = (
    "tick",
    "status",
    "sweep",
    "verify",
    "doctor",
    "secrets key",
    "secrets reseal",
    "prune --history-days 0",
    "export lake",
    "schedule list",
    "schedule ticks brief",
    "schedule trigger brief",
    "schedule preview */5",
    "schedule delete brief",
    "sensor list",
    "sensor delete shop",
    "sensor rotate-secret shop",
    "sensor evaluate shop",
    "sensor cursor shop null --state-version 1",
    "intent check intent.json",
    "policy apply policy.json",
    "policy show",
    "policy rollback",
    f"inbox preferences {ID}",
    "effects discard DEAD",
    "tally status",
    "tally rebuild",
)
"""Counts, instants and names of ours; some are refused, and say so of what they were given."""
STAYS = {
    "serve": "it says where it listens",
    "worker": "it says what it works on",
    "demo": "it has its own data",
    "console": "it opens a browser",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a folder with a database in which everything is called something hostile, and words that stand for ids."""
    folder = tmp_path_factory.mktemp("hostile")
    bodies: dict[str, Any] = {
        "schedule": {"cron": "0 8 * * *", "target": NOTIFICATION},
        "sensor": {"sensor_type": "push", "target": NOTIFICATION},
        "intent": {**INTENT, "action_context": TEXT},
        "policy": {"runs": {"registry": {"SIGNAL_ARRIVED": {**SIGNAL, "cooldown_seconds": 0}}}},
        "hostile": {"runs": {TEXT: 1, "cooldown_s": TEXT}},
    }
    for name, body in bodies.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(body))
    return folder, asyncio.run(_fill(f"sqlite:///{folder}/betimes.db", bodies))


async def _fill(url: str, bodies: dict[str, Any]) -> dict[str, str]:
    made = Betimes(url, workers=False, policy={"runs": {"registry": {"SIGNAL_ARRIVED": SIGNAL}}})

    @made.handler("broken")
    def broken(payload: Any) -> None:
        raise GiveUp(TEXT)

    async with made as bt:
        await bt.mine.schedules.put("broken", {"cron": "0 8 * * *", "target": {"kind": "handler", "name": "broken"}})
        await bt.mine.schedules.trigger("broken")
        shown = {"event_type": "SECURITY", "channels": ["in_app"], "title": TEXT[:40]}
        await bt.notifications.send({**NOTICE, **shown, "event_id": "seen", "user_id": "bob"})
        await bt.tick()
        for key in ("first", ID):
            await bt.runs.trigger({"account_id": ID, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})
        await bt.mine.schedules.put("brief", bodies["schedule"])
        await bt.mine.schedules.trigger("brief")
        await bt.mine.sensors.put("shop", bodies["sensor"])
        await bt.mine.sensors.message("shop", {"message_id": TEXT, "data": {"text": TEXT}})
        await bt.intents.put(ID, bodies["intent"])
        condition = {"ticker": "NVDA", "operator": "<", "value": 130}
        await bt.intents.put(
            "due", {**bodies["intent"], "trigger_type": "price", "schedule": None, "condition": condition}
        )
        fired = {"status": "failed", "message_preview": TEXT, "error_message": TEXT}
        await bt.intents.fire(ID, fired)
        around = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-6, 6))
        start, end = (f"{moment:%H:%M}" for moment in around)
        await bt.notifications.set_preferences(ID, {"quiet_hours": [{"start": start, "end": end}]})
        await bt.notifications.send({**NOTICE, "event_id": ID, "user_id": ID, "title": TEXT[:40]})
        await bt.scores.create({"user_id": ID})
        await bt.scores.adjust(ID, {"delta": 1, "reason": TEXT})
        run = (await bt.runs.runs()).items[0]
        await bt.mine.tenants.set_policy({"overrides": {"intents": {"claim_lease_s": 600}}, "note": TEXT})
        made_key = await bt.mine.tenants.create_key({"name": TEXT, "scopes": ["admin"]})
        dead = [row.id.handle for row in await bt.engine.store.effects(EffectQuery(status="dead"))]
    soon = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%S}"
    return {"TEXT": TEXT, "KEY": made_key.key_id, "DEAD": dead[0], "RUN": run.run_id, "SOON": soon}


@pytest.fixture
def say(filled: tuple[Path, dict[str, str]], tmp_path: Path) -> Callable[..., Said]:
    """Run a command on a copy of the database."""
    folder, stands_for = filled

    def run(line: str, *more: str) -> Said:
        copy = shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)
        return betimes(*(stands_for.get(word, word) for word in line.split()), *more, folder=copy)

    return run


@pytest.mark.parametrize("line", SEES_ID)
def test_an_id_is_printed_as_it_is(line: str, say: Callable[..., Said]) -> None:
    said = say(line)
    assert said.code == 0, said.err
    assert ID in said.out
    _check_plain(said.out)


@pytest.mark.parametrize("line", SEES_TEXT)
def test_a_text_is_printed_as_it_is(line: str, say: Callable[..., Said]) -> None:
    said = say(line)
    assert TEXT_SHOWN in said.out or TEXT_IN_JSON in said.out, said.out + said.err
    _check_plain(said.out + said.err)
    in_json = say(line, "--json")
    assert TEXT_IN_JSON in in_json.out, in_json.err
    _check_plain(in_json.out + in_json.err)
    assert repr(TEXT)[1:-1] in repr(in_json.json)


@pytest.mark.parametrize("line", SEES_NEITHER)
def test_nothing_else_is_printed_either(line: str, say: Callable[..., Said]) -> None:
    said = say(line)
    assert said.out or said.err
    _check_plain(said.out + said.err)


@pytest.mark.parametrize("name", ["99:99:99Z", "2026-99-99T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_name_that_looks_like_an_instant_keeps_nothing_from_being_told(name: str, tmp_path: Path) -> None:
    policy = {"runs": {"registry": {"SIGNAL_ARRIVED": SIGNAL}}}
    clock = VirtualClock("2026-11-17T01:10:00Z")
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, policy=policy) as bt:
        bt.notifications.set_preferences(name, {"timezone": "Asia/Tokyo"})
        bt.notifications.ban(name, {"reason": f"since {name}"})
        bt.notifications.send({**NOTICE, "event_id": "told", "user_id": name, "title": "Hello"})
        for key in ("first", "second"):
            bt.runs.trigger({"account_id": name, "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": key})
    for words in (["day", name, "--date", "2026-11-17"], ["why", "told"], ["why", "second"], ["why", name]):
        said = betimes(*words, folder=tmp_path)
        assert said.code == 0, said.err
        assert name in said.out


@pytest.mark.parametrize(
    "line",
    [
        "next --hours nan",
        "next --hours inf",
        "next --hours 1e9",
        "next --hours 0",
        f"day {ID} --date 9999-12-31",
        "status --every-s nan",
    ],
)
def test_a_time_that_no_calendar_has_is_refused(line: str, say: Callable[..., Said]) -> None:
    assert say(line).code == Invalid("").exit_code


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_error_is_printed_as_it_is(more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(msgspec.json.encode({"cron": "0 8 * * *", "target": NOTIFICATION}))
    refused = betimes("schedule", "put", TEXT, "body.json", *more, folder=tmp_path)
    assert refused.code == Invalid("").exit_code
    assert "[bold red]:smile:[/]" in refused.err
    _check_plain(refused.err)


def test_a_bug_is_told_as_text(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"raise RuntimeError({TEXT!r})")
    told = betimes("tick", "--app", "shop:bt", folder=tmp_path)
    assert told.code != 0
    assert "\\x1b[31m" in told.err
    assert "\x1b" not in told.err


def test_every_command_is_looked_at() -> None:
    lines = (*SEES_ID, *SEES_TEXT, *SEES_NEITHER, "config")
    run = {name for name, _ in commands() if any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert run | STAYS.keys() == {name for name, _ in commands()}


def test_the_configuration_is_printed_as_text(tmp_path: Path) -> None:
    name = TEXT.replace("\n", " ")
    (tmp_path / "betimes.yaml").write_text(msgspec.json.encode({"policy": {"runs": {name: 1}}}).decode())
    _check_plain(betimes("config", folder=tmp_path).err)


def test_nothing_is_padded_where_it_goes_into_a_pipe(say: Callable[..., Said]) -> None:
    for line in (f"trigger show {ID}", "schedule list", "key list"):
        assert all(shown == shown.rstrip() for shown in say(line).out.splitlines()), line


def test_damage_is_named_as_text(filled: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    copy = shutil.copytree(filled[0], tmp_path / "copy")
    with apsw.Connection(str(copy / "betimes.db")) as database:
        database.execute("UPDATE stream SET alarm_at = 1 WHERE kind = 'account'")
    for more in ((), ("--json",)):
        said = betimes("verify", *more, folder=copy)
        assert ID in said.out
        _check_plain(said.out)


def test_there_is_one_door() -> None:
    cli = Path(__file__).parent.parent.parent / "src" / "betimes" / "cli"
    prints = re.compile(r"\bConsole\(|(?<!def )(?<![.\w])(Text|print)\(")
    doors = [file.name for file in cli.glob("*.py") if prints.search(file.read_text())]
    assert doors == ["output.py"]


def _check_plain(shown: str) -> None:
    """Every line is of our making, of printable characters, without emoji."""
    odd = [character for character in shown if character != "\n" and not character.isprintable()]
    assert odd == [], shown
    assert not re.search("^ *forged", shown, flags=re.M), shown
    assert not re.search("[\U0001f000-\U0001ffff☀-➿]", shown), shown
