"""Time-zone data comes from the pinned package alone, whatever the machine's own database says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from betimes.core.instants import parse, render
from betimes.core.zones import from_local, is_zone, offset_at, transitions, zone

ASKS_FOR_SEVEN = """
import asyncio, json
from betimes import Betimes, VirtualClock
from tests.definition_requests import schedule_request

ZONE = "America/Vancouver"
PERSON = {"timezone": ZONE, "quiet_hours": [{"start": "20:00", "end": "07:00"}], "digest_windows": ["0 7 * * *"]}
NOTE = {"user_id": "ann", "title": "Hello", "message": "there", "source": "s", "channels": ["push"]}
BRIEF = {"user_id": "ann", "action_type": "notify", "action_context": "Good morning"}
CRON = {"cron": "0 7 * * *", "timezone": ZONE}

async def ask():
    policy = {"notifications": {"jitter_s": 0}}
    async with Betimes("memory://", clock=VirtualClock("2026-11-20T10:00:00Z"), policy=policy) as bt:
        await bt.notifications.set_preferences("ann", PERSON)
        held = await bt.notifications.send({**NOTE, "event_id": "1", "event_type": "MESSAGE", "priority_hint": "HIGH"})
        awake = {**PERSON, "quiet_hours": []}
        await bt.notifications.set_preferences("ann", awake)
        gathered = await bt.notifications.send({**NOTE, "event_id": "2", "event_type": "DIGEST", "title": "News"})
        by_cron = await bt.intents.create({**BRIEF, "intent_id": "c", "trigger_type": "cron", "schedule": CRON})
        naive = {"trigger_at": "2026-11-20T07:00:00", "timezone": ZONE}
        once = await bt.intents.create({**BRIEF, "intent_id": "o", "trigger_type": "once", "schedule": naive})
        target = {"kind": "notification", **NOTE, "event_type": "MESSAGE"}
        ticked = await bt.schedules.create(schedule_request({"schedule_id": "s", "target": target, **CRON}))
        return {
            "quiet hours": held.defer_until, "digest": gathered.defer_until, "intent by cron": by_cron.next_check,
            "intent once": once.next_check, "schedule": ticked.next_tick_at,
        }

print(json.dumps({name: at.isoformat() for name, at in asyncio.run(ask()).items()}))
"""


def hostile_database(folder: Path) -> Path:
    """Make a database in which Vancouver keeps Tokyo's time."""
    wrong = files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (folder / "America").mkdir(parents=True)
    (folder / "America" / "Vancouver").write_bytes(wrong)
    return folder


def test_seven_in_the_morning_is_one_instant_whatever_the_machine_believes(tmp_path: Path) -> None:
    hostile = str(hostile_database(tmp_path / "zoneinfo"))
    environ = {**os.environ, "PYTHONTZPATH": hostile, "TZDIR": hostile, "TZ": "America/Vancouver"}
    done = subprocess.run(
        [sys.executable, "-c", ASKS_FOR_SEVEN], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys(
        ("quiet hours", "digest", "intent by cron", "intent once", "schedule"), "2026-11-20T14:00:00+00:00"
    )


def test_a_name_only_the_machine_knows_is_no_zone() -> None:
    assert is_zone("Europe/Berlin")
    assert not any(map(is_zone, ("localtime", "posixrules", "posix/UTC", "europe/berlin", "../UTC", "")))
    with pytest.raises(ValueError, match="no such zone: localtime"):
        zone("localtime")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "; did you mean Europe/Berlin?"),
        ("europe/berlin", "; did you mean Europe/Berlin?"),
        ("Los Angeles", "; did you mean America/Los_Angeles?"),
        ("Mars/Base", ""),
        ("Berln", "; did you mean Europe/Berlin?"),
        ("est", "; did you mean EST?"),
        *((name, "; name a place, such as Europe/Berlin, or UTC") for name in ("EST5", "PST", "BST", "GMT+1", "UTC+2")),
    ],
)
def test_a_zone_that_is_misspelt_is_told_the_one_that_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match="no such zone") as refused:
        zone(name)
    assert str(refused.value) == f"no such zone: {name}{meant}"


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns"])
def test_offsets_are_those_of_the_standard_library_around_every_transition(name: str) -> None:
    first, last = (parse(f"{year}-01-01T00:00:00Z") // 1_000_000 for year in (2011, 2027))
    found = transitions(name, first, last)
    assert found
    for at in (near for change in found for near in (change - 86_400, change - 1, change, change + 1, change + 86_400)):
        offset = datetime.fromtimestamp(at, UTC).astimezone(zone(name)).utcoffset()
        assert timedelta(seconds=offset_at(name, at)) == offset


def test_a_wall_clock_time_that_comes_twice_or_never_is_read_with_either_offset() -> None:
    twice, never = datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001
    assert [render(from_local("Europe/Berlin", twice, fold)) for fold in (0, 1)] == [
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
    ]
    assert [render(from_local("Europe/Berlin", never, fold)) for fold in (0, 1)] == [
        "2026-03-29T01:30:00Z",
        "2026-03-29T00:30:00Z",
    ]
