"""Alternatives: a recorded verdict decided again, and what would have had to be different for a better one."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from betimes.engine.pruning import Retention, prune
from betimes.ledger.alternative_search import DECISIONS_MAX
from tests.domains.recorded_town import examine, recorded_town
from tests.http.served import Site, site

TRIGGER = {"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"}
NOTE = {
    "event_id": "e1",
    "user_id": "ann",
    "event_type": "UPDATE",
    "title": "Numbers",
    "message": "Usage is up by 7 percent",
    "source": "test",
    "channels": ["push"],
    "priority_hint": "LOW",
}


async def test_the_verdicts_of_a_town_are_reproduced_and_alternatives_keep_their_word(tmp_path: Path) -> None:
    async with recorded_town(f"sqlite:///{tmp_path}/town.db", people=60, steps=50) as bt:
        examined = await examine(bt, Random(1), 150)
    assert (examined.unexplained, examined.broken) == ([], [])
    assert examined.reproduced == examined.verdicts > 100
    assert examined.changes.keys() >= {"time", "rule", "setting", "request", "person"}
    assert examined.decisions_most <= DECISIONS_MAX


async def alternatives(s: Site, segment_id: str) -> Any:
    reply = await s.client("GET", f"/v1/explain/{segment_id}/alternatives")
    assert reply.status == 200, reply.raw
    return reply.json


def of_kind(view: Any, kind: str) -> list[Any]:
    return [change for change in view["changes"] if change["kind"] == kind]


async def test_a_deferred_trigger_is_told_when_it_would_run_and_which_cooldown_would_let_it() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        s.clock.advance(120)
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "sig-2"})
        view = await alternatives(s, "account:acct-7:2")
        assert (view["reproduced"], view["why_not"], view["truncated"]) == (True, None, False)
        assert (view["answer"]["outcome"], view["answer"]["reasons"]) == ("DEFER", ["COOLDOWN"])
        [time] = of_kind(view, "time")
        assert (time["at"], time["then"]["outcome"]) == ("2026-01-05T09:05:00Z", "ALLOW")
        [rule] = of_kind(view, "rule")
        assert (rule["if"], rule["then"]["outcome"]) == ("the rule cooldown did not bind", "ALLOW")
        [setting] = of_kind(view, "setting")
        assert setting["path"] == "runs.registry.SIGNAL_ARRIVED.cooldown_seconds"
        assert (setting["from"], setting["to"], setting["then"]["outcome"]) == (300, 120, "ALLOW")


async def test_a_quiet_person_and_a_stronger_hint_are_among_what_would_have_helped() -> None:
    async with site() as s:
        quiet = {"timezone": "UTC", "quiet_hours": [{"start": "08:00", "end": "10:00"}]}
        await s.client("PUT", "/v1/users/ann/preferences", quiet)
        await s.client("POST", "/v1/notifications", {**NOTE, "event_type": "MESSAGE", "priority_hint": "HIGH"})
        view = await alternatives(s, "inbox:ann:2")
        assert view["answer"]["reasons"] == ["QUIET_HOURS"]
        [person] = of_kind(view, "person")
        assert (person["if"], person["then"]["outcome"]) == ("the person had no quiet hours", "NOW")
        assert [(one["to"], one["then"]["outcome"]) for one in of_kind(view, "request")] == [("CRITICAL", "NOW")]


async def test_what_waits_ahead_passes_first_and_the_instant_that_is_told_counts_it() -> None:
    """Four wait for the morning, where three may go out in five minutes: the last is told when it truly passes."""
    async with site(policy={"notifications": {"jitter_s": 0}}) as s:
        quiet = {"timezone": "UTC", "quiet_hours": [{"start": "08:00", "end": "10:00"}]}
        await s.client("PUT", "/v1/users/ann/preferences", quiet)
        texts = ("lunch on Friday", "tickets are cheaper", "a parcel arrived", "something else altogether")
        for number, text in enumerate(texts):
            sent = {**NOTE, "event_type": "MESSAGE", "priority_hint": "HIGH", "message": text}
            waits = await s.client("POST", "/v1/notifications", {**sent, "event_id": f"e{number}"})
            assert waits.json["outcome"] == "LATER"
        [first], [last] = [of_kind(await alternatives(s, f"inbox:ann:{version}"), "time") for version in (2, 5)]
        assert (await s.client("GET", "/v1/explain/inbox:ann:5")).json["verdict"]["would_pass_at"] <= last["at"]
        assert first["at"] == "2026-01-05T10:00:00Z"
        await s.client("POST", "/v1/clock", {"advance_to": "2026-01-05T18:00:00Z"})
        passed = (await s.client("GET", "/v1/verdicts?domain=notifications&outcome=NOW")).json["items"]
        assert [one["at"] for one in passed] == [last["at"], *["2026-01-05T10:00:00Z"] * 3]
        assert last["then"]["outcome"] == "NOW"


async def test_of_rules_in_a_row_each_that_would_bind_next_is_named() -> None:
    async with site() as s:
        quiet = {"timezone": "UTC", "quiet_hours": [{"start": "08:00", "end": "10:00"}]}
        await s.client("PUT", "/v1/users/ann/preferences", quiet)
        await s.client("POST", "/v1/notifications", NOTE)
        rules = of_kind(await alternatives(s, "inbox:ann:2"), "rule")
        assert rules[-1]["path"] == "quiet_hours+score"
        assert rules[-1]["then"]["outcome"] == "NOW"


async def test_a_setting_of_the_score_is_bisected_to_what_is_just_enough() -> None:
    async with site() as s:
        await s.client("POST", "/v1/notifications", NOTE)
        view = await alternatives(s, "inbox:ann:1")
        settings = {change["path"]: change for change in of_kind(view, "setting")}
        threshold = settings["notifications.thresholds.now_from"]
        rules = (await s.client("GET", "/v1/explain/inbox:ann:1")).json["rules"]
        score = next(rule["values"]["score"] for rule in rules if rule["rule"] == "score")
        assert float(threshold["to"]) <= float(score) < float(threshold["to"]) + 0.01


async def test_what_was_admitted_could_not_be_better_and_what_judged_nothing_says_so() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        view = await alternatives(s, "account:acct-7:1")
        assert (view["reproduced"], view["changes"]) == (True, [])
        await s.client("PUT", "/v1/users/ann/preferences", {"timezone": "UTC"})
        nothing = await alternatives(s, "inbox:ann:1")
        assert (nothing["reproduced"], nothing["why_not"]) == (False, "it judged nothing")
        assert (await s.client("GET", "/v1/explain/account:acct-7:9/alternatives")).status == 404
        assert (await s.client("GET", "/v1/explain/nonsense/alternatives")).status == 404


async def test_pruned_history_is_given_as_the_reason() -> None:
    async with site() as s:
        await s.client("POST", "/v1/triggers", TRIGGER)
        for number in range(2, 5):
            s.clock.advance(120)
            await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": f"sig-{number}"})
        s.clock.advance(30 * 86_400)
        await s.bt.tick()
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "late"})
        s.clock.advance(10)
        await s.client("POST", "/v1/triggers", {**TRIGGER, "idempotency_key": "later"})
        page = (await s.client("GET", "/v1/ledger?kind=account&id=acct-7&order=desc")).json["items"]
        await prune(s.bt.engine.store, s.bt.engine.kinds, Retention(history_days=1))
        last = await alternatives(s, page[0]["segment_id"])
        assert last["reproduced"] is True
