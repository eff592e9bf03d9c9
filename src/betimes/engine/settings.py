"""Every bound of the engine, named, with its unit last. Past a bound there is a clear error, never a slow death."""

from __future__ import annotations

import msgspec

from betimes.core.errors import Invalid

CALL_PAUSES_S = (5.0, 30.0, 120.0, 600.0, 2_700.0)
"""Six attempts take about an hour: a receiver may be down for a deployment or an outage without costing a call."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on the work an engine takes on at once, and on how long it waits."""

    batch_max: int = 256
    """Commands decided in one transaction."""
    queue_max: int = 10_000
    """Commands waiting in this process; the next one is refused as overloaded."""
    queue_tenant_max: int = 5_000
    """The same of one tenant, so that no tenant takes all the room."""
    cache_chars_max: int = 256 * 1024 * 1024
    """Encoded size of the states kept decoded."""

    command_chars_max: int = 256 * 1024
    """Encoded size of a command; a larger one is refused."""
    state_chars_max: int = 1024 * 1024
    """Encoded size of a state; a decision that leads to a larger one is refused."""
    events_chars_max: int = 1024 * 1024
    """Encoded events, or verdict and reply, of one segment."""
    effect_chars_max: int = 256 * 1024
    """Encoded payload of one effect."""
    effects_max: int = 2_000
    """Effects of one decision."""
    wakes_before_command_max: int = 64
    """Alarms rung ahead of one command in one turn; a command behind more waits for another turn."""

    attempts_on_conflict_max: int = 5
    """How often a turn that met a conflict is decided anew before its caller is told."""
    asked_after_conflict: int = 16
    """Batches that lock before they decide, after one decided by what was cached met somebody else's work."""
    unknown_resolve_s: float = 10.0
    """How long an unknown commit outcome is looked into before its caller is told."""
    retry_store_min_s: float = 0.05
    """First pause when the store is unavailable; it doubles each time."""
    retry_store_max_s: float = 2.0
    """Longest pause when the store is unavailable."""

    poll_s: float = 0.5
    """No timer is armed for longer: how late alarms and effects that other processes left are found at most."""
    snooze_min_s: float = 1.0
    """First rest of an alarm whose wake failed; it doubles each time."""
    snooze_max_s: float = 300.0
    """Longest rest of an alarm whose wake failed."""

    calls_max: int = 64
    """Effects carried out at once in this process; one tenant alone takes up to three quarters of them."""
    call_pauses_s: tuple[float, ...] = CALL_PAUSES_S
    """Retry policy of calls that have none of their own: the pause after the first attempt that failed, the second, and
    so on; the last one is repeated. Each is up to a fifth longer, by a hash of the effect."""
    orphans_every_s: float = 60.0
    """How often whoever works looks for calls that nobody takes."""
    clock_step_max_s: float = 60.0
    """By how much the machine's clock may be stepped ahead at once; of a larger step nothing is believed for
    `clock_hold_s`. Only stores that go by the machine's clock heed it."""
    clock_hold_s: float = 300.0
    """For how long a larger step ahead is not believed: time goes on as if there had been none."""
    send_recovery_s: float = 2.0
    """Age at which a command to another stream that its process has not applied is applied by any other."""
    drain_s: float = 10.0
    """How long closing waits for what is under way."""

    key_retention_s: int = 7 * 86_400
    """How long an idempotency key is kept after its segment and whatever that segment promised."""

    def __post_init__(self) -> None:
        wrong = [name for name in self.__struct_fields__ if not _fits(name, getattr(self, name))]
        if wrong:
            raise Invalid(f"these settings must be numbers, and at least 1 where they bound work: {', '.join(wrong)}")


_BOUNDS_WORK = (
    "batch_max",
    "queue_max",
    "queue_tenant_max",
    "calls_max",
    "effects_max",
    "wakes_before_command_max",
    "attempts_on_conflict_max",
)


def _fits(name: str, value: object) -> bool:
    if name == "call_pauses_s":
        return isinstance(value, tuple) and bool(value) and all(_fits("", pause) for pause in value)
    return type(value) in (int, float) and value >= (name in _BOUNDS_WORK)  # type: ignore[operator]
