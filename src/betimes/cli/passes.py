"""Commands that do one pass and end: `tick` and `sweep`. For cron, pg_cron or a cloud scheduler."""

from __future__ import annotations

from typing import Any

from betimes.cli.bootstrap import Application
from betimes.cli.options import AT, At, on
from betimes.cli.output import moment, show_sentences
from betimes.core.errors import Invalid
from betimes.engine.tick_result import TickResult

PROCESSES_MAX = 200


def tick(
    *, limit: int = 1_000, max_s: float = 10.0, tenant: str | None = None, app: str | None = None, at: At = AT
) -> None:
    """Do one bounded pass over alarms, effects and due intents, and report what is still due.

    Parameters
    ----------
    limit
        Maximum number of things to do.
    max_s
        Seconds after which to stop early.
    tenant
        Ring only this tenant's alarms.
    app
        Your own Betimes as module:name, with its handlers, schedules and sensors.
    """

    async def work(application: Application) -> TickResult:
        await demand_real_time(application)
        return await application.tick(limit=limit, max_s=max_s, tenant=tenant)

    done = on(at.local(app=app, over_http="POST /v1/tick"), work, starts=True, exists=False)
    show_sentences(tick_view(done), [_sentence(done)], json=at.json)


async def demand_real_time(application: Application) -> None:
    """Raise `Invalid` while a process with a virtual clock works on the database.

    What it wrote waits for instants of its own time; by the real clock, months of it would be due at once.
    """
    store = application.engine.store
    now = await store.now()
    for process in await store.processes(PROCESSES_MAX):
        if process.has_virtual_clock and process.is_alive(now):
            raise Invalid(
                f"{process.name} works on this database with a virtual clock, and this command would ring its alarms "
                "by the real one; move its clock with POST /v1/clock"
            )


def tick_view(done: TickResult) -> dict[str, Any]:
    """As `POST /v1/tick` answers."""
    ends = {end: done.effects.get(end, 0) for end in ("done", "retrying", "dead")}
    return {
        "now": moment(done.now),
        "fired": done.fired,
        "effects": {**ends, **done.effects},
        "complete": done.complete,
        "next_due_at": moment(done.next_due_at),
    }


def _sentence(done: TickResult) -> str:
    fired = ", ".join(f"{count} × {kind}" for kind, count in sorted(done.fired.items())) or "nothing"
    effects = ", ".join(f"{count} {end}" for end, count in sorted(done.effects.items())) or "none"
    left = "Nothing is due any more." if done.complete else "Something is still due: tick again."
    following = f" Next: {moment(done.next_due_at)}." if done.next_due_at is not None else ""
    return f"{moment(done.now)}  alarms: {fired}; effects: {effects}. {left}{following}"
