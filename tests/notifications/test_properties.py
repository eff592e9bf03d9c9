"""What holds for every inbox, whatever happened to it: random lives, judged by what must never be otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from betimes.core.canonical import encode
from betimes.core.deciders import Call, Decision, Settled, Wake
from betimes.core.instants import HOUR, MINUTE, SECOND
from betimes.notifications.decide import INBOX
from betimes.notifications.model import (
    BanPerson,
    DeliveryFailed,
    Digested,
    InboxState,
    Notify,
    OpenIncident,
    OptOut,
    Preferences,
    Released,
    SetPreferences,
    Suppressed,
    UnbanPerson,
)
from betimes.notifications.quiet_hours import QuietHours
from betimes.notifications.rules import STAGES
from betimes.testing.scenarios import Scenario
from tests.notifications.inboxes import NIGHT, NINE, inbox

TYPES = ("MESSAGE", "REMINDER", "ALERT", "PROMO", "SYSTEM", "UPDATE", "SECURITY", "DIGEST")
PRIORITIES = ("LOW", None, "MEDIUM", "HIGH", "CRITICAL")
TEXTS = tuple(
    f"This is the {word} of several texts that are told apart" for word in ("first", "second", "third", "last")
)
REASONS = {
    "NOW": {"CRITICAL_OVERRIDE", "FORCED_DELIVERY", "DEFAULT_PASS", "DEFER_EXHAUSTED"},
    "LATER": {
        "FATIGUE_CAP_5M",
        "FATIGUE_CAP_1H",
        "FATIGUE_CAP_24H",
        "QUIET_HOURS",
        "COOLDOWN_ACTIVE",
        "CHANNEL_CAP",
        "DIGEST_ELIGIBLE",
        "SCORE_DEFER",
        "DEFER_EXHAUSTED",
    },
    "NEVER": {
        "EXPIRED",
        "ACCOUNT_BANNED",
        "DEDUP_EXACT",
        "DEDUP_NEAR",
        "USER_OPT_OUT",
        "INCIDENT_SUPPRESSION",
        "FATIGUE_CAP_24H",
        "SCORE_BELOW_THRESHOLD",
        "DEFER_EXHAUSTED",
        "INBOX_FULL",
    },
}
SEVERITY = {"NOW": 0, "LATER": 1, "NEVER": 2}

notes = st.builds(
    Notify,
    event_type=st.sampled_from(TYPES),
    title=st.sampled_from(("News", "Other news")),
    message=st.one_of(st.sampled_from(TEXTS), st.text(max_size=40)),
    source=st.just("test"),
    channels=st.lists(st.sampled_from(("push", "email", "sms", "in_app")), min_size=1, max_size=4, unique=True).map(
        tuple
    ),
    priority_hint=st.sampled_from(PRIORITIES),
    expires_at=st.one_of(st.none(), st.integers(NINE - HOUR, NINE + 48 * HOUR)),
    metadata=st.sampled_from(({}, {"incident": True}, {"recovery": True})),
    ai_score=st.one_of(st.none(), st.integers(0, 10_000)),
)
chosen = st.builds(
    Preferences,
    timezone=st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")),
    quiet_hours=st.sampled_from(((), (NIGHT,), (QuietHours(12 * 60, 13 * 60), NIGHT))),
    opt_out=st.builds(
        OptOut,
        all=st.sampled_from((False, False, False, True)),
        event_types=st.sampled_from(((), (), ("PROMO",))),
        channels=st.sampled_from(((), (), ("sms",), ("push", "email"))),
    ),
    digest_windows=st.sampled_from((None, None, (), ("0 12 * * *",))),
)
commands = st.one_of(
    notes,
    notes,
    notes,
    notes,
    notes,
    notes,
    chosen.map(SetPreferences),
    st.just(OpenIncident(3600)),
    st.just(BanPerson("fraud")),
    st.just(UnbanPerson()),
)
gaps = st.sampled_from((0, 1, SECOND, MINUTE, 7 * MINUTE, HOUR, 11 * HOUR))
lives = st.lists(st.tuples(gaps, commands), min_size=1, max_size=25)
policies = st.fixed_dictionaries(
    {
        "after_deferrals": st.sampled_from(("digest", "drop", "deliver")),
        "max_deferrals": st.integers(1, 3),
        "fatigue": st.sampled_from(({}, {"day": {"cap": 2}}, {"burst": {"cap": 1}, "hour": {"cap": 2}})),
        "event_types": st.sampled_from(({}, {"MESSAGE": {"cooldown_s": 3600, "deliver": "all"}})),
        "shadow": st.sampled_from(([], [], ["quiet_hours"], ["dedup", "score"])),
    }
)
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _is_critical(note: Notify) -> bool:
    return note.priority_hint == "CRITICAL" or note.event_type == "SECURITY"


class Life:
    """A scenario that notes what became of every notification."""

    def __init__(self, policy: dict[str, Any]) -> None:
        self.scenario: Scenario[InboxState] = inbox(**policy)
        self.endings: Counter[str] = Counter()
        self.sent: dict[str, Notify] = {}
        self.texts: list[str] = []
        self._versions: dict[int, str] = {}
        self.scenario._check_kept = self._folding  # type: ignore[method-assign]
        self._plain_fold = Scenario._check_kept

    def ring(self) -> None:
        """Ring what is due by now."""
        scenario = self.scenario
        while scenario.alarm_at is not None and scenario.alarm_at <= scenario.now:
            scenario.when(Wake())

    def _folding(self, events: tuple[Any, ...]) -> None:
        self.texts.append(encode(events))
        for event in events:
            if isinstance(event, Released | Suppressed | Digested):
                self.endings[event.event_id] += 1
                self._versions[event.item] = event.event_id
        self._plain_fold(self.scenario, events)

    def play(self, life: list[tuple[int, Any]]) -> None:
        for place, (gap, command) in enumerate(life):
            self.scenario.at(self.scenario.now + gap)
            key = f"e{place}" if isinstance(command, Notify) else None
            if isinstance(command, Notify):
                self.sent[f"e{place}"] = command
            self.scenario.when(command, key=key)
            self.after(command)

    def after(self, command: Any) -> None:
        return

    @property
    def state(self) -> InboxState:
        return self.scenario.state or InboxState()

    def names(self, items: tuple[int, ...]) -> set[str]:
        return {self._versions[item] for item in items}

    def waiting(self) -> set[str]:
        return {item.event_id for item in self.state.waiting}


@many
@given(lives, policies)
def test_every_notification_gets_exactly_one_answer_with_a_known_reason(
    life: list[tuple[int, Any]], policy: dict[str, Any]
) -> None:
    class Total(Life):
        def after(self, command: Any) -> None:
            if isinstance(command, Notify):
                verdict = self.scenario.decision.verdict
                assert verdict is not None
                assert verdict.reasons[-1] in REASONS[verdict.answer]
                for step in verdict.trace:
                    assert step.reason is None or step.reason in STAGES[str(step.rule)][1]
                assert (verdict.until is not None) == (verdict.answer == "LATER")

    Total(policy).play(life)


@many
@given(lives, policies)
def test_critical_is_now_unless_it_has_expired_or_the_account_is_banned(
    life: list[tuple[int, Any]], policy: dict[str, Any]
) -> None:
    class Critical(Life):
        def after(self, command: Any) -> None:
            verdict = self.scenario.decision.verdict
            if not isinstance(command, Notify) or not verdict:
                return
            if _is_critical(command):
                expected = {"CRITICAL_OVERRIDE"}
                if self.state.ban:
                    expected = {"ACCOUNT_BANNED", "EXPIRED"}
                elif command.expires_at is not None and command.expires_at < self.scenario.now:
                    expected = {"EXPIRED"}
                assert set(verdict.reasons) <= expected

    Critical(policy).play(life)


@many
@given(lives, policies)
def test_nothing_is_lost_and_nothing_ends_twice(life: list[tuple[int, Any]], policy: dict[str, Any]) -> None:
    class Kept(Life):
        def after(self, command: Any) -> None:
            ended, waiting = set(self.endings), self.waiting()
            assert ended | waiting == set(self.sent)
            assert not ended & waiting

    lived = Kept(policy)
    lived.play(life)
    for _ in range(500):
        if lived.scenario.alarm_at is None:
            break
        lived.scenario.wakes()
    assert lived.waiting() == set(), "whatever waited came to its end"
    assert lived.endings == Counter(dict.fromkeys(lived.sent, 1))


@many
@given(lives, policies)
def test_what_does_not_go_out_charges_nothing(life: list[tuple[int, Any]], policy: dict[str, Any]) -> None:
    lived = Life(policy)

    def counters() -> Any:
        return lived.state.delivered, lived.state.used, lived.state.last_by_type

    for place, (gap, command) in enumerate(life):
        lived.scenario.at(lived.scenario.now + gap)
        lived.ring()
        before = counters()
        lived.scenario.when(command, key=f"e{place}")
        verdict = lived.scenario.decision.verdict
        if verdict is None or verdict.answer != "NOW":
            assert counters() == before
        else:
            assert counters() != before


@many
@given(lives, policies)
def test_replay_gives_the_same_bytes(life: list[tuple[int, Any]], policy: dict[str, Any]) -> None:
    lived = Life(policy)
    lived.play(life)
    events = msgspec.json.Decoder(tuple[INBOX.events, ...])  # type: ignore[name-defined]
    state: InboxState | None = None
    for text in lived.texts:
        for event in events.decode(text):
            state = INBOX.fold(state, event)
    assert encode(state) == encode(lived.scenario.state)


@many
@given(lives, policies, notes)
def test_a_higher_priority_is_never_worse_off(
    life: list[tuple[int, Any]], policy: dict[str, Any], note: Notify
) -> None:
    lived = Life(policy)
    lived.play(life)
    lived.ring()
    severities = []
    for priority in PRIORITIES:
        asked = msgspec.structs.replace(note, priority_hint=priority)
        before = lived.scenario.state
        verdict = lived.scenario.when(asked, key="probe").decision.verdict
        lived.scenario.state = before
        assert verdict
        severities.append(SEVERITY[verdict.answer])
    assert severities == sorted(severities, reverse=True)


@many
@given(lives, policies, st.randoms(use_true_random=False))
def test_every_delivery_comes_to_an_end_whichever_channels_fail(
    life: list[tuple[int, Any]], policy: dict[str, Any], random: Any
) -> None:
    owed: list[tuple[str, str]] = []

    class Delivering(Life):
        def _folding(self, events: tuple[Any, ...]) -> None:
            version = self.scenario.version + 1
            outcome = self.scenario.outcome
            effects = outcome.effects if isinstance(outcome, Decision) else ()
            owed.extend(
                (f"inbox:ann:{version}:{place}", effect.executor)
                for place, effect in enumerate(effects)
                if isinstance(effect, Call)
            )
            super()._folding(events)

    lived = Delivering(policy)
    lived.play(life)
    critical = {name for name, note in lived.sent.items() if _is_critical(note)}
    while owed:
        effect, executor = owed.pop(random.randrange(len(owed)))
        lived.scenario.when(Settled(effect, executor, random.choice(("done", "dead"))))
        for event in lived.scenario.decision.events:
            assert not (isinstance(event, DeliveryFailed) and critical & lived.names(event.items)), "CRITICAL arrives"
    assert lived.state.delivering == ()
