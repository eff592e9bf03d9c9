"""Cancelling and releasing what waits: in the domain, in Python, over HTTP and from the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes import Betimes
from betimes.core.errors import STATUS, NotFound, Refused
from betimes.core.instants import HOUR
from betimes.engine.replay import verify
from betimes.notifications.interventions import CancelNotification, ReleaseNotification
from betimes.notifications.model import OptOut, Suppressed
from tests.cli.running_inside import command
from tests.http.served import site
from tests.notifications.inboxes import NIGHT, inbox, note, preferences
from tests.notifications.people import people, request
from tests.stores.backends import Backend

MIDNIGHT = "2026-01-05T00:00:00Z"
ASLEEP = {"quiet_hours": [{"start": "08:00", "end": "12:00"}]}


def test_what_is_cancelled_ends_and_gives_its_text_back() -> None:
    scenario = inbox(preferences(quiet_hours=(NIGHT,))).at(MIDNIGHT).when(note(), key="a")
    scenario.when(CancelNotification("a")).then_verdict("NEVER", "QUIET_HOURS", "CANCELLED")
    scenario.then(Suppressed(2, "a", ("QUIET_HOURS", "CANCELLED"))).then_alarm(None)
    scenario.when(note(), key="b").then_verdict("LATER", "QUIET_HOURS")


def test_what_is_released_goes_out_in_the_night_but_not_against_an_opt_out_or_after_its_expiry() -> None:
    asleep = inbox(preferences(quiet_hours=(NIGHT,))).at(MIDNIGHT)
    asleep.when(note(), key="a").when(ReleaseNotification("a")).then_verdict("NOW", "QUIET_HOURS", "RELEASED")
    assert asleep.state
    assert (len(asleep.state.delivered), asleep.state.waiting) == (1, ())
    out = preferences(quiet_hours=(NIGHT,), opt_out=OptOut(event_types=("MESSAGE",)))
    refusing = inbox(preferences(quiet_hours=(NIGHT,))).at(MIDNIGHT).when(note(), key="a")
    assert refusing.state
    refusing.happened(out)
    refusing.when(ReleaseNotification("a")).then_verdict("NEVER", "QUIET_HOURS", "USER_OPT_OUT")
    late = inbox(preferences(quiet_hours=(NIGHT,))).at(MIDNIGHT)
    late.when(note(expires_at=late.now + HOUR), key="a").at(late.now + 2 * HOUR).when(ReleaseNotification("a"))
    late.then_verdict("NEVER", "QUIET_HOURS", "EXPIRED")


@pytest.mark.parametrize("act", [CancelNotification, ReleaseNotification])
def test_what_does_not_wait_is_refused(act: type[CancelNotification | ReleaseNotification]) -> None:
    inbox().when(act("a")).then_refused("NOT_WAITING")
    inbox().when(note(), key="a").when(act("a")).then_refused("NOT_WAITING")


async def test_what_became_of_them_is_told(backend: Backend, tmp_path: Path) -> None:
    async with people(backend, tmp_path) as p:
        await p.service.set_preferences("ann", ASLEEP)
        for name in ("e1", "e2"):
            assert (await p.service.send(request(name))).outcome == "LATER"
        cancelled = await p.service.cancel("e1")
        assert (cancelled.status, cancelled.outcome, cancelled.reasons) == (
            "cancelled",
            "NEVER",
            ("QUIET_HOURS", "CANCELLED"),
        )
        released = await p.elsewhere.release("e2", key="once")
        assert (released.status, released.reasons, released.delivery_channel) == (
            "delivering",
            ("QUIET_HOURS", "RELEASED"),
            "push",
        )
        assert (await p.elsewhere.release("e2", key="once")).reasons[-1] == "RELEASED", "answered from the record"
        await p.tick()
        assert [sent.message for sent in p.outside.sent] == ["See you at nine? (e2)"]
        assert (await p.service.notification("e2")).status == "delivered"
        for name in ("e1", "e2"):
            with pytest.raises(Refused, match="not waiting"):
                await p.service.cancel(name)
        with pytest.raises(NotFound):
            await p.service.release("e3")
        assert (await verify(p.engine.store, p.engine.kinds)).is_sound


async def test_over_http() -> None:
    note_of = {"user_id": "u", "event_type": "DIGEST", "source": "s", "channels": ["in_app"], "message": "news"}
    async with site() as s:
        for name in ("a", "b"):
            await s.client("POST", "/v1/notifications", {**note_of, "event_id": name, "title": f"Title {name}"})
        cancelled = await s.client("POST", "/v1/notifications/a/cancel")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        assert cancelled.json["explanation"] == "Somebody cancelled it."
        again = await s.client("POST", "/v1/notifications/a/cancel")
        assert (again.status, again.json["code"]) == (409, "NOT_WAITING")
        released = await s.client("POST", "/v1/notifications/b/release")
        assert (released.status, released.json["status"], released.json["outcome"]) == (200, "delivered", "NOW")
        assert (await s.client("POST", "/v1/notifications/c/release")).status == 404


def test_from_the_command_line(tmp_path: Path) -> None:
    async def send() -> None:
        async with Betimes(f"sqlite:///{tmp_path / 'betimes.db'}") as bt:
            for name in ("a", "b"):
                await bt.notifications.send(request(name, event_type="DIGEST", priority_hint=None, channels=["in_app"]))

    asyncio.run(send())
    assert command("notification", "show", "a", "--json", folder=tmp_path).json["status"] == "waiting"
    assert command("notification", "cancel", "a", "--json", folder=tmp_path).json["status"] == "cancelled"
    assert command("notification", "release", "b", "--json", folder=tmp_path).json["outcome"] == "NOW"
    refused = command("notification", "release", "a", "--json", folder=tmp_path)
    assert (refused.code, refused.problem["code"]) == (STATUS["REFUSED"][1], "NOT_WAITING")
