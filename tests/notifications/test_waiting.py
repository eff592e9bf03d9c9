"""LATER is a promise: the defer table, what is judged again, what is forced, digests, and the bounds."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.deciders import Call, Send, Wake
from betimes.core.instants import DAY, HOUR, MINUTE, parse
from betimes.core.streams import StreamId
from betimes.domain.completions import TargetSettled
from betimes.notifications.feed_model import AddMessage, feed_stream
from betimes.notifications.model import (
    Ban,
    BanPerson,
    Digested,
    DigestReleased,
    Held,
    InboxState,
    Item,
    OptOut,
    PersonBanned,
    Postponed,
    Released,
    Suppressed,
)
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import NIGHT, NINE, inbox, note, preferences, sent, tenant_incident

BERLIN_NIGHT = preferences(timezone="Europe/Berlin", quiet_hours=(NIGHT,))
ASKER = StreamId("acme", "run", "r1")


def item(version: int, priority: Any = "MEDIUM", **fields: Any) -> Postponed:
    known: dict[str, Any] = {"event_type": "UPDATE", "channels": ("email",), "until_at": NINE + HOUR}
    known |= {
        "accepted_at": NINE - HOUR + version,
        "exact": f"x{version}",
        "defer_count": 1,
        "reasons": ("SCORE_DEFER",),
    }
    return Postponed(Item(version, f"e{version}", priority=priority, **(known | fields)))


def until(scenario: Scenario[InboxState]) -> int:
    verdict = scenario.decision.verdict
    assert verdict
    assert verdict.until is not None
    return verdict.until


# -- the defer table


def test_defer_quiet_hours_until_their_end_and_up_to_five_minutes() -> None:
    scenario = inbox(BERLIN_NIGHT).at("2026-01-05T01:10:00Z").when(note(), key="a")
    end = parse("2026-01-05T06:00:00Z")
    assert end <= until(scenario) < end + 5 * MINUTE
    scenario.then_alarm(until(scenario))
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at == until(scenario)


def test_defer_five_minutes_full_for_fifteen() -> None:
    inbox(sent(1, 2, 3)).when(note()).then_verdict("LATER", "FATIGUE_CAP_5M", until=NINE + 15 * MINUTE)


def test_defer_an_hour_full_to_the_next_hour_on_the_persons_wall() -> None:
    ten = sent(*(20 * MINUTE + place for place in range(10)))
    inbox(ten, jitter_s=0).when(note()).then_verdict("LATER", "FATIGUE_CAP_1H", until=NINE + HOUR)
    kolkata = preferences(timezone="Asia/Kolkata")
    inbox(ten, kolkata, jitter_s=0).when(note()).then_verdict("LATER", "FATIGUE_CAP_1H", until=NINE + 30 * MINUTE)


def test_defer_a_day_full_to_eight_the_next_day_local() -> None:
    thirty = sent(*(3 * HOUR + place for place in range(30)))
    tokyo = preferences(timezone="Asia/Tokyo")
    scenario = inbox(thirty, tokyo, jitter_s=0).when(note())
    scenario.then_verdict("LATER", "FATIGUE_CAP_24H", until="2026-01-05T23:00:00Z")


def test_defer_a_cooldown_to_its_end() -> None:
    resting = inbox(sent(MINUTE, event_type="MESSAGE"), event_types={"MESSAGE": {"cooldown_s": 600}})
    resting.when(note()).then_verdict("LATER", "COOLDOWN_ACTIVE", until=NINE + 9 * MINUTE)


def test_defer_a_digest_to_the_next_window() -> None:
    scenario = inbox(preferences(timezone="Europe/Berlin"), jitter_s=0).when(note("DIGEST", "LOW"))
    scenario.then_verdict("LATER", "DIGEST_ELIGIBLE", until="2026-01-05T17:00:00Z")
    own = preferences(digest_windows=("30 12 * * mon",))
    inbox(own, jitter_s=0).when(note("DIGEST", "LOW")).then_verdict(
        "LATER", "DIGEST_ELIGIBLE", until="2026-01-05T12:30:00Z"
    )


def test_defer_a_low_score_for_half_an_hour() -> None:
    inbox().when(note("UPDATE", "LOW")).then_verdict("LATER", "SCORE_DEFER", until=NINE + 30 * MINUTE)
    inbox(score_defer_s=600).when(note("UPDATE", "LOW")).then_verdict("LATER", "SCORE_DEFER", until=NINE + 10 * MINUTE)


def test_an_instant_in_the_night_is_moved_to_the_morning_in_the_same_deferral() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,)), sent(1, 2, 3, now=parse("2026-01-05T21:50:00Z")), jitter_s=0)
    scenario.at("2026-01-05T21:50:00Z").when(note(), key="a")
    scenario.then_verdict("LATER", "FATIGUE_CAP_5M", until="2026-01-06T07:00:00Z")
    assert scenario.state
    assert scenario.state.waiting[0].defer_count == 1
    scenario.wakes().then_verdict("NOW", "FATIGUE_CAP_5M", "DEFAULT_PASS")


# -- judged again


def test_what_rings_is_judged_from_the_beginning_expiry_first() -> None:
    scenario = inbox(item(1, expires_at=NINE + MINUTE)).wakes()
    scenario.then(Suppressed(1, "e1", ("SCORE_DEFER", "EXPIRED"))).then_alarm(None)


def test_what_rings_is_no_duplicate_of_itself() -> None:
    scenario = inbox(sent(1, 2, 3)).when(note(), key="a").wakes().then_verdict("NOW", "FATIGUE_CAP_5M", "DEFAULT_PASS")
    assert scenario.decision.reply.defer_count == 1


def test_what_rings_reuses_the_providers_score() -> None:
    scenario = inbox().when(note("UPDATE", "MEDIUM", ai_score=9_000, ai_source="m"), key="a").wakes()
    assert (scenario.decision.reply.ai, scenario.decision.reply.ai_source) == ("0.9", "m")


def test_the_highest_priority_rings_first_then_the_oldest() -> None:
    scenario = inbox(item(1, "LOW"), item(2, "HIGH"), item(3, None), item(4, "HIGH"), item(5, "MEDIUM"))
    order = []
    for _ in range(5):
        scenario.wakes()
        order.append(scenario.decision.reply.item)
    assert order == [2, 4, 3, 5, 1]


def test_an_alarm_rung_late_in_the_night_holds_what_is_due_until_the_morning() -> None:
    forced = item(1, "HIGH", defer_count=2, until_at=NINE)
    scenario = inbox(preferences(quiet_hours=(NIGHT,)), forced, item(2), jitter_s=0).at("2026-01-05T23:00:00Z")
    morning = parse("2026-01-06T07:00:00Z")
    scenario.when(Wake()).then(Held((1, 2), morning)).then_alarm(morning)
    scenario.wakes().then_verdict("NOW", "SCORE_DEFER", "FORCED_DELIVERY")
    assert scenario.now == morning


def test_a_command_comes_behind_what_was_due_before_it() -> None:
    scenario = inbox(item(1, "HIGH", defer_count=2), fatigue={"burst": {"cap": 1}}).at(NINE + 2 * HOUR)
    scenario.when(note(), key="a").then_verdict("LATER", "FATIGUE_CAP_5M")


# -- after the last deferral


def test_past_its_deferrals_an_item_goes_into_the_next_digest() -> None:
    scenario = inbox(item(1, defer_count=2, reasons=("SCORE_DEFER", "SCORE_DEFER")), jitter_s=0).wakes()
    scenario.then_verdict("LATER", "SCORE_DEFER", "SCORE_DEFER", "DEFER_EXHAUSTED", until="2026-01-05T18:00:00Z")
    scenario.wakes()
    reasons = ("SCORE_DEFER", "SCORE_DEFER", "DEFER_EXHAUSTED", "DIGEST_RELEASED")
    assert scenario.decision.events[0] == Digested(1, "e1", reasons)


@pytest.mark.parametrize(("after", "answer"), [("drop", "NEVER"), ("deliver", "NOW")])
def test_past_its_deferrals_it_is_dropped_or_delivered_if_the_policy_says_so(after: str, answer: str) -> None:
    scenario = inbox(item(1, defer_count=2), event_types={"UPDATE": {"after_deferrals": after}}).wakes()
    scenario.then_verdict(answer, "SCORE_DEFER", "DEFER_EXHAUSTED").then_alarm(None)
    inbox(item(1, defer_count=2), after_deferrals=after).wakes().then_verdict(answer, "SCORE_DEFER", "DEFER_EXHAUSTED")


def test_past_its_deferrals_without_a_digest_it_is_delivered() -> None:
    inbox(item(1, defer_count=2), digest_windows=[]).wakes().then_verdict("NOW", "SCORE_DEFER", "DEFER_EXHAUSTED")


def test_how_many_deferrals_there_are_is_policy() -> None:
    inbox(item(1, defer_count=1), max_deferrals=1).wakes().then_verdict("LATER", "SCORE_DEFER", "DEFER_EXHAUSTED")


# -- digests

EVENING = parse("2026-01-05T18:00:00Z")


def gathered(version: int, **fields: Any) -> Postponed:
    known: dict[str, Any] = {
        "event_type": "DIGEST",
        "digest": True,
        "until_at": EVENING,
        "reasons": ("DIGEST_ELIGIBLE",),
    }
    return item(version, **(known | {"defer_count": 0} | fields))


def digest_channel(scenario: Scenario[InboxState]) -> str:
    released = scenario.decision.events[-1]
    assert isinstance(released, DigestReleased)
    return released.channel


def test_a_digest_is_one_delivery_of_all_that_was_gathered() -> None:
    scenario = inbox(gathered(1, channels=("push",)), gathered(2, channels=("email", "sms"))).wakes()
    released = scenario.decision.events[-1]
    assert isinstance(released, DigestReleased)
    assert (released.channel, released.at) == ("email", EVENING), "the first channel of the newest item"
    assert [type(event) for event in scenario.decision.events] == [Digested, Digested, DigestReleased]
    [call] = scenario.decision.effects
    assert isinstance(call, Call)
    assert call.payload == {"channel": "email", "segments": (1, 2), "digest": True}
    assert scenario.state
    assert (scenario.state.delivered, scenario.state.waiting) == ((EVENING,), ())


def test_a_digest_goes_to_the_channel_the_person_chose() -> None:
    scenario = inbox(preferences(digest_channel="in_app"), gathered(1)).wakes()
    feed = feed_stream("acme", "ann")
    scenario.then_effects(Send(feed, AddMessage("m3", (1,), EVENING, digest=True)))


def test_a_digest_goes_to_a_channel_with_room_under_its_cap() -> None:
    texted = sent(HOUR, 2 * HOUR, 3 * HOUR, now=EVENING, channel="sms")
    full = inbox(texted, gathered(1, channels=("push",)), gathered(2, channels=("sms", "email"))).wakes()
    assert digest_channel(full) == "email"
    chosen = inbox(preferences(digest_channel="sms"), texted, gathered(1, channels=("sms", "push"))).wakes()
    assert digest_channel(chosen) == "push"
    older = inbox(texted, gathered(1, channels=("push",)), gathered(2, channels=("sms",))).wakes()
    assert digest_channel(older) == "push", "what an older item may go by"


def test_a_digest_none_of_whose_channels_has_room_waits_for_the_first_that_does() -> None:
    texted = sent(HOUR, 2 * HOUR, 23 * HOUR, now=EVENING, channel="sms")
    scenario = inbox(texted, gathered(1, channels=("sms",)), gathered(2, channels=("sms",))).wakes()
    scenario.then(Held((1, 2), EVENING + HOUR)).wakes()
    assert scenario.now == EVENING + HOUR
    scenario.then_verdict("NOW", "DIGEST_RELEASED").then_alarm(None)
    assert scenario.state
    assert len(scenario.state.used["sms"]) == 3
    watched = inbox(texted, gathered(1, channels=("sms",)), shadow=["channel_cap"]).wakes()
    watched.then_verdict("NOW", "DIGEST_RELEASED")


def test_a_digest_ignores_fatigue() -> None:
    scenario = inbox(sent(*range(1, 40), now=EVENING), gathered(1)).wakes()
    scenario.then_verdict("NOW", "DIGEST_RELEASED")


def test_items_of_a_digest_are_checked_once_more() -> None:
    expired = gathered(1, expires_at=EVENING - 1)
    unwanted = gathered(2, event_type="PROMO")
    low = gathered(3, priority="LOW")
    fine = gathered(4)
    out = preferences(opt_out=OptOut(event_types=("PROMO",)))
    scenario = inbox(out, expired, unwanted, low, fine).with_others(tenant_incident(EVENING + 1)).wakes()
    ended = {event.event_id: event.reasons[-1] for event in scenario.decision.events if isinstance(event, Suppressed)}
    assert ended == {"e1": "EXPIRED", "e2": "USER_OPT_OUT", "e3": "INCIDENT_SUPPRESSION"}
    assert [event.event_id for event in scenario.decision.events if isinstance(event, Digested)] == ["e4"]


def test_a_digest_of_which_nothing_is_left_is_no_delivery() -> None:
    scenario = inbox(PersonBanned(Ban(NINE)), gathered(1)).wakes()
    scenario.then(Suppressed(1, "e1", ("DIGEST_ELIGIBLE", "ACCOUNT_BANNED"))).then_effects().then_alarm(None)


def test_a_digest_is_held_to_the_end_of_quiet_hours() -> None:
    late = preferences(quiet_hours=(NIGHT,), digest_windows=("30 22 * * *",))
    scenario = inbox(late, jitter_s=0).when(note("DIGEST", "LOW"), key="a")
    scenario.then_verdict("LATER", "DIGEST_ELIGIBLE", until="2026-01-06T07:00:00Z")
    scenario.at("2026-01-06T23:00:00Z").when(Wake()).then(Held((2,), parse("2026-01-07T07:00:00Z")))


def test_what_has_just_become_eligible_goes_with_the_digest() -> None:
    exhausted = item(1, defer_count=2, until_at=EVENING)
    scenario = inbox(exhausted, gathered(2), jitter_s=0).wakes()
    scenario.then_verdict("LATER", "SCORE_DEFER", "DEFER_EXHAUSTED")
    scenario.wakes()
    assert scenario.now == EVENING
    assert {event.event_id for event in scenario.decision.events if isinstance(event, Digested)} == {"e1", "e2"}


def test_a_digest_without_a_next_window_is_released_all_the_same() -> None:
    scenario = inbox(preferences(digest_windows=()), gathered(1)).wakes()
    scenario.then_verdict("NOW", "DIGEST_RELEASED").then_alarm(None)


# -- duplicates of what waits


def test_a_duplicate_of_higher_priority_takes_the_place_of_what_waits() -> None:
    scenario = inbox().when(note("UPDATE", "LOW", report_to=ASKER), key="low").then_verdict("LATER", "SCORE_DEFER")
    scenario.when(note("UPDATE", "HIGH"), key="high").then_verdict("LATER", "SCORE_DEFER")
    assert scenario.decision.events[0] == Suppressed(1, "low", ("SCORE_DEFER", "DEDUP_EXACT"))
    scenario.then_effects(Send(ASKER, TargetSettled("suppressed", "DEDUP_EXACT")))
    assert scenario.state
    assert [one.event_id for one in scenario.state.waiting] == ["high"]
    scenario.when(note("UPDATE", "HIGH"), key="third").then_verdict("NEVER", "DEDUP_EXACT")


def test_a_duplicate_of_the_same_or_lower_priority_does_not() -> None:
    scenario = inbox().when(note("UPDATE", "MEDIUM"), key="a")
    for place, priority in enumerate((None, "MEDIUM", "LOW")):
        scenario.when(note("UPDATE", priority), key=f"b{place}").then_verdict("NEVER", "DEDUP_EXACT")


def test_what_was_delivered_is_not_replaced() -> None:
    scenario = inbox().when(note(priority=None, ai_score=10_000), key="a").then_verdict("NOW", "DEFAULT_PASS")
    scenario.when(note(priority="HIGH"), key="b").then_verdict("NEVER", "DEDUP_EXACT")


def test_a_critical_duplicate_takes_the_place_too() -> None:
    scenario = inbox().when(note("UPDATE", "LOW"), key="low").when(note("UPDATE", "CRITICAL"), key="now")
    scenario.then_verdict("NOW", "CRITICAL_OVERRIDE").then_alarm(None)
    assert scenario.decision.events[0] == Suppressed(1, "low", ("SCORE_DEFER", "DEDUP_EXACT"))


def test_a_duplicate_that_is_itself_refused_takes_no_place() -> None:
    scenario = inbox().when(note("PROMO", "LOW"), key="low").then_verdict("LATER", "SCORE_DEFER")
    scenario.with_others(tenant_incident(NINE + HOUR)).when(note("PROMO", "HIGH"), key="high")
    scenario.then_verdict("NEVER", "INCIDENT_SUPPRESSION")
    assert scenario.state
    assert [one.event_id for one in scenario.state.waiting] == ["low"]


def test_what_ends_undelivered_gives_its_text_back() -> None:
    scenario = inbox().when(note("UPDATE", "LOW", expires_at=NINE + MINUTE), key="a").wakes()
    scenario.then_verdict("NEVER", "SCORE_DEFER", "EXPIRED")
    scenario.when(note("UPDATE", "LOW"), key="b").then_verdict("LATER", "SCORE_DEFER")


# -- bounds


def crowd(count: int, priority: Any = "MEDIUM", first: int = 1, **fields: Any) -> list[Postponed]:
    return [item(first + place, priority, until_at=NINE + DAY, **fields) for place in range(count)]


def test_when_two_hundred_wait_the_lowest_and_oldest_moves_to_the_digest() -> None:
    scenario = inbox(crowd(199), item(300, "LOW"), jitter_s=0).when(note("UPDATE", "MEDIUM"), key="new")
    scenario.then_verdict("LATER", "SCORE_DEFER", until=NINE + 30 * MINUTE)
    moved = scenario.decision.events[0]
    assert isinstance(moved, Postponed)
    assert (moved.item.event_id, moved.item.digest, moved.item.until_at) == ("e300", True, EVENING)


def test_when_the_new_one_is_the_lowest_it_goes_there_itself() -> None:
    scenario = inbox(crowd(200), jitter_s=0).when(note("UPDATE", "LOW"), key="new")
    scenario.then_verdict("LATER", "SCORE_DEFER", until=EVENING)
    assert scenario.decision.verdict
    assert scenario.decision.verdict.would_pass_at == EVENING


def test_without_a_digest_the_lowest_and_oldest_is_refused() -> None:
    scenario = inbox(crowd(200, report_to=ASKER), digest_windows=[]).when(note("UPDATE", "HIGH"), key="new")
    scenario.then_verdict("LATER", "SCORE_DEFER")
    assert scenario.decision.events[0] == Suppressed(1, "e1", ("SCORE_DEFER", "INBOX_FULL"))
    scenario.then_effects(Send(ASKER, TargetSettled("suppressed", "INBOX_FULL")))
    scenario = inbox(crowd(200), digest_windows=[]).when(note("UPDATE", "LOW"), key="new")
    scenario.then_verdict("NEVER", "SCORE_DEFER", "INBOX_FULL")


def test_a_digest_too_has_its_bound() -> None:
    full = [gathered(place) for place in range(1, 201)]
    scenario = inbox(full).when(note("DIGEST", "MEDIUM"), key="new").then_verdict("LATER", "DIGEST_ELIGIBLE")
    assert scenario.decision.events[0] == Suppressed(1, "e1", ("DIGEST_ELIGIBLE", "INBOX_FULL"))
    inbox(full).when(note("DIGEST", "LOW"), key="new").then_verdict("NEVER", "DIGEST_ELIGIBLE", "INBOX_FULL")


def test_the_oldest_hash_and_fingerprint_leave_first() -> None:
    many = {"fatigue": {name: {"cap": 500} for name in ("day", "hour", "burst")}, "recency_count": 500}
    scenario = inbox(**many, thresholds={"now_from": 0, "never_below": 0})
    for place in range(501):
        scenario.at(NINE + place).when(note(text=f"{place} " * 8, title=f"{place * 7919}"), key=f"e{place}")
    assert scenario.state
    assert (len(scenario.state.seen), len(scenario.state.prints)) == (500, 128)
    assert (scenario.state.seen[0].item, scenario.state.prints[-1].item) == (2, 501)


def test_a_ban_comes_before_what_is_due() -> None:
    scenario = inbox(item(1)).at(NINE + 2 * HOUR).when(BanPerson("fraud"))
    scenario.then(PersonBanned(Ban(NINE + 2 * HOUR, "fraud")))
    scenario.when(Wake()).then(Suppressed(1, "e1", ("SCORE_DEFER", "ACCOUNT_BANNED"))).then_alarm(None)


def test_keys_are_kept_until_whatever_waits_is_settled() -> None:
    scenario = inbox(jitter_s=0).when(note("UPDATE", "LOW"), key="a")
    assert scenario.decision.promised_at == parse("2026-01-07T18:00:00Z")


def test_released_later_items_are_counted_when_they_go_out() -> None:
    scenario = inbox(sent(1, 2, 3)).when(note(), key="a").wakes()
    [released] = scenario.decision.events
    assert isinstance(released, Released)
    assert scenario.state
    assert scenario.state.delivered[-1] == NINE + 15 * MINUTE
    assert released.exact == ""
