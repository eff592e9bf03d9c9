"""The story: three weeks of a small assistant, in virtual time and in memory, line by line.

Every line shows the answer of a service; only the questions are written by hand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from betimes.app.betimes import Betimes
from betimes.core.instants import render
from betimes.core.zones import zone
from betimes.demo.lines import StoryLine
from betimes.engine.replay import verify
from betimes.engine.virtual_clock import VirtualClock
from betimes.runs.views import TriggerRequest
from betimes.scores.service import Interaction, NewScore

BERLIN = zone("Europe/Berlin")
POLICY = {"notifications": {"jitter_s": 0, "event_types": {"UPDATE": {"digest": True}}}}
PREFERENCES = {
    "timezone": "Europe/Berlin",
    "quiet_hours": [{"start": "22:00", "end": "07:00"}],
    "digest_windows": ["30 8 * * *"],
    "addresses": {"push": "device-1"},
}
NOTES = (
    ("evt-1", "MESSAGE", "HIGH", "Tom replied", "See you at nine?"),
    ("evt-2", "MESSAGE", "HIGH", "Tom replied", "see you  at NINE?"),
    ("evt-3", "UPDATE", "MEDIUM", "Weekly numbers", "Usage is up by 4 percent"),
    ("evt-4", "UPDATE", "MEDIUM", "A new release", "Version 7 is out, with dark mode"),
    ("evt-5", "SECURITY", None, "New login", "Somebody signed in from Peru"),
)


async def tell_story() -> AsyncGenerator[StoryLine, None]:
    """Yield the lines of all scenes, one after the other, on one clock."""
    clock = VirtualClock("2026-03-24T09:00:00Z")
    bt = Betimes("memory://", clock=clock, policy=POLICY)
    prices = {"NVDA": Decimal(131)}
    bt.source("price")(prices.__getitem__)
    bt.run("SIGNAL_ARRIVED")(_think)
    bt.handler("brief")(_think)
    async with bt:
        for scene in (_burst(bt), _night(bt), _clocks(bt), _wish(bt, prices), _fading(bt), _replay(bt)):
            async for told in scene:
                yield told


async def _think(call: Any) -> dict[str, Any]:
    """Stand for the expensive part."""
    return {"thought": True}


async def _burst(bt: Betimes) -> AsyncIterator[StoryLine]:
    """Trigger runs faster than they may run."""
    scene = "Runs: signals in a row for one account, whose expensive decision may run every five minutes"
    for name, wait_s in (("sig-1", 20), ("sig-2", 60), ("sig-3", 30), ("sig-3", 0)):
        request = TriggerRequest(
            account_id="acct-7", trigger_type="SIGNAL_ARRIVED", idempotency_key=name, payload={"signal": name}
        )
        verdict = await bt.runs.trigger(request)
        what = f"{request.trigger_type} {name}"
        yield _line(bt, scene, what, verdict.result, verdict.explanation, (verdict.reason,))
        await bt.advance(by_s=wait_s)
    await bt.advance(by_s=600)
    for run in (await bt.runs.runs()).items[::-1]:
        yield _line(bt, scene, f"the run of {run.idempotency_key}", run.status)


async def _night(bt: Betimes) -> AsyncIterator[StoryLine]:
    """Send messages to a person who is asleep."""
    scene = "Notifications: it is ten past two at night in Berlin, and Ana sleeps until seven"
    await bt.notifications.set_preferences("ana", PREFERENCES)
    await bt.advance(to="2026-03-25T01:10:00Z")
    for event_id, kind, priority, title, message in NOTES:
        note = {"event_id": event_id, "user_id": "ana", "event_type": kind, "title": title, "message": message}
        hint = {"priority_hint": priority} if priority else {}
        verdict = await bt.notifications.send({**note, **hint, "source": "demo", "channels": ["push"]})
        what = f"{title}: “{message}”"
        yield _line(bt, scene, what, verdict.outcome, verdict.explanation, tuple(verdict.reasons))
    hours = (("2026-03-25T06:05:00Z", "after seven"), ("2026-03-25T07:35:00Z", "after the digest of half past eight"))
    for at, what in hours:
        await bt.advance(to=at)
        found = [(title, await bt.notifications.notification(event_id)) for event_id, _, _, title, _ in NOTES]
        states = ", ".join(f"{title} {note.status}" for title, note in found)
        yield _line(bt, scene, what, states)


async def _clocks(bt: Betimes) -> AsyncIterator[StoryLine]:
    """Let a schedule tick over the change to summer time."""
    scene = "Schedules: every night at 02:30 in Berlin, also in the night in which there is no 02:30"
    target = {"kind": "handler", "name": "brief"}
    body = {"schedule_id": "brief", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": target}
    await bt.schedules.create(body)
    await bt.advance(to="2026-03-31T00:00:00Z")
    for tick in (await bt.schedules.ticks("brief")).items[::-1][-4:]:
        local = tick.scheduled_for.astimezone(BERLIN)
        run = tick.run.status if tick.run else "–"
        yield StoryLine(
            scene=scene,
            at=_iso(tick.scheduled_for),
            what=f"{local:%A %H:%M} in Berlin",
            answer=tick.status,
            why=f"Its run is {run}; it can happen once only, as {tick.run_key}.",
        )
    await bt.schedules.disable("brief")


async def _wish(bt: Betimes, prices: dict[str, Decimal]) -> AsyncIterator[StoryLine]:
    """Let an intent fire, and cool down."""
    scene = "Intents: tell Ana when NVDA is under 130, at most once a day"
    await bt.intents.create(
        {
            "intent_id": "nvda-130",
            "user_id": "ana",
            "trigger_type": "price",
            "condition": {"ticker": "NVDA", "operator": "<", "value": 130},
            "action_type": "notify",
            "action_context": "NVDA is under 130.",
            "action_priority": "high",
        }
    )
    for price, wait in ((131, timedelta(minutes=6)), (128, timedelta(minutes=10)), (127, timedelta(hours=26))):
        prices["NVDA"] = Decimal(price)
        await bt.advance(by_s=wait.total_seconds())
        intent = await bt.intents.get("nvda-130")
        cooling = f" It cools down for {intent.cooldown_remaining_hours} h." if intent.in_cooldown else ""
        why = f"Fires so far: {intent.execution_count}.{cooling}"
        yield _line(bt, scene, f"NVDA at {price}", intent.last_status or "not looked at", why)
    await bt.intents.disable("nvda-130")


async def _fading(bt: Betimes) -> AsyncIterator[StoryLine]:
    """Let a score decay."""
    scene = "Scores: a plant that is not watered"
    await bt.scores.create(NewScore(user_id="fern", score=Decimal(60)))
    await bt.scores.interact("fern", Interaction(type="text"))
    for days in (0, 1, 2, 2, 2):
        await bt.advance(by_s=days * 86_400)
        score = await bt.scores.get("fern")
        forecast = score.forecast and score.forecast.zero_at
        why = f"If nobody does anything, it is over at {_iso(forecast)}." if forecast else ""
        yield _line(bt, scene, f"the score is {score.score:.2f}", score.game_status.replace("_", " "), why)
    (last, *_) = (await bt.scores.history("fern")).items
    yield StoryLine(scene=scene, at=_iso(last.timestamp), what="the last entry of its history", answer=last.event_type)


async def _replay(bt: Betimes) -> AsyncIterator[StoryLine]:
    """Replay everything from the ledger alone."""
    yield await replay(bt, "And all of it again, from the ledger alone", at=_now(bt))


async def replay(bt: Betimes, scene: str, at: str = "") -> StoryLine:
    """Return whether replaying the ledger gives the same state."""
    report = await verify(bt.engine.store, bt.engine.kinds)
    return StoryLine(
        scene=scene,
        at=at,
        what=f"{report.segments:,} segments of {report.streams:,} streams replayed",
        answer="the same, byte for byte" if report.is_sound else "NOT the same",
    )


def _line(bt: Betimes, scene: str, what: str, answer: str, why: str = "", reasons: tuple[str, ...] = ()) -> StoryLine:
    """Return a line about what is so now."""
    return StoryLine(scene=scene, at=_now(bt), what=what, answer=answer, reasons=reasons, why=why)


def _now(bt: Betimes) -> str:
    assert bt.clock is not None
    return render(bt.clock())


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
