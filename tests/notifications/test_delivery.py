"""How it gets to the person: one channel, all of them, or on to the next until one succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.deciders import Call, Send, Settled
from betimes.core.instants import HOUR, MINUTE
from betimes.core.streams import StreamId
from betimes.domain.completions import TargetSettled
from betimes.notifications.feed_model import AddMessage, feed_stream
from betimes.notifications.model import (
    ChannelFailed,
    Delivered,
    DeliveryFailed,
    InboxState,
    Notify,
    OptOut,
    Rerouted,
    inbox_stream,
)
from betimes.notifications.quiet_hours import QuietHours
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import ANN, NINE, inbox, note, preferences, sent

FEED = feed_stream("acme", "ann")
ASKER = StreamId("acme", "run", "r1")


def call(channel: str, *segments: int, attempts: int = 6) -> Call:
    payload = {"channel": channel, "segments": segments}
    return Call(f"deliver:{channel}", payload, attempts_max=attempts, report_to=ANN)


def done(version: int, channel: str, place: int = 0) -> Settled:
    return Settled(f"inbox:ann:{version}:{place}", f"deliver:{channel}", "done")


def dead(version: int, channel: str, place: int = 0) -> Settled:
    return Settled(f"inbox:ann:{version}:{place}", f"deliver:{channel}", "dead", 3, error="no route")


def in_flight(scenario: Scenario[InboxState]) -> int:
    assert scenario.state
    return len(scenario.state.delivering)


def test_it_goes_through_the_first_channel_that_is_allowed_and_has_room() -> None:
    inbox().when(note(), key="a").then_effects(call("push", 1))


def test_what_was_delivered_is_on_the_ledger_and_reported() -> None:
    scenario = inbox().when(note(report_to=ASKER), key="a").when(done(1, "push"))
    scenario.then(Delivered("push", NINE, 1, 0)).then_effects(Send(ASKER, TargetSettled("delivered")))
    assert in_flight(scenario) == 0


def test_what_failed_is_on_the_ledger_reported_and_gives_its_text_back() -> None:
    scenario = inbox().when(note(report_to=ASKER), key="a").when(dead(1, "push"))
    scenario.then(ChannelFailed("push", NINE, 1, 0, 3, "no route"), DeliveryFailed((1,), NINE))
    scenario.then_effects(Send(ASKER, TargetSettled("failed", "DELIVERY_FAILED")))
    scenario.when(note(), key="b").then_verdict("NOW", "DEFAULT_PASS")


def test_a_failed_delivery_is_an_occasion_for_hooks() -> None:
    hook = {
        "on": ["DELIVERY_FAILED"],
        "target": {
            "kind": "notification",
            "event_type": "SYSTEM",
            "title": "Delivery failed",
            "message": "Look into it",
            "source": "hooks",
            "channels": ["in_app"],
            "user_id": "ops",
        },
    }
    scenario = inbox(hooks=[hook]).when(note(), key="a").when(dead(1, "push"))
    [hooked] = scenario.decision.effects
    assert isinstance(hooked, Send)
    assert (hooked.to, hooked.key) == (inbox_stream("acme", "ops"), "delivery-failed:ann:2:hook:0")
    assert isinstance(hooked.command, Notify)
    scenario.when(note(text="The hook's own message fails"), key="delivery-failed:ann:2:hook:0")
    scenario.when(dead(3, "push")).then_effects()


def test_in_app_is_delivered_with_the_commit() -> None:
    scenario = inbox().when(note(channels=("in_app", "push"), report_to=ASKER), key="a")
    scenario.then_effects(Send(FEED, AddMessage("m1", (1,), NINE)), Send(ASKER, TargetSettled("delivered")))
    assert scenario.decision.events[1:] == (Delivered("in_app", NINE, 1),)
    assert in_flight(scenario) == 0


def test_all_channels_if_the_policy_says_so_and_one_success_is_enough() -> None:
    everywhere = {"event_types": {"MESSAGE": {"deliver": "all"}}}
    scenario = inbox(**everywhere).when(note(report_to=ASKER), key="a")
    scenario.then_effects(call("push", 1), call("email", 1))
    assert scenario.state
    assert scenario.state.delivered == (NINE,), "one delivery, whatever it takes"
    scenario.when(dead(1, "push", 0)).then(ChannelFailed("push", NINE, 1, 0, 3, "no route"))
    scenario.when(done(1, "email", 1)).then_effects(Send(ASKER, TargetSettled("delivered")))
    assert in_flight(scenario) == 0


def test_all_channels_that_fail_have_failed_once() -> None:
    everywhere = {"event_types": {"MESSAGE": {"deliver": "all"}}}
    scenario = inbox(**everywhere).when(note(report_to=ASKER), key="a").when(dead(1, "push", 0)).then_effects()
    scenario.when(dead(1, "email", 1)).then_effects(Send(ASKER, TargetSettled("failed", "DELIVERY_FAILED")))


def test_all_channels_report_the_first_success_only() -> None:
    everywhere = {"event_types": {"MESSAGE": {"deliver": "all"}}}
    scenario = inbox(**everywhere).when(note(report_to=ASKER), key="a").when(done(1, "push", 0))
    scenario.when(done(1, "email", 1)).then(Delivered("email", NINE, 1, 1)).then_effects()


# -- CRITICAL


def test_critical_goes_on_until_one_succeeds() -> None:
    scenario = inbox().when(note(priority="CRITICAL", channels=("email",), report_to=ASKER), key="a")
    scenario.then_effects(call("email", 1, attempts=1))
    scenario.when(dead(1, "email")).then_effects(call("push", 1, attempts=1))
    scenario.when(dead(2, "push")).then_effects(call("sms", 1, attempts=1))
    scenario.when(dead(3, "sms"))
    assert [type(event) for event in scenario.decision.events] == [ChannelFailed, Rerouted, Delivered]
    scenario.then_effects(Send(FEED, AddMessage("m4", (1,), NINE)), Send(ASKER, TargetSettled("delivered")))
    assert in_flight(scenario) == 0


def test_critical_stops_where_it_succeeded() -> None:
    scenario = inbox().when(note(priority="CRITICAL", channels=("email", "sms")), key="a").when(dead(1, "email"))
    scenario.then_effects(call("sms", 1, attempts=1)).when(done(2, "sms")).then_effects()
    assert in_flight(scenario) == 0


def test_critical_goes_through_channels_opted_out_of_except_where_the_law_forbids_it() -> None:
    out = preferences(opt_out=OptOut(channels=("push", "sms", "email")))
    scenario = inbox(out).when(note(priority="CRITICAL", channels=("sms", "push")), key="a")
    scenario.then_effects(call("push", 2, attempts=1))
    scenario.when(dead(2, "push")).then_effects(call("email", 2, attempts=1))
    scenario.when(dead(3, "email")).then_effects(Send(FEED, AddMessage("m4", (2,), NINE)))


def test_critical_always_has_in_app() -> None:
    law = {"channels": {name: {"legal_opt_out": True} for name in ("push", "email", "sms", "in_app")}}
    out = preferences(opt_out=OptOut(channels=("push", "sms", "email", "in_app")))
    scenario = inbox(out, **law).when(note(priority="CRITICAL"), key="a")
    scenario.then_verdict("NOW", "CRITICAL_OVERRIDE").then_effects(Send(FEED, AddMessage("m2", (2,), NINE)))


def test_critical_and_forced_prefer_a_channel_with_room_but_are_not_stopped() -> None:
    full = sent(10 * HOUR, 11 * HOUR, 12 * HOUR, channel="sms")
    assert _channel(inbox(full).when(note(priority="CRITICAL", channels=("sms", "email")))) == "email"
    assert _channel(inbox(full).when(note(priority="CRITICAL", channels=("sms",)))) == "sms"
    scenario = inbox(full).when(note(channels=("sms",)), key="a").then_verdict("LATER", "CHANNEL_CAP")
    for place in range(2):
        again = note("SECURITY", channels=("sms",), text=f"somebody tried to log in, attempt {place}")
        scenario.at(NINE + 11 * HOUR + place).when(again, key=f"s{place}")
    scenario.wakes().then_verdict("LATER", "CHANNEL_CAP", "CHANNEL_CAP")
    scenario.when(note("SECURITY", channels=("sms",), text="and once more in the evening"), key="s3")
    scenario.wakes().then_verdict("NOW", "CHANNEL_CAP", "CHANNEL_CAP", "FORCED_DELIVERY")
    assert _channel(scenario) == "sms"


def _channel(scenario: Scenario[Any]) -> Any:
    return scenario.decision.reply.channel


@pytest.mark.parametrize("event_type", ["MESSAGE", "DIGEST"])
def test_what_waited_does_not_go_to_a_channel_the_policy_no_longer_has(event_type: str) -> None:
    faxing = {"channels": {"fax": {}}, "jitter_s": 0}
    scenario = inbox(preferences(quiet_hours=(QuietHours(8 * 60, 10 * 60),), digest_channel="fax"), **faxing)
    scenario.when(note(event_type, "HIGH" if event_type == "MESSAGE" else None, channels=("fax", "email")), key="a")
    scenario.policy = inbox(jitter_s=0).policy
    while not scenario.decision.effects:
        scenario.wakes()
    [effect] = scenario.decision.effects
    assert isinstance(effect, Call)
    assert effect.executor == "deliver:email"


def test_a_call_says_when_it_expires() -> None:
    scenario = inbox().when(note(expires_at=NINE + MINUTE), key="a")
    [effect] = scenario.decision.effects
    assert isinstance(effect, Call)
    assert effect.payload["expires_at"] == NINE + MINUTE


def test_critical_that_has_expired_is_sent_nowhere_and_kept_in_the_feed() -> None:
    urgent = note(priority="CRITICAL", expires_at=NINE + MINUTE)
    scenario = inbox().when(urgent, key="a").at(NINE + MINUTE).when(dead(1, "push"))
    [effect] = scenario.decision.effects
    assert isinstance(effect, Call)
    assert (effect.executor, effect.payload["expires_at"]) == ("deliver:email", NINE + MINUTE)
    scenario.at(NINE + MINUTE + 1).when(dead(2, "email"))
    scenario.then_effects(Send(FEED, AddMessage("m3", (1,), NINE + MINUTE + 1)))
    assert in_flight(scenario) == 0


def test_expiry_in_shadow_is_not_enforced_by_the_delivery_either() -> None:
    scenario = inbox(shadow=["expiry"]).when(note(expires_at=NINE - 1), key="a").then_effects(call("push", 1))
    scenario.then_verdict("NOW", "DEFAULT_PASS")


def test_a_dead_letter_that_is_revived_is_on_the_ledger_too() -> None:
    scenario = inbox().when(note(), key="a").when(dead(1, "push"))
    scenario.when(done(1, "push")).then(Delivered("push", NINE, 1, 0)).then_effects()


def test_a_notification_nobody_can_send_is_reported_to_whoever_asked() -> None:
    scenario = inbox().when(note("GOSSIP", report_to=ASKER), key="a")
    [ending] = scenario.decision.effects
    assert isinstance(ending, Send)
    assert isinstance(ending.command, TargetSettled)
    assert (ending.to, ending.command.status) == (ASKER, "failed")
