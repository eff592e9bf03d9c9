"""Alternatives: a recorded verdict decided again, and what would have had to be different for a better one."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from betimes.core.streams import StreamId, parse_segment_handle
from betimes.engine.jobs import Submission
from betimes.engine.pruning import Retention, prune
from betimes.engine.redecision import load_past
from betimes.ledger.alternative_search import DECISIONS_MAX
from betimes.ledger.alternatives import find_alternatives
from betimes.ledger.outcomes import spell_events, spell_outcome
from betimes.scores.model import SweepScore
from betimes.sensors.model import Evaluated, Evaluation, RunRequest
from tests.domains.recorded_town import apply_change, examine, recorded_town
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
        assert (rule["if"], rule["then"]["outcome"]) == ("the rule cooldown had been switched off", "ALLOW")
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


async def kept_promises(s: Site, segment_id: str) -> dict[str, Any]:
    """Return the changes of a segment by their paths, each applied and found to lead to what it says."""
    stream, version = parse_segment_handle("default", segment_id)
    _, [segment] = await s.bt.engine.store.history(stream, version - 1, 1)
    view = await find_alternatives(s.bt.engine, segment)
    assert view.reproduced, view.why_not
    past = await load_past(s.bt.engine, segment)
    for change in view.changes:
        again = apply_change(s.bt.engine, past, change)
        assert again
        verdict = again.verdict
        word = spell_outcome(stream.kind, verdict, again.events) if verdict else spell_events(stream.kind, again.events)
        assert word == change.then.outcome, change
    return {f"{change.kind} {change.path}": change.to_dict() for change in view.changes}


async def last_of(s: Site, kind: str) -> str:
    return str((await s.client("GET", f"/v1/ledger?kind={kind}&order=desc&limit=1")).json["items"][0]["segment_id"])


async def test_ticks_that_were_missed_or_overlapped_are_told_which_definition_would_have_fired_them() -> None:
    async with site() as s:
        daily = {"schedule_id": "brief", "cron": "0 10 * * *", "target": {"kind": "sweep"}}
        await s.client("POST", "/v1/schedules", {**daily, "catchup_window_minutes": 60})
        s.clock.advance(3 * 86_400)
        await s.bt.tick(kinds=("schedule",))
        changes = await kept_promises(s, await last_of(s, "schedule"))
        window = changes["definition catchup_window_minutes"]
        assert (window["from"], window["to"], window["then"]["outcome"]) == (60, 1_440, "fired")


async def test_a_fire_too_soon_is_told_the_cooldown_that_would_have_let_it() -> None:
    async with site() as s:
        intent: dict[str, Any] = {"intent_id": "dip", "user_id": "bob", "trigger_type": "price", "worker": "outside"}
        intent |= {"action_type": "notify", "action_context": "it fell"}
        intent |= {"condition": {"ticker": "NVDA", "operator": "<", "value": 130, "cooldown_hours": 24}}
        made = await s.client("POST", "/v1/intents", intent)
        assert made.status == 201, made.raw
        for _ in range(2):
            fired = await s.client("POST", "/v1/intents/dip/fire", {"status": "success"})
            assert fired.status == 200, fired.raw
            s.clock.advance(7 * 3_600)
        changes = await kept_promises(s, await last_of(s, "intent"))
        cooldown = changes["definition condition.cooldown_hours"]
        assert (cooldown["from"], cooldown["to"], cooldown["then"]["outcome"]) == (24, 6, "success")


async def test_an_evaluation_that_led_to_no_run_is_told_what_would_have() -> None:
    async with site() as s:
        sensor = {"sensor_id": "shop", "sensor_type": "poll", "target": {"kind": "sweep"}, "max_run_requests": 1}
        sensor |= {"evaluator": {"kind": "handler", "name": "look"}}
        assert (await s.client("POST", "/v1/sensors", sensor)).status == 201
        stream, requests = StreamId("default", "sensor", "shop"), (RunRequest("order-1"), RunRequest("order-2"))
        current = (await s.client("GET", "/v1/sensors/shop")).json["state_version"]
        stale = Evaluated("by-hand-1", current + 77, Evaluation(requests[:1]))
        many = Evaluated("by-hand-2", current, Evaluation(requests))
        told = []
        for command in (stale, many):
            await s.bt.engine.submit(Submission(stream=stream, command=command))
            told.append(await kept_promises(s, await last_of(s, "sensor")))
        version, limit = told[0]["request expected_state_version"], told[1]["definition max_run_requests"]
        assert (version["to"], version["then"]["outcome"]) == (current, "triggered")
        assert (limit["from"], limit["to"], limit["then"]["outcome"]) == (1, 1_000, "triggered")


async def test_a_score_that_a_sweep_left_alone_is_told_the_grace_that_would_have_let_it_fade() -> None:
    async with site() as s:
        await s.client("POST", "/v1/scores", {"user_id": "ann"})
        s.clock.advance(23 * 3_600)
        stages = (await s.client("GET", "/v1/policy")).json["effective"]["scores"]["stages"]
        longer = [{**stages[0], "grace_hours": 100}, *stages[1:]]
        put = await s.client("PUT", "/v1/policy", {"overrides": {"scores": {"stages": longer}}})
        assert put.status == 200, put.raw
        s.clock.advance(20 * 3_600)
        await s.bt.engine.submit(Submission(stream=StreamId("default", "score", "ann"), command=SweepScore()))
        changes = await kept_promises(s, await last_of(s, "score"))
        grace = changes["setting scores.stages.1.grace_hours"]
        assert grace["then"]["outcome"] == "decay"
        assert changes["rule grace"]["then"]["outcome"] == "decay"


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
        assert (nothing["reproduced"], nothing["why_not"]) == (False, "it made no decision")
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
        pruned = page[-1]["segment_id"]
        for path in (f"/v1/explain/{pruned}", f"/v1/explain/{pruned}/alternatives"):
            gone = await s.client("GET", path)
            assert gone.status == 404
            assert gone.json["detail"] == f"there is no segment {pruned}; it was never written, or it was pruned"
        rest = (await s.client("GET", "/v1/ledger?kind=account&id=acct-7")).json["items"]
        checkpoint = await alternatives(s, rest[0]["segment_id"])
        assert checkpoint["reproduced"] is False
        assert "pruned" in checkpoint["why_not"]
        told = (await s.client("GET", f"/v1/explain/{rest[0]['segment_id']}")).json["summary"]
        assert "which was pruned; nothing was decided here." in told
