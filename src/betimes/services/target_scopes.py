"""Which scope saving a target needs: that of the domain it will act on."""

from __future__ import annotations

from betimes.domains.catalogue import DOMAIN_OF
from betimes.domains.targets import CommandTarget, NotificationTarget, SweepTarget, Target, TriggerTarget


def scope_to_save(target: Target) -> str | None:
    """The scope besides `automation:write`, if there is one."""
    match target:
        case TriggerTarget():
            return "runs:write"
        case NotificationTarget():
            return "notifications:write"
        case SweepTarget():
            return "sweep"
        case CommandTarget(stream):
            domain = DOMAIN_OF.get(stream.kind)
            return f"{domain}:write" if domain else "admin"
        case _:
            return None
