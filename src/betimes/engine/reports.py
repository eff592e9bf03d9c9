"""Reports to the operator: failures in background work, and what was committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from betimes.core.deciders import Event
from betimes.core.segments import Segment
from betimes.core.verdicts import Verdict


class Report(NamedTuple):
    """`what` is a stable word (`wake_failed`, `send_failed`, `call_dead`, …), `name` the stream or effect."""

    what: str
    name: str
    error: BaseException | None = None


Reporter: TypeAlias = Callable[[Report], None]
Written: TypeAlias = tuple[Segment, tuple[Event, ...], Verdict | None]
"""A segment with its decided events and verdict, so that they need not be decoded."""
Observer: TypeAlias = Callable[[Sequence[Written]], None]
"""Told of the segments of every commit, after it; it must be quick."""

_log = logging.getLogger("betimes")


def guard_reporter(report: Reporter) -> Reporter:
    """Return the reporter, unable to break its callers."""

    def report_safely(said: Report) -> None:
        try:
            report(said)
        except Exception:  # noqa: BLE001 — it is the user's
            _log.exception("the reporter failed on %s: %s", said.what, said.name)

    return report_safely


def storable_text(text: str, chars_max: int) -> str:
    """Return text that every store can keep: bounded, no NUL, no lone surrogate."""
    return text[:chars_max].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def log_report(report: Report) -> None:
    """Write a warning to the log: the default."""
    _log.warning("%s: %s: %s", report.what, report.name, report.error)
