"""Objections: what the person is not to hear any more, although it was decided before.

A delivery may be carried out an hour after it was decided, and a dead letter may be tried again days later. Of the
rules, those that say that the person must not hear it are asked once more, for the channel it goes to. CRITICAL passes
over opt-outs, except where the law wants them.
"""

from __future__ import annotations

from betimes.notifications.rule_context import Case
from betimes.notifications.rules import RULES

EXPLANATIONS = {
    "EXPIRED": "the notification has expired; nobody is to hear it any more",
    "ACCOUNT_BANNED": "the person is banned",
    "USER_OPT_OUT": "the person has opted out of it",
}
_ASKED = ("expiry", "ban", "opt_out")


def find_objection(case: Case) -> str | None:
    """Return the reason why the item may not go out through its channels now, or `None`."""
    for rule in RULES.rules:
        if rule.name not in _ASKED or rule.name in case.policy.shadowed:
            continue
        hit = rule.check(case).hit
        if hit and not (rule.name == "opt_out" and case.is_critical and not _is_legal_opt_out(case)):
            return hit.reason
    return None


def _is_legal_opt_out(case: Case) -> bool:
    closed = case.inbox.preferences.opt_out.channels
    channels = [case.policy.channels.get(name) for name in case.item.channels if name in closed]
    return any(channel.legal_opt_out for channel in channels if channel)
