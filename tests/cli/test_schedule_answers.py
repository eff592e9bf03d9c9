"""What commands say of schedules, and of what an application declares."""

from __future__ import annotations

from pathlib import Path

from betimes import BlockingBetimes, VirtualClock
from tests.cli.running_inside import command as betimes


def test_why_of_a_schedule_tells_its_own_hours(tmp_path: Path) -> None:
    clock = VirtualClock("2026-11-17T01:10:00Z")
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock, workers=False) as bt:
        bt.schedules.put("brief", {"cron": "0 3 * * *", "timezone": "Europe/Madrid", "target": {"kind": "sweep"}})
        bt.advance(to="2026-11-17T03:00:00Z")
    said = betimes("why", "brief", folder=tmp_path).out
    assert "at 03:00 (Europe/Madrid time), " in said


def test_next_counts_in_words(tmp_path: Path) -> None:
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", workers=False) as bt:
        for name in ("one", "two"):
            bt.schedules.put(name, {"cron": "@hourly", "target": {"kind": "sweep"}})
    assert " schedules." in betimes("next", "--hours", "2", folder=tmp_path).out.splitlines()[0]


def test_a_policy_without_what_an_application_declares_is_warned_of(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", workers=False)
    bt.run("ORDER_PAID", debounce_seconds=0, cooldown_seconds=0)(print)
    with bt:
        pass
    (tmp_path / "p.toml").write_text("[scores]\nstart = 40\n")
    for command in ("check", "apply"):
        said = betimes("policy", command, "p.toml", "--tenant", "default", folder=tmp_path)
        assert "warning: runs.registry.ORDER_PAID: the application 'default' declares it" in said.out, said.err
