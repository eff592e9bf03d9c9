"""Questions about intents at a terminal: the newest decision leads, with what its check saw."""

from __future__ import annotations

import re
from pathlib import Path

from betimes import BlockingBetimes, ChannelMessage, VirtualClock
from tests.cli.running_inside import command as betimes


def test_why_of_an_intent_leads_with_the_newest_decision_and_says_what_was_seen(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T12:00:00Z"))
    price = {"NVDA": 140}

    @bt.source("price")
    def ask_price(ticker: str) -> int:
        return price[ticker]

    @bt.channel("push")
    def push(message: ChannelMessage) -> None: ...

    watch = {"user_id": "bob", "trigger_type": "price", "schedule": {"check_interval_minutes": 5}}
    dip = {**watch, "condition": {"expression": "NVDA < 130"}, "action_type": "notify", "action_context": "it is cheap"}
    with bt:
        bt.intents.put("dip", {**dip, "action_channels": ["push"]})
        bt.advance(by_s=11 * 60)
        price["NVDA"] = 120
        bt.advance(by_s=5 * 60)
    first, *rest = betimes("why", "dip", folder=tmp_path).out.splitlines()
    assert first.startswith("On Tuesday 17 November 2026 at 12:15 UTC, ")
    assert ", the intent dip fired" in first
    refused = "Its condition was not met (NVDA < 130; NVDA was 140); the next check is at 12:15. [condition_not_met, "
    [older] = [line for line in rest if line.startswith("  2026-11-17 12:10:00  The intent dip did not fire. ")]
    assert refused in older
    [segment_id] = re.findall(r"intent:dip:\d+", older)
    asked = betimes("why", segment_id, folder=tmp_path).out
    assert refused in asked.splitlines()[0]
    assert "It was to be judged again at 12:15." in asked
    assert "It will be judged again" not in asked


def test_why_says_which_source_an_intent_that_nobody_takes_waits_for(tmp_path: Path) -> None:
    clock = VirtualClock("2026-11-17T12:00:00Z")
    watch = {"user_id": "bob", "trigger_type": "portfolio", "schedule": {"check_interval_minutes": 5}}
    rich = {**watch, "condition": {"expression": "total_value > 9 AND NVDA < 130"}, "action_type": "notify"}
    with BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=clock) as bt:
        bt.intents.put("rich", {**rich, "action_context": "sell"})
        bt.advance(by_s=11 * 60)
    first, wait = betimes("why", "rich", folder=tmp_path).out.splitlines()
    assert first.startswith("Nothing was decided about rich on Tuesday 17 November 2026 at 12:00 UTC")
    assert wait.startswith("It is due since 12:")
    assert wait.endswith(" and nobody has taken it: it waits for a worker that has the sources portfolio and price.")
    status = betimes("status", folder=tmp_path).out
    assert "  ! 1 check of an intent is due and no worker takes them, the oldest for " in status
    assert "Nothing is stuck" not in status


def test_why_says_which_source_of_an_intent_failed(tmp_path: Path) -> None:
    bt = BlockingBetimes(f"sqlite:///{tmp_path}/betimes.db", clock=VirtualClock("2026-11-17T12:00:00Z"))

    @bt.source("price")
    def ask_price(ticker: str) -> int:
        raise ConnectionError("busy")

    @bt.channel("push")
    def push(message: ChannelMessage) -> None: ...

    watch = {"user_id": "bob", "trigger_type": "price", "schedule": {"check_interval_minutes": 5}}
    dip = {**watch, "condition": {"expression": "NVDA < 130"}, "action_type": "notify", "action_context": "it is cheap"}
    with bt:
        bt.intents.put("dip", {**dip, "action_channels": ["push"]})
        bt.advance(by_s=6 * 60)
    said = betimes("why", "dip", folder=tmp_path).out
    assert "It waits for its source price since 12:00" in said
    assert "ConnectionError('busy')" in said
