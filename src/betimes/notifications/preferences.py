"""Checks of preferences: everything wrong is named by its path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from betimes.core.checks import Problem, Rule, broken_rules, readable
from betimes.core.zones import is_zone, unknown_zone
from betimes.notifications import digests
from betimes.notifications import quiet_hours as quiet
from betimes.notifications.model import Preferences
from betimes.notifications.policy import NotificationsPolicy

QUIET_HOURS_MAX = 14
WINDOWS_MAX = 8
ADDRESS_CHARS_MAX = 256


def preference_problems(chosen: Preferences, policy: NotificationsPolicy) -> tuple[tuple[str, str], ...]:
    """Return what is wrong with preferences by the policy in force."""
    zoned, *others = preference_rules(policy)
    found = [*broken_rules(chosen, [zoned]), *quiet.problems_of(chosen.quiet_hours)]
    if len(chosen.quiet_hours) > QUIET_HOURS_MAX:
        found.append(("quiet_hours", f"at most {QUIET_HOURS_MAX}"))
    return (*found, *broken_rules(chosen, others))


def preference_rules(policy: NotificationsPolicy) -> tuple[Rule[Any], ...]:
    """Return the rules of preferences, and of the readable part of a request for them, besides quiet hours."""
    rules = (_types, _channels, _digest_channel, _addresses)
    return (_zone, _windows, *(partial(rule, policy) for rule in rules))


def _zone(chosen: Preferences) -> Iterator[Problem]:
    if not is_zone(chosen.timezone):
        yield "timezone", unknown_zone(chosen.timezone)


def _windows(chosen: Preferences) -> Iterator[Problem]:
    windows = chosen.digest_windows or ()
    for place, cron in readable(windows):
        if problem := digests.problem_of(cron):
            yield f"digest_windows[{place}]", problem
    if len(windows) > WINDOWS_MAX:
        yield "digest_windows", f"at most {WINDOWS_MAX}"


def _types(policy: NotificationsPolicy, chosen: Preferences) -> Iterator[Problem]:
    for place, name in readable(chosen.opt_out.event_types):
        if name not in policy.event_types:
            yield f"opt_out.event_types[{place}]", f"no such type: {name!r}"


def _channels(policy: NotificationsPolicy, chosen: Preferences) -> Iterator[Problem]:
    for place, name in readable(chosen.opt_out.channels):
        if name not in policy.channels:
            yield f"opt_out.channels[{place}]", f"no such channel: {name!r}"


def _digest_channel(policy: NotificationsPolicy, chosen: Preferences) -> Iterator[Problem]:
    if chosen.digest_channel is not None and chosen.digest_channel not in policy.channels:
        yield "digest_channel", f"no such channel: {chosen.digest_channel!r}"


def _addresses(policy: NotificationsPolicy, chosen: Preferences) -> Iterator[Problem]:
    sound = {place for place, _ in readable(chosen.addresses.values())}
    for place, (name, address) in enumerate(chosen.addresses.items()):
        if name not in policy.channels:
            yield f"addresses.{name}", f"no such channel: {name!r}"
        elif place in sound and not 1 <= len(address) <= ADDRESS_CHARS_MAX:
            yield f"addresses.{name}", f"1 to {ADDRESS_CHARS_MAX} characters"
