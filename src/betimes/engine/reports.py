"""What the engine tells whoever runs it: things that went wrong and that nobody was waiting for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Report(NamedTuple):
    """`what` is a stable word (`wake_failed`, `send_failed`, `call_dead`, …), `name` the stream or effect."""

    what: str
    name: str
    error: BaseException | None = None


Reporter: TypeAlias = Callable[[Report], None]

_log = logging.getLogger("betimes")


def guarded(report: Reporter) -> Reporter:
    """The reporter, unable to break whatever reports to it."""

    def told(said: Report) -> None:
        try:
            report(said)
        except Exception:  # noqa: BLE001 — it is the user's
            _log.exception("the reporter failed on %s: %s", said.what, said.name)

    return told


def log_report(report: Report) -> None:
    """The default: a warning in the log."""
    _log.warning("%s: %s: %s", report.what, report.name, report.error)
