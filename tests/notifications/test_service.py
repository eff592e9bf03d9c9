"""Notifications as people send them, on every store."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from betimes.core.datetimes import moment
from betimes.core.errors import BetimesError, Invalid, KeyConflict, NotFound, VersionMismatch
from betimes.core.instants import HOUR, MINUTE, parse
from betimes.core.streams import StreamId
from betimes.notifications.enrichment import Enrichment, EnrichmentSettings
from betimes.notifications.views import BanRequest, IncidentRequest, NotificationVerdict
from tests.notifications.inboxes import NINE
from tests.notifications.people import people, request
from tests.stores.backends import Backend

NIGHT = {"timezone": "Europe/Berlin", "quiet_hours": [{"start": "22:00", "end": "07:00"}]}
ONE_AM = parse("2026-01-06T01:10:00Z")


async def test_one_is_judged_and_delivered(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        await p.service.set_preferences("ann", {"addresses": {"push": "device-1"}})
        answer = await p.service.send(request(metadata={"thread": 7}))
        assert (answer.outcome, answer.reasons, answer.delivery_channel) == ("NOW", ("DEFAULT_PASS",), "push")
        assert (answer.score, answer.ai_score, answer.ai_used, answer.flags) == (
            Decimal("0.73"),
            Decimal("0.5"),
            False,
            ("AI_FALLBACK",),
        )
        await p.tick()
        [sent] = p.outside.sent
        assert (sent.channel, sent.address, sent.title) == ("push", "device-1", "Ana replied")
        assert sent.metadata == {"thread": 7, "event_id": "e1", "event_type": "MESSAGE"}
        found = await p.service.notification("e1")
        assert (found.status, found.outcome, found.notification.metadata) == ("delivered", "NOW", {"thread": 7})
        assert [(d.channel, d.status, d.attempts) for d in found.deliveries] == [("push", "done", 1)]
        assert found.deliveries[0].effect_id == sent.id


async def test_the_answer_has_the_fields_of_the_contract(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        p.clock.advance_to(ONE_AM)
        await p.service.set_preferences("u-3", NIGHT)
        answer = await p.service.send(request("evt-51", "u-3"), trace=False)
        body = msgspec.json.decode(msgspec.json.encode(answer))
        assert list(body) == [
            "event_id",
            "user_id",
            "outcome",
            "reasons",
            "explanation",
            "evaluated_at",
            "defer_until",
            "would_pass_at",
            "score",
            "ai_score",
            "ai_used",
            "flags",
            "defer_count",
            "delivery_channel",
            "is_replay",
            "shadow",
            "policy",
            "segment_id",
            "trace",
        ]
        assert (body["outcome"], body["reasons"]) == ("LATER", ["QUIET_HOURS"])
        assert body["explanation"] == "Quiet hours last until 07:00 in Europe/Berlin."
        assert body["defer_until"] == body["would_pass_at"]
        assert "2026-01-06T06:00:00Z" <= body["defer_until"] < "2026-01-06T06:05:00Z"
        assert (body["segment_id"], body["trace"]) == ("inbox:u-3:2", None)


async def test_a_repeat_is_answered_from_the_record(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        first = await p.service.send(request())
        p.clock.advance_to(NINE + HOUR)
        again = await p.elsewhere.send(request(title="Something else"))
        assert again.is_replay
        assert msgspec.structs.replace(again, is_replay=False) == first
        await p.tick()
        assert len(p.outside.sent) == 1


async def test_an_event_id_is_one_persons(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        await p.service.send(request())
        with pytest.raises(KeyConflict):
            await p.service.send(request(user_id="bob"))
        assert (await p.stranger.send(request(user_id="bob"))).outcome == "NOW"


async def test_every_bad_field_is_named(backend: Backend, tmp_path: Path) -> None:
    wrong = {
        "event_id": "",
        "user_id": "ann",
        "event_type": "GOSSIP",
        "title": "x" * 121,
        "source": "s",
        "channels": ["push", "pigeon", "push"],
        "priority_hint": "URGENT",
        "expires_at": "tomorrow",
        "metadata": {"x": "y" * 5000},
        "colour": "red",
        "tenant_id": "globex",
    }
    async with people(backend, tmp_path) as p:
        with pytest.raises(Invalid) as error:
            await p.service.send(wrong)
        assert {path for path, _ in error.value.problems} == {
            "event_id",
            "title",
            "message",
            "priority_hint",
            "expires_at",
            "metadata",
            "colour",
            "tenant_id",
            "event_type",
            "channels",
            "channels[1]",
        }
        with pytest.raises(Invalid) as error:
            await p.service.send(request(event_type="GOSSIP", channels=["pigeon"]))
        assert {path for path, _ in error.value.problems} == {"event_type", "channels[0]"}
        assert (await p.service.send(request())).outcome == "NOW", "the id is still free"
        with pytest.raises(Invalid) as error:
            await p.service.classify(request(event_type="GOSSIP", title="", channels=["push", "pigeon"]))
        assert {path for path, _ in error.value.problems} == {"event_type", "title", "channels[1]"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "half a pair: \ud83d"),
        ("metadata", {"half": "\ud83d"}),
        ("metadata", {"a thing": object()}),
        ("expires_at", "9999-12-31T23:59:59-01:00"),
        ("timestamp", "0001-01-01T00:00:00+01:00"),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_name(
    backend: Backend, tmp_path: Path, name: str, value: Any
) -> None:
    async with people(backend, tmp_path) as p:
        with pytest.raises(Invalid) as error:
            await p.service.send(request(**{name: value}))
        assert [path.partition(".")[0] for path, _ in error.value.problems] == [name]


async def test_a_batch_answers_each_in_order(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        batch = [request(f"e{place}") for place in range(4)] + [request("bad", title=""), request("e0")]
        answers = await p.service.send_many(batch)
        told = [a.outcome if isinstance(a, NotificationVerdict) else type(a) for a in answers]
        assert told == ["NOW", "NOW", "NOW", "LATER", Invalid, "NOW"]
        assert [a.is_replay for a in answers if isinstance(a, NotificationVerdict)] == [False] * 4 + [True]
        found = await p.service.statuses(["e3", "nobody", "e0"])
        assert [s.event_id if not isinstance(s, BetimesError) else type(s) for s in found] == ["e3", NotFound, "e0"]


async def test_batches_have_bounds(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        for asked in (p.service.send_many([]), p.service.send_many([request()] * 501), p.service.statuses(["e"] * 101)):
            with pytest.raises(Invalid):
                await asked


# -- enrichment


PATIENT = EnrichmentSettings(budget_s=60.0, wait_s=10.0)


async def test_the_provider_is_asked_about_what_lives_and_is_not_forced_out(backend: Backend, tmp_path: Path) -> None:
    asked = []

    async def provider(notification: Any) -> float:
        asked.append(notification["event_id"])
        return 0.91234

    async with people(backend, tmp_path, scorer=Enrichment(provider, name="model-3", settings=PATIENT)) as p:
        answer = await p.service.send(request("e1"))
        assert (answer.ai_score, answer.ai_used, answer.flags) == (Decimal("0.9123"), True, ())
        await p.service.send(request("e2", priority_hint="CRITICAL"))
        await p.service.send(request("e3", expires_at="2026-01-05T08:00:00Z"))
        await p.service.send(request("e4"))
        assert (await p.service.classify(request("e5", user_id="bob"))).ai_used
        assert asked == ["e1", "e4", "e5"]
        await p.service.set_preferences("bob", {"quiet_hours": [{"start": "08:00", "end": "10:00"}]})
        assert not (await p.service.classify(request("e6", user_id="bob"))).ai_used, "not weighed yet"
        assert (await p.service.classify(request("e7", user_id="bob", at="2026-01-05T11:00:00Z"))).ai_used
        await p.service.set_preferences("cid", {"opt_out": {"all": True}})
        await p.service.send(request("e8", user_id="cid"))
        await p.service.send(request("e9") | {"message": "See you at nine? (e1)"})
        assert asked == ["e1", "e4", "e5", "e6", "e7"], "neither what is opted out of nor what is a duplicate"


async def test_what_comes_behind_the_recovery_of_an_incident_in_its_batch_is_scored(
    backend: Backend, tmp_path: Path
) -> None:
    async def provider(notification: Any) -> float:
        return 0.9

    async with people(backend, tmp_path, scorer=Enrichment(provider, settings=PATIENT)) as p:
        everybody = {"event_type": "SYSTEM", "priority_hint": "HIGH"}
        await p.service.send(request("e1", metadata={"incident": True, "scope": "global"}, **everybody))
        over = request("e2", metadata={"recovery": True, "scope": "global"}, **everybody)
        sent = await p.service.send_many([over, request("e3", "bob", event_type="PROMO")])
        assert [answer.ai_used for answer in sent if not isinstance(answer, BaseException)] == [True, True]


async def test_what_waits_keeps_the_score_it_came_with(backend: Backend, tmp_path: Path) -> None:
    asked = []

    async def provider(notification: Any) -> float:
        asked.append(notification["event_id"])
        return 1.0

    async with people(backend, tmp_path, scorer=Enrichment(provider, settings=PATIENT), jitter_s=0) as p:
        await p.service.set_preferences("ann", {"quiet_hours": [{"start": "08:00", "end": "10:00"}]})
        first = await p.service.send(request(priority_hint="MEDIUM"))
        assert (first.reasons, first.score) == (("QUIET_HOURS",), None)
        await p.tick(NINE + HOUR)
        found = await p.service.notification("e1")
        assert (found.outcome, found.reasons) == ("NOW", ("QUIET_HOURS", "DEFAULT_PASS"))
        assert (found.ai_score, found.ai_used, asked) == (Decimal(1), True, ["e1"])


async def test_a_provider_that_fails_is_done_without(backend: Backend, tmp_path: Path) -> None:
    async def provider(notification: Any) -> float:
        raise ConnectionError

    async with people(backend, tmp_path, scorer=Enrichment(provider, settings=PATIENT)) as p:
        answer = await p.service.send(request())
        assert (answer.ai_score, answer.ai_used, answer.flags) == (Decimal("0.5"), False, ("AI_FALLBACK",))


# -- trying


async def test_a_dry_run_says_the_same_and_records_nothing(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        dry = await p.service.classify(request())
        assert (await p.engine.store.load([StreamId("acme", "inbox", "ann")])) == {}
        real = await p.service.send(request())
        assert (dry.outcome, dry.reasons, dry.score, dry.trace) == (real.outcome, real.reasons, real.score, real.trace)
        assert (dry.segment_id, dry.is_replay) == (None, False)


async def test_a_dry_run_can_judge_as_of_another_instant(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        for place in range(4):
            await p.service.send(request(f"e{place}"))
        body = {key: value for key, value in request().items() if key != "event_id"} | {"message": "And now to this"}
        assert (await p.service.classify(body)).reasons == ("FATIGUE_CAP_5M",)
        later = await p.service.classify(body | {"at": "2026-01-05T09:20:00Z"})
        assert (later.outcome, later.event_id) == ("NOW", None)
        assert (await p.service.classify(body | {"at": "9999-12-31T00:00:00Z"})).outcome == "NOW"
        with pytest.raises(Invalid) as error:
            await p.service.classify(body | {"at": "0001-01-01T00:00:00Z"})
        assert [path for path, _ in error.value.problems] == ["at"]


# -- people


async def test_preferences_start_as_defaults_and_have_versions(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        start = await p.service.preferences("ann")
        assert (start.version, start.timezone, start.digest_windows, start.created_at) == (0, "UTC", None, None)
        first = await p.service.set_preferences("ann", msgspec.to_builtins(start) | NIGHT)
        assert (first.version, first.quiet_hours[0].start, len(first.quiet_hours[0].days)) == (1, "22:00", 7)
        patched = await p.service.patch_preferences("ann", {"quiet_hours": None, "opt_out": {"channels": ["sms"]}})
        assert (patched.version, patched.timezone, patched.quiet_hours) == (2, "Europe/Berlin", [])
        assert patched.opt_out.channels == ("sms",)
        for stale in (
            p.service.set_preferences("ann", NIGHT, if_match=1),
            p.service.patch_preferences("ann", {}, if_match=1),
        ):
            with pytest.raises(VersionMismatch):
                await stale
        with pytest.raises(Invalid) as error:
            await p.service.set_preferences(
                "ann", {"timezone": "Mars/Base", "quiet_hours": [{"start": "7", "end": "8"}]}
            )
        assert {path for path, _ in error.value.problems} == {"timezone", "quiet_hours[0].start", "quiet_hours[0].end"}
        with pytest.raises(Invalid, match="Mars/Base"):
            await p.service.patch_preferences("ann", {"timezone": "Mars/Base"})


async def test_the_state_shows_what_rules_read(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, event_types={"MESSAGE": {"cooldown_s": 60}}) as p:
        await p.service.send(request("e1", channels=["sms"]))
        await p.service.send(request("e2", channels=["sms"]))
        state = await p.service.notification_state("ann")
        assert (state.delivered_5m, state.delivered_1h, state.delivered_24h) == (1, 1, 1)
        assert (state.channels["sms"].used, state.channels["sms"].cap, state.channels["sms"].free_at) == (1, 3, None)
        assert [(c.event_type, c.ends_at) for c in state.cooldowns] == [("MESSAGE", moment(NINE + MINUTE))]
        assert [(w.event_id, w.reasons, w.defer_count) for w in state.waiting] == [("e2", ("COOLDOWN_ACTIVE",), 1)]
        assert (state.banned, state.incident, state.quiet_until) == (False, None, None)


async def test_a_ban_is_lifted_again(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        assert (await p.service.ban("ann", BanRequest("fraud"))).banned
        assert (await p.service.send(request("e1"))).reasons == ("ACCOUNT_BANNED",)
        await p.service.unban("ann")
        assert (await p.service.send(request("e2"))).outcome == "NOW"


async def test_an_incident_of_the_tenant_is_seen_by_every_process_at_once(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        promo = {"event_type": "PROMO"}
        assert (await p.elsewhere.send(request("e0", **promo))).reasons == ("SCORE_DEFER",)
        incident, is_new = await p.service.open_incident(IncidentRequest(ttl_seconds=600, reason="db"))
        assert (incident.scope, incident.user_id, incident.reason, is_new) == ("global", None, "db", True)
        for service, name in ((p.elsewhere, "e1"), (p.service, "e2")):
            assert (await service.send(request(name, **promo))).reasons == ("INCIDENT_SUPPRESSION",)
        longer, is_new = await p.elsewhere.open_incident(IncidentRequest(ttl_seconds=1200))
        assert (longer.incident_id, is_new) == (incident.incident_id, False)
        own, _ = await p.service.open_incident(IncidentRequest(user_id="bob"))
        assert [i.incident_id for i in (await p.service.incidents()).items] == [own.incident_id, incident.incident_id]
        assert (await p.stranger.incidents()).items == []
        await p.service.close_incident(incident.incident_id)
        await p.service.close_incident(own.incident_id)
        assert (await p.service.incidents()).items == []
        assert (await p.elsewhere.send(request("e3", **promo))).reasons == ("SCORE_DEFER",)
        for unknown in (incident.incident_id, "global:x", "nonsense", "user:1:nobody"):
            with pytest.raises(NotFound):
                await p.service.close_incident(unknown)


async def test_a_system_event_opens_the_tenants_incident_for_everybody(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        outage = {"event_type": "SYSTEM", "metadata": {"incident": True, "scope": "global"}}
        await p.service.send(request("e1", user_id="ops", **outage))
        assert (await p.elsewhere.send(request("e2", priority_hint="LOW"))).reasons == ("INCIDENT_SUPPRESSION",)
        outage["metadata"] = {"recovery": True, "scope": "global"}
        await p.service.send(request("e3", user_id="dev", **outage))
        assert (await p.elsewhere.send(request("e4", priority_hint="LOW"))).outcome == "LATER"


async def test_a_whole_quiet_day_is_written_as_it_is_read(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path, jitter_s=0) as p:
        day = {"days": ["mon"], "start": "00:00", "end": "24:00"}
        await p.service.set_preferences("ann", {"quiet_hours": [day]})
        [kept] = (await p.service.preferences("ann")).quiet_hours
        assert (kept.days, kept.start, kept.end) == (("mon",), "00:00", "24:00")
        assert (await p.service.send(request())).defer_until == moment(parse("2026-01-06T00:00:00Z"))
        for start, end in (("00:00", "00:00"), ("24:00", "07:00"), ("07:00", "24:30")):
            with pytest.raises(Invalid):
                await p.service.set_preferences("ann", {"quiet_hours": [{"start": start, "end": end}]})


async def test_a_value_of_another_shape_is_refused_with_an_example(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        with pytest.raises(Invalid) as refused:
            await p.service.set_preferences("ann", {"quiet_hours": {"start": "22:00", "end": "07:00"}})
        told = 'must be an array, not an object; such as [{"start":"22:00","end":"07:00"}]'
        assert refused.value.problems == (("quiet_hours", told),)
        with pytest.raises(Invalid) as refused:
            await p.service.send(request(channels="push"))
        assert refused.value.problems == (("channels", 'must be an array, not a string; such as ["push","email"]'),)
