"""The search for one setting: the least change of a number, or another choice, that leads to a better answer.

Numbers are bisected between the value in force and the far end of their range, in either direction; that takes a
setting to act in one direction only, so the value that is found is decided by once more, as every value that is told.
It is rounded to one that a person would write if that is as good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from betimes.catalogue import SECTIONS
from betimes.core.instants import spell_duration
from betimes.core.setting_paths import SHARE_STEP, SettingRange, expand_path, find_setting, range_of
from betimes.engine.redecision import Redecided
from betimes.ledger.alternative_search import AlternativeChange, AlternativeSearch, bound_rule

ROUND_STEPS = (3_600, 600, 300, 60, 30, 10, 5)
ROUND_SHARE = Decimal("0.1")
"""By how much of itself a value may be moved to be round."""
FAR = 1_000
NEARER_MAX = 6


async def search_settings(
    search: AlternativeSearch, names: Mapping[str, tuple[str, ...]], changes: list[AlternativeChange]
) -> None:
    """Vary each setting that the rule which decided goes by."""
    table = search.engine.kinds.tables.get(search.recorded.table)
    name = bound_rule(search.recorded)
    rule = table.by_name.get(name) if table and name else None
    for path in [one for read in (rule.reads if rule else ()) for one in expand_path(read, names)]:
        found = await _search_setting(search, path)
        if found:
            before, after = (_spell_value(path, value) for value in found[:2])
            says = f"the setting {path} had been {after} instead of {before}"
            changes.append(search.change("setting", says, path, *found))


def _spell_value(path: str, value: Any) -> str:
    """Return a value, and a number of seconds also as people say it."""
    is_duration = path.endswith(("_s", "_seconds")) and isinstance(value, int)
    return f"{value} ({spell_duration(value)})" if is_duration else str(value)


async def _search_setting(search: AlternativeSearch, path: str) -> tuple[Any, Any, Redecided] | None:
    """Return the value in force, the nearest that is better, and what it leads to."""
    section, _, inner = path.partition(".")
    try:
        before = find_setting(search.body, path)
    except KeyError:
        return None
    scope = range_of(SECTIONS[section], inner) if section in SECTIONS else None
    if scope is None:
        return None
    if scope.choices:
        for choice in (one for one in scope.choices if one != before):
            again = await search.decide_under({path: choice})
            if again and search.is_better(again):
                return before, choice, again
        return None
    if before is None or isinstance(before, bool):
        return None
    return await _search_number(search, path, before, scope)


async def _search_number(
    search: AlternativeSearch, path: str, before: Any, scope: SettingRange
) -> tuple[Any, Any, Redecided] | None:
    unit = Decimal(1) if scope.is_whole else SHARE_STEP
    # Counted in whole units, so that halving ends at neighbours.
    start = int(Decimal(str(before)) / unit)
    for far in _ends(start, scope, unit):
        end = _possible_end(search, path, start, far, unit)
        best = None if end is None else await _try(search, path, end, unit)
        if best is None or end is None:
            continue
        worse, better = start, end
        # The nearest that helps lies between one that does not and one that does: halve until they are neighbours.
        while abs(better - worse) > 1:
            middle = (worse + better) // 2
            again = await _try(search, path, middle, unit)
            worse, better, best = (worse, middle, again) if again else (middle, better, best)
        rounded = await _round(search, path, better, start, unit)
        value, again = rounded or (better, best)
        return before, _value(value, unit), again
    return None


def _ends(start: int, scope: SettingRange, unit: Decimal) -> Iterator[int]:
    """Return the far ends of a range on both sides; without a bound, as far as anybody would go."""
    low = int((scope.low or Decimal(0)) / unit)
    share = 100 if Decimal(start) * unit <= 1 and unit < 1 else max(start * 10, FAR)
    high = share if scope.high is None else int(scope.high / unit)
    yield from (end for end in (high, low) if end != start)


def _possible_end(search: AlternativeSearch, path: str, start: int, far: int, unit: Decimal) -> int | None:
    """Return the far end, or one nearer that the other settings allow; `None` if they allow none."""
    for _ in range(NEARER_MAX):
        if far == start:
            return None
        if search.is_possible({path: _value(far, unit)}):
            return far
        far = start + (far - start) // 2 if far > start else start - (start - far) // 2
    return None


async def _try(search: AlternativeSearch, path: str, value: int, unit: Decimal) -> Redecided | None:
    """Return what is decided with this value, if it is better."""
    again = await search.decide_under({path: _value(value, unit)})
    return again if search.is_better(again) else None


def _value(value: int, unit: Decimal) -> Any:
    return value if unit == 1 else str((value * unit).normalize() if value else Decimal(0))


async def _round(
    search: AlternativeSearch, path: str, found: int, start: int, unit: Decimal
) -> tuple[int, Redecided] | None:
    """Return a rounder value a little farther from the one in force, if it is as good."""
    up = found > start
    for step in ROUND_STEPS if unit == 1 else ():
        rounder = -(-found // step) * step if up else found // step * step
        if rounder != found and abs(rounder - found) > abs(found) * ROUND_SHARE:
            continue
        again = await _try(search, path, rounder, unit)
        if again:
            return rounder, again
    return None
