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
    """Commands of one tenant waiting in this process, so that no tenant fills the queue."""
    cache_chars_max: int = 256 * 1024 * 1024
    """Encoded size of all states in the cache."""

    command_chars_max: int = 256 * 1024
    """Encoded size of a command; a larger one is refused."""
    state_chars_max: int = 1024 * 1024
    """Encoded size of a state; a decision that leads to a larger one is refused."""
    events_chars_max: int = 1024 * 1024
    """Encoded size of the events, or of verdict and reply, of one segment."""
    effect_chars_max: int = 256 * 1024
    """Encoded size of the payload of one effect."""
    effects_max: int = 2_000
    """Effects of one decision."""
    wakes_before_command_max: int = 64
    """Alarms rung before one command in one turn; a command behind more of them waits for another turn."""

    attempts_on_conflict_max: int = 5
    """How often a turn with a conflict is decided again before its caller is told."""
    asked_after_conflict: int = 16
    """After a version conflict of an optimistic commit, this many batches lock before they decide."""
    unknown_resolve_s: float = 10.0
    """How long the engine tries to resolve an unknown commit outcome before it tells the caller."""
    retry_store_min_s: float = 0.05
    """First backoff when the store is unavailable; it doubles each time."""
    retry_store_max_s: float = 2.0
    """Longest backoff when the store is unavailable."""

    poll_s: float = 0.5
    """Longest time between two looks at the store: how late alarms and effects left by other processes are found at
    most."""
    snooze_min_s: float = 1.0
    """First backoff of an alarm whose wake failed; it doubles each time."""
    snooze_max_s: float = 300.0
    """Longest backoff of an alarm whose wake failed."""

    calls_max: int = 64
    """Effects carried out at once in this process; one tenant alone takes up to three quarters of them."""
    call_pauses_s: tuple[float, ...] = CALL_PAUSES_S
    """Retry policy of calls without their own: the backoff after the first failed attempt, the second, and so on;
    the last one is repeated. Each is up to a fifth longer, by a hash of the effect."""
    orphans_every_s: float = 60.0
    """How often workers look for orphaned calls, which no process takes."""
    clock_step_max_s: float = 60.0
    """Largest forward step of the machine's clock that is believed at once; a larger one is ignored for
    `clock_hold_s`. Only for stores that use the machine's clock."""
    clock_hold_s: float = 300.0
    """How long a larger forward step is ignored: time continues as if there had been none."""
    send_recovery_s: float = 2.0
    """Age at which another process applies a command between streams that its own process has not applied."""
    drain_s: float = 10.0
    """How long closing waits for work in progress."""

    key_retention_s: int = 7 * 86_400
    """How long an idempotency key is kept after its segment and whatever that segment promised."""

    def __post_init__(self) -> None:
        wrong = [name for name in self.__struct_fields__ if not _fits(name, getattr(self, name))]
        if wrong:
            raise Invalid(f"these settings must be numbers, and at least 1 where they limit work: {', '.join(wrong)}")


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
