"""Every answer but NOW says when, as things stand, it would pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.core.instants import DAY, HOUR, MINUTE, Instant, parse
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.core.verdicts import Hit
from betimes.notifications import evaluation
from betimes.notifications.evaluation import DigestHit, evaluate, first_hit
from betimes.notifications.model import (
    Ban,
    InboxState,
    Incident,
    IncidentOpened,
    Item,
    OptOut,
    PersonBanned,
    Preferences,
    Print,
    Seen,
)
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.quiet_hours import QuietHours
from betimes.notifications.reasons import SHADOWABLE_RULES
from betimes.notifications.rule_context import RuleContext
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import NIGHT, NINE, inbox, note, preferences, sent


def passes_at(scenario: Scenario[Any]) -> Instant | None:
    assert scenario.decision.verdict
    return scenario.decision.verdict.would_pass_at


def test_what_goes_out_needs_no_such_instant() -> None:
    assert passes_at(inbox().when(note())) is None


@pytest.mark.parametrize(
    "scenario",
    [
        inbox().when(note(expires_at=NINE - 1)),
        inbox(PersonBanned(Ban(NINE))).when(note()),
        inbox(preferences(opt_out=OptOut(all=True))).when(note()),
    ],
    ids=["expired", "banned", "opted out"],
)
def test_some_things_no_passing_of_time_lets_through(scenario: Scenario[Any]) -> None:
    assert passes_at(scenario) is None


def test_a_duplicate_passes_when_the_original_is_forgotten() -> None:
    assert passes_at(inbox().when(note(), key="a").at(NINE + HOUR).when(note(), key="b")) == NINE + DAY


def test_promo_in_an_incident_passes_after_it_if_nothing_else_is_against_it() -> None:
    incident = IncidentOpened(Incident("i", NINE, NINE + HOUR))
    assert passes_at(inbox(incident).when(note("PROMO", "HIGH", ai_score=10_000))) == NINE + HOUR
    assert passes_at(inbox(incident).when(note("PROMO", "LOW", ai_score=0), key="a")) is None


def test_low_on_a_full_day_passes_when_the_first_delivery_is_a_day_old() -> None:
    full = sent(*(3 * HOUR + place * MINUTE for place in range(30)))
    scenario = inbox(full, thresholds={"now_from": "0.3"}).when(note(priority="LOW"))
    scenario.then_verdict("NEVER", "FATIGUE_CAP_24H")
    assert passes_at(scenario) == NINE - 3 * HOUR - 29 * MINUTE + DAY


def test_a_low_score_passes_when_enough_has_left_the_last_hour() -> None:
    scenario = inbox(sent(*(10 * MINUTE + place for place in range(5))), max_deferrals=1, after_deferrals="deliver")
    scenario.when(note("PROMO", "LOW")).then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")
    oldest_leaves = NINE - 10 * MINUTE - 4 + HOUR
    assert passes_at(scenario) == oldest_leaves + 30 * MINUTE, "it would be put off once and then delivered"


def test_a_low_score_that_passes_in_quiet_hours_waits_for_their_end() -> None:
    quiet = preferences(quiet_hours=(QuietHours(9 * 60 + 30, 10 * 60),))
    past = sent(*(10 * MINUTE + place for place in range(5)))
    scenario = inbox(quiet, past, max_deferrals=1, after_deferrals="deliver", jitter_s=0)
    scenario.when(note("PROMO", "LOW")).then_verdict("NEVER", "SCORE_BELOW_THRESHOLD")
    assert passes_at(scenario) == NINE + HOUR


def test_what_is_put_off_over_and_over_passes_with_the_digest() -> None:
    scenario = inbox(jitter_s=0).when(note("UPDATE", "LOW")).then_verdict("LATER", "SCORE_DEFER")
    assert passes_at(scenario) == parse("2026-01-05T18:00:00Z")


def test_what_expires_before_it_would_pass_never_passes() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,))).at("2026-01-05T02:00:00Z")
    assert passes_at(scenario.when(note(expires_at=parse("2026-01-05T06:00:00Z")))) is None


# -- the same instant, found by asking every rule again at every step

BOOK = PolicyBook({"notifications": NotificationsPolicy})
PAST = st.lists(st.integers(0, 59) | st.integers(60, 26 * 60), max_size=8).map(
    lambda ages: tuple(NINE - age * MINUTE for age in sorted(ages, reverse=True))
)
CAPS = st.fixed_dictionaries({"cap": st.integers(1, 9), "span_s": st.sampled_from((300, 3_600, 86_400))})
POLICIES = st.fixed_dictionaries(
    {
        "max_deferrals": st.integers(1, 4),
        "after_deferrals": st.sampled_from(("digest", "drop", "deliver")),
        "digest_windows": st.sampled_from(((), ("0 18 * * *",))),
        "shadow": st.lists(st.sampled_from(SHADOWABLE_RULES), max_size=2, unique=True),
        "fatigue": st.fixed_dictionaries({"day": CAPS, "hour": CAPS, "burst": CAPS}),
        "channels": st.just({"push": {"cap_24h": 2}}),
        "event_types": st.sampled_from(({}, {"MESSAGE": {"cooldown_s": 7_200}, "PROMO": {"cooldown_s": 50_000}})),
        "recency_count": st.sampled_from((2, 10)),
        "thresholds": st.sampled_from(({}, {"now_from": "0.5", "never_below": "0.45"})),
    }
)
INCIDENTS = st.none() | st.integers(1, 600).map(lambda minutes: Incident("i", NINE, NINE + minutes * MINUTE))


@st.composite
def contexts(draw: st.DrawFn) -> RuleContext:
    """Items of all types and priorities in inboxes in which much stands against them."""
    hours = st.builds(
        QuietHours, st.integers(601, 660) | st.integers(0, 600), st.integers(661, 700) | st.integers(701, 1_440)
    )
    chosen = Preferences("Europe/Berlin", tuple(draw(st.lists(hours, max_size=2))))
    event_type = draw(st.sampled_from(("MESSAGE", "PROMO", "UPDATE", "DIGEST")))
    delivered = draw(PAST)
    state = InboxState(
        preferences=chosen,
        incident=draw(INCIDENTS),
        delivered=delivered,
        used={"push": draw(PAST)},
        last_by_type={event_type: delivered[-1]} if delivered else {},
        seen=draw(st.sampled_from(((), (Seen("same", NINE - HOUR, 3),)))),
        prints=draw(st.sampled_from(((), (Print(7, NINE - 5 * HOUR, 2),)))),
    )
    item = Item(
        version=9,
        event_id="e",
        event_type=event_type,
        channels=("push",),
        accepted_at=NINE,
        exact="same",
        near=6,
        priority=draw(st.sampled_from(("LOW", None, "MEDIUM", "HIGH"))),
        expires_at=draw(st.none() | st.integers(1, 2_000).map(lambda minutes: NINE + minutes * MINUTE)),
        ai=draw(st.sampled_from((None, 0, 10_000))),
        defer_count=draw(st.integers(0, 3)),
    )
    policy = BOOK.effective({"notifications": draw(POLICIES)})[NotificationsPolicy]
    return RuleContext(StreamId("t", "inbox", "ann"), state, draw(INCIDENTS), item, policy, NINE)


def evaluate_again(context: RuleContext, hit: Hit) -> Instant | None:
    for _ in range(16):
        waits = hit.answer == "LATER"
        at = hit.until if waits else evaluation._lets_go_at(context, hit.reason)
        expires_at = context.item.expires_at
        if at is None or at <= context.now or (expires_at is not None and at > expires_at):
            return None
        if isinstance(hit, DigestHit):
            return at
        context = context.at_later(at, context.item.defer_count + 1 if waits else 0)
        hit = first_hit(context)
        if hit.answer == "NOW":
            return at
    return None


@settings(max_examples=600, deadline=None)
@given(contexts())
def test_rules_that_only_ease_with_time_need_not_be_asked_again(context: RuleContext) -> None:
    hit = first_hit(context)
    expected = None if hit.answer == "NOW" else evaluate_again(context, hit)
    assert evaluate(context).verdict.would_pass_at == expected
