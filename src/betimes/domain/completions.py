"""Completions: the commands by which a domain reports to another that its request has ended."""

from __future__ import annotations

from typing import Literal

from betimes.core.stored_message import StoredMessage


class TargetSettled(StoredMessage):
    """To the stream `report_to`: what was asked of another domain has ended."""

    status: Literal["delivered", "suppressed", "failed", "done"]
    reason: str = ""


class RunFinished(StoredMessage):
    """Tells the stream that requested a run that it has ended, whatever the result."""

    run_id: str
    run_key: str
    status: Literal["succeeded", "failed", "abandoned", "skipped", "delivered", "suppressed", "done", "dead"]
    reason: str = ""
