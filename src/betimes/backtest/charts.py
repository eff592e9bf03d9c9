"""Charts of the report's page, as inline SVG: bars and the strip of hours. Every mark has a title with its value."""

from __future__ import annotations

from html import escape

from betimes.backtest.summary import HOURS, change
from betimes.backtest.tally import NIGHT

WIDTH = 720
LEFT = 62
CELL = (WIDTH - LEFT) / 24
ROW = 34
HEAD = 20
SHADED = 0.6
"""From this shade on, a count is written in the colour of the paper."""


def bar(value: int, most: int, title: str) -> str:
    """One bar, as long as its share of the longest."""
    return (
        f'<svg viewBox="0 0 200 20" preserveAspectRatio="none" role="img" aria-label="{escape(title)}">'
        f'<rect class="after" x="0" y="4" height="12" rx="2" width="{_length(value, most)}">'
        f"<title>{escape(title)}</title></rect></svg>"
    )


def two_bars(before: int, after: int, most: int, name: str) -> str:
    """Before above after."""
    title = f"{name}: {before:,} before, {after:,} after"
    return (
        f'<svg viewBox="0 0 200 20" preserveAspectRatio="none" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
        f'<rect class="before" x="0" y="2" height="7" rx="1.5" width="{_length(before, most)}"/>'
        f'<rect class="after" x="0" y="11" height="7" rx="1.5" width="{_length(after, most)}"/></svg>'
    )


def _length(value: int, most: int) -> str:
    # What is not 0 can be seen, however small its share.
    return f"{max(200 * value / most, 1.5 if value else 0):.1f}" if most else "0"


def strip(before: list[int], after: list[int]) -> str:
    """The hours of the day in two rows, the darker the more was told, and what changed beneath."""
    most = max(*before, *after, 1)
    height = HEAD + 3 * ROW + 4
    parts = [
        (
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-label="How often somebody was told something, by the hour of their own day">'
        ),
        f'<rect class="night" x="{LEFT}" y="0" width="{len(NIGHT) * CELL:.1f}" height="{height}" rx="4"/>',
    ]
    for hour, name in enumerate(HOURS):
        parts.append(f'<text x="{_middle(hour)}" y="14" text-anchor="middle">{name}</text>')
    for row, (label, css, counts) in enumerate((("before", "before", before), ("after", "after", after))):
        top = HEAD + row * ROW
        parts.append(f'<text x="0" y="{top + 21}">{label}</text>')
        parts += [_cell(hour, top, css, count, most, label) for hour, count in enumerate(counts)]
    parts.append(f'<text x="0" y="{HEAD + 2 * ROW + 21}">change</text>')
    for hour, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            css = "more" if other > one else "less"
            parts.append(
                f'<text class="count {css}" x="{_middle(hour)}" y="{HEAD + 2 * ROW + 21}" text-anchor="middle">'
                f"{change(one, other)}</text>"
            )
    return "".join((*parts, "</svg>"))


def _cell(hour: int, top: int, css: str, count: int, most: int, label: str) -> str:
    title = f"{HOURS[hour]}:00, {label}: told {count:,} time{'' if count == 1 else 's'}"
    shade = 0.12 + 0.88 * count / most if count else 0
    on = " on" if css == "after" and shade > SHADED else ""
    text = f'<text class="count{on}" x="{_middle(hour)}" y="{top + 21}" text-anchor="middle">{count:,}</text>'
    return (
        f'<g><title>{title}</title><rect class="cell {css}" x="{LEFT + hour * CELL + 1:.1f}" y="{top + 2}" '
        f'width="{CELL - 2:.1f}" height="{ROW - 4}" rx="4" fill-opacity="{shade:.2f}"/>{text if count else ""}</g>'
    )


def _middle(hour: int) -> str:
    return f"{LEFT + (hour + 0.5) * CELL:.1f}"
