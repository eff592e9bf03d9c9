"""Stories that run through several domains, on a database on disk, in virtual time.

What each expects was worked out by hand. At its end the ledger has exactly the verdicts it tells of, replays to the
same bytes, and a backtest by the policy in force reproduces every verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from betimes.app.betimes import Betimes
from betimes.app.routes import ROUTES
from betimes.app.settings import Settings
from betimes.backtest.plan import Candidate, Plan
from betimes.engine.replay import verify
from betimes.engine.store import LedgerQuery
from betimes.engine.virtual_clock import VirtualClock
from betimes.http.server import serve
from betimes.notifications.views import NotificationVerdict
from betimes.outbound.channels import ChannelSettings, LogChannel
from tests.http.served import Client

BRIEF = {
    "kind": "notification",
    "event_type": "REMINDER",
    "title": "The brief",
    "message": "Your day in one page",
    "source": "cron",
    "channels": ["in_app"],
    "user_id": "ann",
    "priority_hint": "HIGH",
}
CALM = {"jitter_s": 0}
NIGHT = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}


@asynccontextmanager
async def story(
    folder: Path, start: str, policy: dict[str, Any], declare: Callable[[Betimes], None] = lambda bt: None
) -> AsyncIterator[Betimes]:
    """An application at an instant; afterwards what it wrote must replay, and its policy must decide the same again."""
    settings = Settings(channels=ChannelSettings(channels={"push": LogChannel(), "sms": LogChannel()}))
    clock = VirtualClock(start)
    bt = Betimes(f"sqlite:///{folder}/betimes.db", clock=clock, policy=policy, settings=settings)
    declare(bt)
    async with bt:
        yield bt
        report = await verify(bt.engine.store, bt.engine.kinds)
        assert report.is_sound, report.findings
        control = (await bt.backtest(Plan(candidates=(Candidate("same", policy),)))).control
        assert control.reproduced, control.differences
        assert (control.identical, control.refused) == (control.segments, {})


async def verdicts(bt: Betimes, kind: str) -> dict[tuple[str, str], int]:
    """How often each answer was given for each last reason on streams of a kind."""
    found, after = Counter[tuple[str, str]](), 0
    while page := await bt.engine.store.ledger(LedgerQuery(after=after, limit=1_000)):
        after = page[-1].seq
        for segment in page:
            verdict = bt.engine.kinds.of(segment.stream).recorded(segment).verdict
            if verdict and segment.stream.kind == kind:
                found[verdict.answer, verdict.reasons[-1]] += 1
    return dict(found)


async def heard(bt: Betimes, user: str) -> list[str]:
    """When a person's in-app messages arrived, in UTC, oldest first."""
    items = (await bt.notifications.inbox(user, limit=200)).items
    return [f"{item.delivered_at:%m-%d %H:%M}" for item in reversed(items)]


def every_day(first: str, count: int, *hours: int) -> list[str]:
    """The same hours of so many days, in UTC."""
    begin = datetime.fromisoformat(first)
    return [f"{begin + timedelta(days=place, hours=hour):%m-%d %H:%M}" for place in range(count) for hour in hours]


# -- a month of mornings


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [  # eight in the morning, before and after the clocks change
        ("Europe/Berlin", "2026-03-15T12:00:00Z", every_day("2026-03-16", 13, 7) + every_day("2026-03-29", 18, 6)),
        ("Europe/Berlin", "2026-10-10T12:00:00Z", every_day("2026-10-11", 14, 6) + every_day("2026-10-25", 17, 7)),
        (
            "America/Vancouver",
            "2026-02-20T12:00:00Z",
            every_day("2026-02-20", 16, 16) + every_day("2026-03-08", 15, 15),
        ),
        # British Columbia does not go back to winter time any more, whatever the machine's own data says
        ("America/Vancouver", "2026-10-20T12:00:00Z", every_day("2026-10-20", 31, 15)),
    ],
)
async def test_a_brief_before_waking_is_heard_once_a_day_when_the_night_ends(
    tmp_path: Path, zone: str, start: str, expected: list[str]
) -> None:
    async with story(tmp_path, start, {"notifications": CALM}) as bt:
        quiet = [{"start": "22:00", "end": "08:00"}]
        await bt.notifications.set_preferences("ann", {"timezone": zone, "quiet_hours": quiet})
        await bt.schedules.create({"schedule_id": "brief", "cron": "30 7 * * *", "timezone": zone, "target": BRIEF})
        await bt.advance(by_s=31 * 86_400)
        assert await heard(bt, "ann") == expected
        assert len((await bt.schedules.ticks("brief", limit=50)).items) == 31
        assert await verdicts(bt, "inbox") == {("LATER", "QUIET_HOURS"): 31, ("NOW", "DEFAULT_PASS"): 31}


async def test_a_month_of_digests_comes_twice_a_day_by_the_persons_clock(tmp_path: Path) -> None:
    """One piece of news at noon and one at eight in the evening, UTC; digests at 08:00 and 18:00 in Berlin."""
    policy = {"notifications": {**CALM, "event_types": {"UPDATE": {"digest": True}}}}
    async with story(tmp_path, "2026-03-15T12:00:00Z", policy) as bt:
        await bt.notifications.set_preferences("ann", {**NIGHT, "digest_windows": ["0 8,18 * * *"]})
        for place in range(60):
            await bt.notifications.send(_note(f"news {place}", "UPDATE", ["in_app"]))
            await bt.advance(by_s=(8 if place % 2 == 0 else 16) * 3_600)
        winter, summer = every_day("2026-03-15", 14, 7, 17)[1:], every_day("2026-03-29", 17, 6, 16)[:-1]
        assert await heard(bt, "ann") == (winter + summer)[:60]
        assert await verdicts(bt, "inbox") == {
            ("LATER", "DIGEST_ELIGIBLE"): 60,
            ("NOW", "DIGEST_RELEASED"): 60,
            ("LATER", "QUIET_HOURS"): 16,  # in summer eight in the evening UTC is ten in Berlin, where the night begins
        }


def _note(name: str, kind: str, channels: list[str], **more: Any) -> dict[str, Any]:
    return {
        "event_id": name.replace(" ", "-"),
        "user_id": "ann",
        "event_type": kind,
        "source": "desk",
        "title": name,
        "message": f"about {name}",
        "channels": channels,
        **more,
    }


# -- what one domain causes in another


async def test_an_intent_asks_the_gate_and_tells_a_person_who_sleeps(tmp_path: Path) -> None:
    """At 22:00 UTC every evening, but the gate lets one through in 25 hours; the person sleeps until 06:00 UTC."""
    registry = {"WAKE": {"debounce_seconds": 0, "cooldown_seconds": 90_000}}
    async with story(tmp_path, "2026-01-05T12:00:00Z", {"notifications": CALM, "runs": {"registry": registry}}) as bt:
        await bt.notifications.set_preferences("ann", NIGHT)
        await bt.intents.create(
            {
                "intent_id": "night",
                "user_id": "ann",
                "trigger_type": "cron",
                "action_type": "notify",
                "schedule": {"cron": "0 23 * * *", "timezone": "Europe/Berlin", "check_interval_minutes": 30},
                "action_context": "The backup is done.",
                "gate": {"trigger_type": "WAKE"},
                "action_priority": "high",
            }
        )
        await bt.advance(by_s=4 * 86_400)
        history = (await bt.intents.history("night")).items
        fired = [f"{done.executed_at:%m-%d %H:%M}" for done in reversed(history) if done.status == "success"]
        assert fired == ["01-05 22:00", "01-06 23:00", "01-08 00:00", "01-09 01:00"]
        assert Counter(done.status for done in history) == {"success": 4, "gate_blocked": 2 + 4 + 6}
        assert await heard(bt, "ann") == every_day("2026-01-06", 4, 6)
        assert await verdicts(bt, "inbox") == {("LATER", "QUIET_HOURS"): 4, ("NOW", "DEFAULT_PASS"): 4}
        assert await verdicts(bt, "account") == {("NOW", "WITHIN_LIMITS"): 4}
        assert (await bt.runs.run_state("ann")).deferred == []


async def test_a_message_wakes_an_agent_that_claims_and_completes_over_http(tmp_path: Path) -> None:
    policy = {"runs": {"registry": {"ORDER": {"debounce_seconds": 0, "cooldown_seconds": 300}}}}
    async with story(tmp_path, "2026-01-05T09:00:00Z", policy) as bt:
        call = Client(serve(bt, ROUTES, dev=True))
        target = {"kind": "trigger", "trigger_type": "ORDER", "account_id": "shop"}
        made = await call("POST", "/v1/sensors", {"sensor_id": "orders", "sensor_type": "push", "target": target})
        assert made.status == 201
        for number in (1, 1, 2):
            message = {"message_id": f"m{number}", "data": {"n": number}}
            assert (await call("POST", "/v1/sensors/orders/messages", message)).status == 200
        await bt.advance(by_s=1)
        assert await _work(call) == [1], "the repeat is no run, and the second order waits for the cooldown"
        await bt.advance(by_s=298)
        assert await _work(call) == []
        await bt.advance(by_s=1)
        assert await _work(call) == [2]
        seen = (await call("GET", "/v1/sensors/orders/evaluations")).json["items"]
        assert [row["run_requests"][0]["run"]["status"] for row in seen] == ["succeeded", "succeeded"]
        assert await verdicts(bt, "sensor") == {("NOW", "TRIGGERED"): 2}
        assert await verdicts(bt, "account") == {("NOW", "WITHIN_LIMITS"): 2, ("LATER", "COOLDOWN"): 1}


async def _work(call: Client) -> list[int]:
    """Claim what there is and complete it, as an agent does; the orders it was woken for."""
    claims = (await call("POST", "/v1/runs/claim", {"worker": "agent"})).json["items"]
    for claim in claims:
        done = {"claim_token": claim["claim_token"], "status": "succeeded", "result": {"ok": True}}
        assert (await call("POST", f"/v1/runs/{claim['run']['run_id']}/complete", done)).status == 200
    return [payload["message"]["data"]["n"] for claim in claims for payload in claim["run"]["payloads"]]


async def test_a_game_over_in_the_night_is_told_in_the_morning(tmp_path: Path) -> None:
    """A day of grace, then 0.8 an hour: the sweep of 22:00 UTC ends it, at 23:00 by the person's clock."""
    target = {**BRIEF, "title": "It is over", "message": "Your score is 0"}
    del target["user_id"]
    policy = {"notifications": CALM, "hooks": [{"on": ["GAME_OVER"], "target": target}]}
    async with story(tmp_path, "2026-01-05T21:00:00Z", policy) as bt:
        await bt.notifications.set_preferences("ann", NIGHT)
        await bt.scores.create({"user_id": "ann", "score": Decimal("0.8")})
        await bt.advance(by_s=3 * 86_400)
        over, created = (await bt.scores.history("ann")).items
        assert (created.event_type, over.event_type) == ("created", "decay_game_over")
        assert over.timestamp == datetime(2026, 1, 6, 22, tzinfo=UTC)
        assert (await bt.scores.get("ann")).game_status == "game_over"
        assert await heard(bt, "ann") == ["01-07 06:00"]
        assert await verdicts(bt, "inbox") == {("LATER", "QUIET_HOURS"): 1, ("NOW", "DEFAULT_PASS"): 1}


# -- what changes while something waits


async def test_changed_preferences_move_a_digest_that_takes_the_channel_with_room(tmp_path: Path) -> None:
    """The digest of 18:00 becomes one of 12:00, is held to the end of a rest at 13:00, and sms is full until 09:00."""
    kinds, channels = {"UPDATE": {"digest": True}}, {"sms": {"cap_24h": 1}}
    policy = {"notifications": {**CALM, "event_types": kinds, "channels": channels}}
    async with story(tmp_path, "2026-01-05T09:00:00Z", policy) as bt:
        person = {"timezone": "UTC", "digest_windows": ["0 18 * * *"], "addresses": {"sms": "+1"}}
        await bt.notifications.set_preferences("ann", person)
        for name in ("first", "second"):
            await bt.notifications.send(_note(name, "MESSAGE", ["sms"], priority_hint="HIGH"))
        for name in ("one", "two", "three"):
            await bt.notifications.send(_note(name, "UPDATE", ["sms", "in_app"]))
        waiting = (await bt.notifications.notification_state("ann")).waiting
        assert sorted(f"{item.defer_until:%m-%d %H:%M}" for item in waiting) == ["01-05 18:00"] * 3 + ["01-06 09:00"]
        await bt.advance(by_s=3_600)
        rest = [{"start": "11:00", "end": "13:00"}]
        await bt.notifications.set_preferences("ann", {**person, "digest_windows": ["0 12 * * *"], "quiet_hours": rest})
        await bt.advance(by_s=2 * 86_400)
        assert await heard(bt, "ann") == ["01-05 13:00"]
        [digest] = (await bt.notifications.inbox("ann")).items
        assert [line.event_id for line in digest.digest or ()] == ["one", "two", "three"]
        second = await bt.notifications.notification("second")
        assert (second.reasons, second.deliveries[0].channel) == (("CHANNEL_CAP", "DEFAULT_PASS"), "sms")
        assert second.judgements[-1].evaluated_at == datetime(2026, 1, 6, 9, tzinfo=UTC)
        assert await verdicts(bt, "inbox") == {
            ("NOW", "DEFAULT_PASS"): 2,
            ("LATER", "CHANNEL_CAP"): 1,
            ("LATER", "DIGEST_ELIGIBLE"): 3,
            ("NOW", "DIGEST_RELEASED"): 1,
        }


async def test_a_global_incident_in_the_middle_of_a_fan_out_stops_promotion_behind_it_and_what_waits(
    tmp_path: Path,
) -> None:
    def note(place: int) -> dict[str, Any]:
        incident = {"event_type": "SYSTEM", "metadata": {"incident": True, "scope": "global"}}
        sale = _note("Sale", "PROMO", ["in_app"], priority_hint="HIGH")
        return {**sale, "event_id": f"e{place}", "user_id": f"u{place}", **(incident if place == 50 else {})}

    async with story(tmp_path, "2026-01-05T09:00:00Z", {"notifications": CALM}) as bt:
        answers = await bt.notifications.send_many([note(place) for place in range(100)])
        outcomes = [answer.outcome for answer in answers if isinstance(answer, NotificationVerdict)]
        assert outcomes == ["LATER"] * 50 + ["NOW"] + ["NEVER"] * 49
        await bt.advance(by_s=2 * 3_600)
        assert (await bt.notifications.notification("e0")).reasons == ("SCORE_DEFER", "INCIDENT_SUPPRESSION")
        late = await bt.notifications.send({**note(7), "event_id": "late"})
        assert late.reasons == ("SCORE_DEFER",), "it lasted two hours"
        await bt.advance(by_s=86_400)
        assert await verdicts(bt, "inbox") == {
            ("NOW", "DEFAULT_PASS"): 1,
            ("LATER", "SCORE_DEFER"): 50 + 2,
            ("NEVER", "INCIDENT_SUPPRESSION"): 49 + 50,
            ("NOW", "FORCED_DELIVERY"): 1,
        }
