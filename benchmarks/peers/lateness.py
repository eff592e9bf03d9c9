"""How late a peer's jobs were, those it did not get to within the time limit included."""

from __future__ import annotations


def summary(late_s: list[float], wanted: int, limit_s: float) -> dict[str, float]:
    """Jobs a second until the last that was called, and the quantiles of all that were wanted."""
    called = sorted(late_s)[:wanted]
    late = [*called, *[limit_s] * (wanted - len(called))]
    return {
        "called": len(called),
        "per_s": len(called) / called[-1] if called else 0.0,
        "p50_ms": late[len(late) // 2] * 1e3,
        "p99_ms": late[int(len(late) * 0.99)] * 1e3,
    }
