"""Objections: rules that are checked once more just before an item goes out, although it was decided before.

A delivery may be carried out an hour after it was decided, a dead letter may be tried again days later, and a digest
gathers items for half a day. The rules that say that the person must not hear it hold at that moment too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from betimes.notifications.rule_context import RuleContext
from betimes.notifications.rules import RULES

EXPLANATIONS = {
    "EXPIRED": "the notification has expired; it cannot be sent any more",
    "ACCOUNT_BANNED": "the person is banned",
    "USER_OPT_OUT": "the person has opted out of it",
}
_CHECKED_BEFORE_DELIVERY = ("expiry", "ban", "opt_out")
_CHECKED_IN_DIGEST = (*_CHECKED_BEFORE_DELIVERY, "incident")


def find_objection(context: RuleContext) -> str | None:
    """Return the reason why the item may not go out through its channels now, or `None`.

    CRITICAL passes over opt-outs, except legal ones.
    """
    passes_opt_out = context.is_critical and not _is_legal_opt_out(context)
    reasons = _matching_reasons(context, _CHECKED_BEFORE_DELIVERY)
    return next((reason for reason in reasons if not (passes_opt_out and reason == "USER_OPT_OUT")), None)


def find_digest_objection(context: RuleContext) -> str | None:
    """Return the reason why an item of a digest must not go out at all, or `None`."""
    return next(_matching_reasons(context, _CHECKED_IN_DIGEST), None)


def _matching_reasons(context: RuleContext, names: Collection[str]) -> Iterator[str]:
    """Yield the reasons of those of these rules that match and bind, in the order of the pipeline."""
    for rule in RULES.rules:
        if rule.name in names and rule.name not in context.policy.shadow_rules and (hit := rule.check(context).hit):
            yield hit.reason


def _is_legal_opt_out(context: RuleContext) -> bool:
    closed = context.inbox.preferences.opt_out.channels
    channels = [context.policy.channels.get(name) for name in context.item.channels if name in closed]
    return any(channel.legal_opt_out for channel in channels if channel)
