"""Print `docs/dst.md`: what a schedule does at every change of local time of one year, in every zone there is.

python docs/build_dst.py > docs/dst.md
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice

from betimes.core.calendar import calendar_of
from betimes.core.instants import SECOND
from betimes.core.zones import TZDATA_VERSION, offset_at, transitions, zone_names

YEAR = 2026
HEAD = f"""# Daylight saving time, {YEAR}

Every change of local time of {YEAR} in every IANA zone (tzdata {TZDATA_VERSION}), and when a schedule fires around it.
This page is printed by `python docs/build_dst.py`; a test compares it with the code.

- A *fixed* cron names a local time of day; here, one in the middle of the times that are skipped or repeated, on that
  day. By default a skipped time fires right after the gap, and a repeated one fires once, the first time. With
  `dst: {{gap: skip}}` the tick of a gap is left out; `overlap: last` and `both` choose the other repetition, or both.
- A *wildcard* cron (`*` first in the minute or the hour) keeps real time. The table counts the ticks of `*/15 * * * *`
  in the two hours around the change: always those of two real hours, where offsets are multiples of 15 minutes.

| change, UTC | local time | fixed cron | default | `overlap: last` | `overlap: both` | `*/15` | zones |
|---|---|---|---|---|---|---|---|"""


@cache
def changes() -> dict[tuple[int, int, int], list[str]]:
    """Zones by the change they make: the instant, the offset before and after, in seconds."""
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (YEAR, YEAR + 1))
    found: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for name in sorted(zone_names()):
        for at in transitions(name, start, end):
            found[at, offset_at(name, at - 1), offset_at(name, at)].append(name)
    return dict(sorted(found.items()))


def middle(at: int, before: int, after: int) -> datetime:
    """A local time in the middle of what the change skips or repeats."""
    local = datetime(1970, 1, 1) + timedelta(seconds=at + (before + after) / 2)  # noqa: DTZ001
    return local.replace(second=0)


def row(at: int, before: int, after: int, names: list[str]) -> str:
    local = middle(at, before, after)
    cron = f"{local.minute} {local.hour} {local.day} {local.month} *"
    start = (at - 2 * 86_400) * SECOND
    fires, last, both = (
        ", ".join(_clock(tick, before if tick < at * SECOND else after) for tick in _ticks(cron, names[0], start, rule))
        for rule in (None, "last", "both")
    )
    span = calendar_of("*/15 * * * *", names[0]).between((at - 3_600) * SECOND, (at + 3_600) * SECOND)
    jump = f"{_wall(at, before)} → {_wall(at, after)}"
    when = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
    repeated = f"{last} | {both}" if after < before else "– | –"
    quarters = sum(1 for _ in span)
    return f"| {when} | {jump} | `{local:%H:%M}` | {fires} | {repeated} | {quarters} | {', '.join(names)} |"


def _ticks(cron: str, name: str, start: int, overlap: str | None) -> list[int]:
    calendar = calendar_of(cron, name, None, overlap)  # type: ignore[arg-type]
    return [tick for tick in islice(calendar.after(start), 4) if tick < start + 4 * 86_400 * SECOND]


def _clock(tick: int, offset: int) -> str:
    local = datetime.fromtimestamp(tick // SECOND + offset, UTC)
    sign, minutes = "−" if offset < 0 else "+", abs(offset) // 60
    return f"{local:%H:%M}{sign}{minutes // 60:02}:{minutes % 60:02}"


def _wall(at: int, offset: int) -> str:
    return f"{datetime.fromtimestamp(at + offset, UTC):%H:%M}"


def page() -> str:
    return "\n".join([HEAD, *(row(*change, names) for change, names in changes().items())]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
