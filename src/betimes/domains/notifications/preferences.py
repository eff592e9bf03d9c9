"""What a person may choose, checked: everything wrong is named by its path."""

from __future__ import annotations

from betimes.core.zones import is_zone
from betimes.domains.notifications import digests, quiet
from betimes.domains.notifications.model import Preferences
from betimes.domains.notifications.policy import NotificationsPolicy

QUIET_HOURS_MAX = 14
WINDOWS_MAX = 8
ADDRESS_CHARS_MAX = 256


def preference_problems(chosen: Preferences, policy: NotificationsPolicy) -> tuple[tuple[str, str], ...]:
    found = []
    if not is_zone(chosen.timezone):
        found.append(("timezone", f"no such zone: {chosen.timezone[:64]}"))
    found += quiet.problems_of(chosen.quiet_hours)
    if len(chosen.quiet_hours) > QUIET_HOURS_MAX:
        found.append(("quiet_hours", f"at most {QUIET_HOURS_MAX}"))
    windows = chosen.digest_windows or ()
    found += [(f"digest_windows[{place}]", problem)
              for place, cron in enumerate(windows) if (problem := digests.problem_of(cron))]  # fmt: skip
    if len(windows) > WINDOWS_MAX:
        found.append(("digest_windows", f"at most {WINDOWS_MAX}"))
    return (*found, *_unknown(chosen, policy), *_addresses(chosen, policy))


def _unknown(chosen: Preferences, policy: NotificationsPolicy) -> list[tuple[str, str]]:
    out = chosen.opt_out
    found = [(f"opt_out.event_types[{place}]", f"no such type: {name!r}")
             for place, name in enumerate(out.event_types) if name not in policy.event_types]  # fmt: skip
    found += [(f"opt_out.channels[{place}]", f"no such channel: {name!r}")
              for place, name in enumerate(out.channels) if name not in policy.channels]  # fmt: skip
    if chosen.digest_channel is not None and chosen.digest_channel not in policy.channels:
        found.append(("digest_channel", f"no such channel: {chosen.digest_channel!r}"))
    return found


def _addresses(chosen: Preferences, policy: NotificationsPolicy) -> list[tuple[str, str]]:
    found = []
    for name, address in chosen.addresses.items():
        if name not in policy.channels:
            found.append((f"addresses.{name}", f"no such channel: {name!r}"))
        elif not 1 <= len(address) <= ADDRESS_CHARS_MAX:
            found.append((f"addresses.{name}", f"1 to {ADDRESS_CHARS_MAX} characters"))
    return found
