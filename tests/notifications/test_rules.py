"""Every row of the rule table, the conflict table and the table of reasons."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.core.errors import Invalid
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND
from betimes.core.streams import StreamId
from betimes.notifications.model import Ban, Item, OptOut, PersonBanned, Postponed
from betimes.notifications.quiet_hours import QuietHours
from betimes.notifications.reasons import RULE_REASONS
from betimes.notifications.rules import RULES, STAGES
from tests.notifications.inboxes import NIGHT, NINE, inbox, note, preferences, sent, tenant_incident

FULL_5M = sent(MINUTE, 2 * MINUTE, 3 * MINUTE)
FULL_1H = sent(*(20 * MINUTE + place * SECOND for place in range(10)))
FULL_24H = sent(*(3 * HOUR + place * SECOND for place in range(30)))
TWO_AM = "2026-01-05T02:00:00Z"


def waiting(priority: Any = "HIGH", defer_count: int = 0, **fields: Any) -> Postponed:
    known: dict[str, Any] = {"event_type": "MESSAGE", "channels": ("push",), "accepted_at": NINE - HOUR, "exact": "x"}
    reasons = ("SCORE_DEFER",) * defer_count
    item = Item(
        1, "kept", priority=priority, defer_count=defer_count, until_at=NINE, reasons=reasons, **(known | fields)
    )
    return Postponed(item)


# -- the rules, in order


def test_p0_what_has_expired_is_never_heard() -> None:
    inbox().when(note(expires_at=NINE - 1)).then_verdict("NEVER", "EXPIRED")
    inbox().when(note(priority="CRITICAL", expires_at=NINE - 1)).then_verdict("NEVER", "EXPIRED")


def test_p0_at_its_very_instant_it_has_not_expired() -> None:
    inbox().when(note(expires_at=NINE)).then_verdict("NOW", "DEFAULT_PASS")


def test_a_banned_account_hears_nothing_not_even_critical() -> None:
    banned = inbox(PersonBanned(Ban(NINE, "fraud")))
    banned.when(note(priority="CRITICAL"), key="a").then_verdict("NEVER", "ACCOUNT_BANNED")
    banned.when(note("SECURITY"), key="b").then_verdict("NEVER", "ACCOUNT_BANNED")


@pytest.mark.parametrize(("event_type", "priority"), [("MESSAGE", "CRITICAL"), ("SECURITY", "LOW"), ("SECURITY", None)])
def test_p1_critical_skips_everything_below(event_type: str, priority: str | None) -> None:
    opted_out = preferences(quiet_hours=(QuietHours(8 * 60, 10 * 60),), opt_out=OptOut(all=True))
    crowded = inbox(opted_out, FULL_5M).with_others(tenant_incident(NINE + HOUR))
    crowded.when(note(event_type, priority), key="a").then_verdict("NOW", "CRITICAL_OVERRIDE")
    crowded.when(note(event_type, priority), key="b").then_verdict("NOW", "CRITICAL_OVERRIDE")


def test_p2_the_same_text_within_a_day_is_a_duplicate() -> None:
    scenario = inbox().when(note(), key="a")
    scenario.at(NINE + DAY - 1).when(note(), key="b").then_verdict("NEVER", "DEDUP_EXACT")
    scenario.at(NINE + DAY).when(note(), key="c").then_verdict("NOW", "DEFAULT_PASS")


def test_p2_a_suppressed_duplicate_does_not_extend_the_window() -> None:
    scenario = inbox().when(note(), key="a").at(NINE + 20 * HOUR).when(note(), key="b")
    scenario.then_verdict("NEVER", "DEDUP_EXACT").at(NINE + DAY).when(note(), key="c").then_verdict(
        "NOW", "DEFAULT_PASS"
    )


@pytest.mark.parametrize("text", ["SEE you\tat  nine?", "\uff33ee you at nine?", "see YOU at nine?"])
def test_p2_case_width_and_white_space_make_no_difference(text: str) -> None:
    inbox().when(note(), key="a").when(note(text=text), key="b").then_verdict("NEVER", "DEDUP_EXACT")


@pytest.mark.parametrize("other", [{"source": "mail"}, {"event_type": "ALERT"}])
def test_p2_another_source_or_type_is_not_the_same_exactly(other: dict[str, Any]) -> None:
    scenario = inbox(dedup={"near": False}).when(note(), key="a")
    scenario.when(note(**other), key="b").then_verdict("NOW", "DEFAULT_PASS")


def test_p2_the_callers_key_says_what_is_the_same() -> None:
    scenario = inbox().when(note(dedupe_key="k"), key="a")
    scenario.when(note(text="Something else altogether, entirely", dedupe_key="k"), key="b")
    scenario.then_verdict("NEVER", "DEDUP_EXACT")


def test_p2_the_callers_keys_say_what_is_not_the_same() -> None:
    """Alike or word for word, before or after: what has another key is another thing."""
    scenario = inbox().when(note(text=LONG, dedupe_key="order 1"), key="a")
    scenario.when(note(text=LONG, dedupe_key="order 2"), key="b").then_verdict("NOW", "DEFAULT_PASS")
    scenario.when(note(text=LONG + "!!"), key="c").then_verdict("NOW", "DEFAULT_PASS")


def test_p2_a_policy_may_compare_texts_with_keys_nearly_too() -> None:
    scenario = inbox(dedup={"near_with_key": True}).when(note(text=LONG, dedupe_key="order 1"), key="a")
    scenario.when(note(text=LONG, dedupe_key="order 2"), key="b").then_verdict("NEVER", "DEDUP_NEAR")


LONG = "The nightly backup of the customer database in Frankfurt has finished without errors after forty minutes"


def test_p2_nearly_the_same_text_is_a_duplicate() -> None:
    scenario = inbox().when(note(text=LONG), key="a")
    scenario.when(note(text=LONG + "!!", title="Ana  replied:"), key="b").then_verdict("NEVER", "DEDUP_NEAR")


def test_p2_short_texts_are_compared_exactly_only() -> None:
    scenario = inbox().when(note(title="Ana", text="hello you"), key="a")
    scenario.when(note(title="Ana", text="hello, you"), key="b").then_verdict("NOW", "DEFAULT_PASS")


def test_p2_another_person_is_not_concerned() -> None:
    first, second = inbox(), inbox()
    second.stream = StreamId("acme", "inbox", "bob")
    assert first.when(note(), key="a").state
    assert second.when(note(), key="a").state
    assert first.state
    assert second.state
    assert first.state.seen[0].exact != second.state.seen[0].exact


@pytest.mark.parametrize(
    "out", [OptOut(all=True), OptOut(event_types=("MESSAGE",)), OptOut(channels=("push", "email"))]
)
def test_p3_who_opted_out_of_it_hears_nothing(out: OptOut) -> None:
    inbox(preferences(opt_out=out)).when(note()).then_verdict("NEVER", "USER_OPT_OUT")


def test_p3_channels_opted_out_of_are_left_out() -> None:
    scenario = inbox(preferences(opt_out=OptOut(channels=("push",)))).when(note(), key="a")
    assert scenario.decision.reply.channel == "email"


def test_forced_a_high_item_put_off_twice_goes_out() -> None:
    scenario = inbox(waiting("HIGH", 2), FULL_5M).wakes()
    scenario.then_verdict("NOW", "SCORE_DEFER", "SCORE_DEFER", "FORCED_DELIVERY")


def test_forced_is_for_high_and_above_only() -> None:
    inbox(waiting("MEDIUM", 2), FULL_5M).wakes().then_verdict("LATER", "SCORE_DEFER", "SCORE_DEFER", "DEFER_EXHAUSTED")


def test_p4_the_widest_window_is_looked_at_first() -> None:
    everything = sent(*(place * SECOND for place in range(1, 31)))
    inbox(everything).when(note()).then_verdict("LATER", "FATIGUE_CAP_24H")


@pytest.mark.parametrize(
    ("event_type", "priority", "answer"),
    [
        ("MESSAGE", "LOW", "NEVER"),
        ("PROMO", "MEDIUM", "NEVER"),
        ("PROMO", None, "NEVER"),
        ("PROMO", "HIGH", "LATER"),
        ("MESSAGE", "MEDIUM", "LATER"),
        ("MESSAGE", None, "LATER"),
        ("MESSAGE", "HIGH", "LATER"),
    ],
)
def test_p4_a_full_day_is_never_for_promo_and_low_and_later_for_the_rest(
    event_type: str, priority: str | None, answer: str
) -> None:
    inbox(FULL_24H).when(note(event_type, priority)).then_verdict(answer, "FATIGUE_CAP_24H")


def test_p4_ten_in_an_hour_and_three_in_five_minutes_are_enough() -> None:
    inbox(FULL_1H).when(note()).then_verdict("LATER", "FATIGUE_CAP_1H")
    inbox(FULL_5M).when(note()).then_verdict("LATER", "FATIGUE_CAP_5M")
    inbox(FULL_5M[1:]).when(note()).then_verdict("NOW", "DEFAULT_PASS")


def test_p4_windows_slide_to_the_microsecond() -> None:
    scenario = inbox(sent(5 * MINUTE - 1, MINUTE, MINUTE))
    scenario.when(note(), key="a").then_verdict("LATER", "FATIGUE_CAP_5M")
    inbox(sent(5 * MINUTE, MINUTE, MINUTE)).when(note()).then_verdict("NOW", "DEFAULT_PASS")


def test_p4_what_is_refused_or_put_off_is_not_counted() -> None:
    scenario = inbox(FULL_5M)
    before = scenario.state
    scenario.when(note(), key="a").when(note(expires_at=NINE - 1), key="b")
    assert scenario.state
    assert before
    assert (scenario.state.delivered, scenario.state.used) == (before.delivered, before.used)


def test_p5_quiet_hours_may_cross_midnight() -> None:
    asleep = inbox(preferences(quiet_hours=(NIGHT,)))
    asleep.at("2026-01-05T06:59:59Z").when(note(), key="a").then_verdict("LATER", "QUIET_HOURS")
    inbox(preferences(quiet_hours=(NIGHT,))).at("2026-01-05T07:00:00Z").when(note()).then_verdict("NOW", "DEFAULT_PASS")


def test_p5_a_window_belongs_to_the_weekday_it_starts_on() -> None:
    sundays = preferences(quiet_hours=(QuietHours(22 * 60, 7 * 60, (6,)),))
    inbox(sundays).at("2026-01-05T02:00:00Z").when(note()).then_verdict("LATER", "QUIET_HOURS")
    inbox(sundays).at("2026-01-04T02:00:00Z").when(note()).then_verdict("NOW", "DEFAULT_PASS")


def test_p5_a_cooldown_of_the_type_runs_from_its_last_delivery() -> None:
    types = {"MESSAGE": {"cooldown_s": 3600}}
    resting = inbox(sent(HOUR - 1, event_type="MESSAGE"), event_types=types)
    resting.when(note()).then_verdict("LATER", "COOLDOWN_ACTIVE", until=NINE + 1)
    inbox(sent(HOUR, event_type="MESSAGE"), event_types=types).when(note()).then_verdict("NOW", "DEFAULT_PASS")
    inbox(sent(1, event_type="UPDATE"), event_types=types).when(note()).then_verdict("NOW", "DEFAULT_PASS")


SMS_FULL = sent(10 * HOUR, 11 * HOUR, 12 * HOUR, channel="sms")


def test_p6_a_full_channel_gives_way_to_the_next_one_listed() -> None:
    scenario = inbox(SMS_FULL).when(note(channels=("sms", "email")))
    scenario.then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.channel == "email"


def test_p6_the_next_one_must_not_be_opted_out_of() -> None:
    scenario = inbox(SMS_FULL, preferences(opt_out=OptOut(channels=("email",))))
    scenario.when(note(channels=("sms", "email"))).then_verdict("LATER", "CHANNEL_CAP", until=NINE + 12 * HOUR)


def test_p6_without_a_channel_that_has_room_it_waits_for_the_first_that_has() -> None:
    inbox(SMS_FULL).when(note(channels=("sms",))).then_verdict("LATER", "CHANNEL_CAP", until=NINE + 12 * HOUR)


def test_p6_digest_types_wait_for_the_next_digest() -> None:
    scenario = inbox(jitter_s=0).when(note("DIGEST", "MEDIUM"))
    scenario.then_verdict("LATER", "DIGEST_ELIGIBLE", until="2026-01-05T18:00:00Z")


def test_p6_high_and_above_never_wait_for_a_digest() -> None:
    inbox().when(note("DIGEST", "HIGH")).then_verdict("LATER", "SCORE_DEFER")
    inbox().when(note("DIGEST", "CRITICAL")).then_verdict("NOW", "CRITICAL_OVERRIDE")


def test_p6_other_types_are_gathered_if_the_policy_says_so() -> None:
    scenario = inbox(event_types={"PROMO": {"digest": True}}).when(note("PROMO", "MEDIUM"))
    scenario.then_verdict("LATER", "DIGEST_ELIGIBLE")


def test_whoever_has_no_digest_window_gets_them_singly() -> None:
    inbox(preferences(digest_windows=())).when(note("DIGEST", "LOW")).then_verdict("NOW", "DEFAULT_PASS")
    inbox(digest_windows=[]).when(note("DIGEST", None)).then_verdict("NOW", "DEFAULT_PASS")
    inbox(digest_windows=[]).when(note("DIGEST", "HIGH")).then_verdict("NOW", "DEFAULT_PASS")


def test_p7_exactly_065_is_now() -> None:
    scenario = inbox(sent(*(10 * MINUTE + place for place in range(8)))).when(note("MESSAGE", "HIGH"))
    scenario.then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.score == "0.65"


def test_p7_exactly_030_is_later() -> None:
    scenario = inbox(sent(*(10 * MINUTE + place for place in range(4)))).when(note("PROMO", "LOW"))
    scenario.then_verdict("LATER", "SCORE_DEFER", until=NINE + 30 * MINUTE)
    assert scenario.decision.reply.score == "0.3"


def test_p7_below_030_is_never() -> None:
    scenario = inbox(sent(*(10 * MINUTE + place for place in range(5)))).when(note("PROMO", "LOW"))
    scenario.then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")
    assert scenario.decision.reply.score == "0.29"


def test_p7_thresholds_can_be_a_types_own() -> None:
    own = {"MESSAGE": {"thresholds": {"now_from": "0.8", "never_below": "0.75"}}}
    inbox(event_types=own).when(note()).then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")


def test_p7_what_the_provider_said_is_used_and_recorded() -> None:
    scenario = inbox().when(note("UPDATE", "MEDIUM", ai_score=10_000, ai_source="model-3"))
    reply = scenario.decision.reply
    assert (reply.score, reply.ai, reply.ai_source, reply.flags) == ("0.645", "1", "model-3", ())


def test_p7_without_the_provider_the_fallback_is_used_and_flagged() -> None:
    types = {"ALERT": {"ai_fallback": 0.9}}
    reply = inbox(event_types=types).when(note("ALERT", "MEDIUM")).decision.reply
    assert (reply.score, reply.ai, reply.flags) == ("0.71", "0.9", ("AI_FALLBACK",))
    reply = inbox(event_types=types).when(note("UPDATE", "MEDIUM")).decision.reply
    assert (reply.ai, reply.flags) == ("0.5", ("AI_FALLBACK",))


def test_p8_what_nothing_speaks_against_goes_out_with_its_score() -> None:
    scenario = inbox().when(note()).then_verdict("NOW", "DEFAULT_PASS")
    assert scenario.decision.reply.score == "0.73"


# -- conflicts


def test_conflict_critical_and_a_fatigue_cap() -> None:
    for full in (FULL_5M, FULL_1H, FULL_24H):
        inbox(full).when(note(priority="CRITICAL")).then_verdict("NOW", "CRITICAL_OVERRIDE")


def test_conflict_high_and_a_fatigue_cap_is_later_and_requeued_once() -> None:
    scenario = inbox(FULL_24H, jitter_s=0).when(note(), key="a").then_verdict("LATER", "FATIGUE_CAP_24H")
    for again in range(30):
        scenario.at(NINE + HOUR + again).when(
            note("SECURITY", text=f"number {again} of thirty alarms"), key=f"s{again}"
        )
    assert scenario.state
    scenario.at("2026-01-06T08:00:00Z").wakes().then_verdict("LATER", "FATIGUE_CAP_24H", "FATIGUE_CAP_24H")
    scenario.wakes().then_verdict("NOW", "FATIGUE_CAP_24H", "FATIGUE_CAP_24H", "FORCED_DELIVERY")


def test_conflict_promo_or_low_during_an_incident() -> None:
    for kind, priority in (("PROMO", "HIGH"), ("PROMO", None), ("MESSAGE", "LOW")):
        scenario = inbox().with_others(tenant_incident(NINE + 1))
        scenario.when(note(kind, priority)).then_verdict("NEVER", "INCIDENT_SUPPRESSION")


def test_conflict_an_incident_comes_before_fatigue() -> None:
    scenario = inbox(FULL_5M).with_others(tenant_incident(NINE + HOUR))
    scenario.when(note("PROMO", "HIGH")).then_verdict("NEVER", "INCIDENT_SUPPRESSION")


@pytest.mark.parametrize("priority", ["HIGH", "MEDIUM", "CRITICAL", None])
def test_an_incident_does_not_concern_the_rest(priority: str | None) -> None:
    calm = inbox().when(note("SECURITY" if priority is None else "MESSAGE", priority))
    scenario = inbox().with_others(tenant_incident(NINE + HOUR))
    scenario.when(note("SECURITY" if priority is None else "MESSAGE", priority))
    assert scenario.decision.verdict
    assert calm.decision.verdict
    assert scenario.decision.verdict.answer == calm.decision.verdict.answer


def test_an_absent_priority_is_not_low_in_an_incident() -> None:
    inbox().with_others(tenant_incident(NINE + 1)).when(note("MESSAGE", None)).then_verdict("LATER", "SCORE_DEFER")


def test_an_incident_that_has_ended_concerns_nobody() -> None:
    inbox().with_others(tenant_incident(NINE)).when(note("PROMO", "HIGH")).then_verdict("LATER", "SCORE_DEFER")


def test_conflict_high_during_quiet_hours() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,)), jitter_s=0).at(TWO_AM).when(note())
    scenario.then_verdict("LATER", "QUIET_HOURS", until="2026-01-05T07:00:00Z")


def test_conflict_critical_during_quiet_hours() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,))).at(TWO_AM)
    scenario.when(note(priority="CRITICAL")).then_verdict("NOW", "CRITICAL_OVERRIDE")


# -- what is not valid


def test_types_and_channels_the_policy_does_not_know_are_all_named() -> None:
    with pytest.raises(Invalid) as error:
        inbox().when(note("GOSSIP", channels=("push", "pigeon", "drum")))
    assert [path for path, _ in error.value.problems] == ["event_type", "channels[1]", "channels[2]"]


def test_types_and_channels_can_be_added() -> None:
    more = {"event_types": {"GOSSIP": {"weight": 0.9}}, "channels": {"pigeon": {"cap_24h": 1}}}
    scenario = inbox(**more).when(note("GOSSIP", channels=("pigeon",)), key="a").then_verdict("NOW", "DEFAULT_PASS")
    scenario.when(note("GOSSIP", channels=("pigeon",), text="and another thing I heard"), key="b")
    scenario.then_verdict("LATER", "CHANNEL_CAP")


def test_every_rule_has_its_place_in_the_pipeline_and_its_reasons() -> None:
    retired = {rule.name for rule in RULES.retired}
    registered = {name: codes for name, codes in RULE_REASONS.items() if name not in retired}
    assert list(STAGES) == list(registered) == [rule.name for rule in RULES.rules]
    assert all(code in STAGES[name][1] for name, codes in registered.items() for code in codes)


@pytest.mark.parametrize(
    ("asked", "policy", "because"),
    [
        (note(requested=True), {}, "the person asked for it"),
        (note("DIGEST", None), {"digest_windows": []}, "there is no digest to gather it"),
    ],
)
def test_what_is_not_scored_says_why(asked: Any, policy: dict[str, Any], because: str) -> None:
    verdict = inbox(**policy).when(asked).decision.verdict
    assert verdict
    assert RULES.explain(verdict)[-1].sentence == f"its importance does not matter: {because}"
