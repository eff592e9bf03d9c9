"""The scope that saving a target needs: that of the kind of stream, or the work, it will reach."""

from __future__ import annotations

from betimes.domain.targets import CommandTarget, NotificationTarget, SweepTarget, Target, TriggerTarget
from betimes.engine.codecs import Kinds


def scope_to_save(target: Target, kinds: Kinds) -> str | None:
    """Return the scope besides `automation:write`, if there is one."""
    match target:
        case TriggerTarget():
            return "runs:write"
        case NotificationTarget():
            return "notifications:write"
        case SweepTarget():
            return "sweep"
        case CommandTarget(stream):
            return kinds.scope(stream.kind)
        case _:
            return None
