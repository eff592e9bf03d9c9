"""A report as one page of HTML: nothing is fetched, nothing is run, and the same report gives the same bytes.

Charts stand beside tables with the same numbers. Each changed answer opens with the keyboard too, and shows both traces
side by side with the rule at which they part. Everything from the recording is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import msgspec

from betimes.backtest import summary
from betimes.backtest.charts import bar, strip, two_bars
from betimes.backtest.report import BacktestReport, CandidateReport, Change, ControlReport, Flip, OutcomeLine, Side
from betimes.domain.service import TraceStep

POLICY_HEADER = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy: a browser may only show the page."""


def page(report: BacktestReport) -> str:
    """Return the whole page."""
    several = len(report.candidates) > 1
    style = files("betimes.backtest").joinpath("page.css").read_text()
    title = "Backtest: " + ", ".join(summary.candidate_name(candidate) for candidate in report.candidates)
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY_HEADER)}">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body>",
            '<header class="top"><h1>What another policy would have changed</h1>',
            f'<p class="soft">{escape(summary.window_sentence(report))}</p></header><main>',
            _control(report.control),
            _comparison(report.candidates) if several else "",
            *(_candidate(place, candidate) for place, candidate in enumerate(report.candidates)),
            "</main><footer><p>Made by betimes from the ledger; the same ledger and policies give the same page.</p>",
            "</footer></body></html>\n",
        )
    )


def _control(control: ControlReport) -> str:
    css = "good" if control.reproduced else "bad"
    told = f'<div class="control {css}" role="status">{escape(summary.control_sentence(control))}</div>'
    if not control.differences:
        return told
    rows = (
        (_code(d["segment"]), _code(d["tenant"]), _code(d["recorded"] or "–"), _code(d["rehearsed"] or "–"))
        for d in control.differences
    )
    table = _table("", ("segment", "tenant", "recorded", "rehearsed"), rows)
    return f"{told}<details><summary>Verdicts that were not reproduced</summary>{_inner(table)}</details>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


# -- candidates beside each other


def _comparison(candidates: Sequence[CandidateReport]) -> str:
    most = max(candidate.flip_count for candidate in candidates)
    rows = []
    for place, candidate in enumerate(candidates):
        cost = candidate.cost
        title = f"{summary.candidate_name(candidate)}: {summary.count_text(candidate.flip_count, 'changed answer')}"
        rows.append(
            f'<tr><th scope="row"><a href="#candidate-{place}">{escape(summary.candidate_name(candidate))}</a></th>'
            f"<td class='number'>{candidate.flip_count:,}</td><td class='bar'>{bar(candidate.flip_count, most, title)}"
            f"</td>{_change_cell(cost.runs_allowed)}{_change_cell(cost.told)}{_change_cell(cost.told_at_night)}</tr>"
        )
    heads = ("policy", "answers changed", "", "runs allowed", "told", "told at night")
    table = _frame_table("", heads, rows, numbers={1, 3, 4, 5})
    return f'<section class="compare"><h2>Side by side</h2>{table}</section>'


def _change_cell(counted: Change) -> str:
    return f'<td class="number">{counted.after:,} {_difference(counted.before, counted.after)}</td>'


def _change_cells(before: int, after: int) -> tuple[str, str, str]:
    return f"{before:,}", f"{after:,}", _difference(before, after)


def _difference(before: float, after: float) -> str:
    told = summary.change(before, after)
    css = "soft" if told == "=" else "more" if after > before else "less"
    return f'<span class="{css}">{told}</span>'


# -- one candidate


def _candidate(place: int, candidate: CandidateReport) -> str:
    whose = f' <span class="tag">overrides of {escape(candidate.tenant)}</span>' if candidate.tenant else ""
    return "".join(
        (
            f'<section class="candidate" id="candidate-{place}" aria-labelledby="name-{place}">',
            f'<h2 id="name-{place}">{escape(summary.candidate_name(candidate))}{whose}</h2>',
            f"<p>{escape(summary.flips_sentence(candidate))}</p>",
            _tiles(candidate),
            _flips(candidate),
            _hours(candidate),
            _outcomes(candidate.outcomes),
            _affected_table(candidate),
            _notes(candidate),
            _samples(candidate),
            _policy(candidate),
            "</section>",
        )
    )


def _tiles(candidate: CandidateReport) -> str:
    cost = candidate.cost
    rate = cost.told_per_person_day
    tiles = (
        ("Runs allowed", cost.runs_allowed.before, cost.runs_allowed.after),
        ("Times people were told something", cost.told.before, cost.told.after),
        ("of these between midnight and six", cost.told_at_night.before, cost.told_at_night.after),
        (f"per person and day, of {summary.count_text(cost.people, 'person', 'people')}", rate.before, rate.after),
    )
    shown = (
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{summary.number_text(before)} → {summary.number_text(after)} '
        f"<small>{_difference(before, after)}</small></dd></div>"
        for name, before, after in tiles
        if before or after
    )
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def _flips(candidate: CandidateReport) -> str:
    if not candidate.flips:
        return ""
    most = max(line.count for line in candidate.flips)
    rows = (
        f'<tr><th scope="row" class="flip">{escape(line.before)} → {escape(line.after)}</th>'
        f'<td><span class="tag">{escape(line.domain)}</span></td><td class="number">{line.count:,}</td>'
        f'<td class="bar">{bar(line.count, most, f"{line.before} to {line.after}: {line.count:,}")}</td></tr>'
        for line in candidate.flips
    )
    heads = ("before → after", "domain", "count", "")
    return "<h3>Answers that change</h3>" + _frame_table("", heads, rows, numbers={2})


def _hours(candidate: CandidateReport) -> str:
    if not any((*candidate.hours_before, *candidate.hours_after)):
        return ""
    rows = (
        (f"{hour}:00", *_change_cells(before, after))
        for hour, before, after in zip(summary.HOURS, candidate.hours_before, candidate.hours_after, strict=True)
    )
    table = _table("", ("hour", "before", "after", "change"), rows, numbers={1, 2, 3})
    return (
        "<h3>When people are told something, by the hour of their own day</h3>"
        f'<div class="strip scroll" tabindex="0" role="group" aria-label="Hours of the day">'
        f"{strip(candidate.hours_before, candidate.hours_after)}</div>"
        f"<details><summary>The same as a table</summary>{_inner(table)}</details>{_nights(candidate)}"
    )


def _nights(candidate: CandidateReport) -> str:
    if not candidate.nights:
        return ""
    people = (
        (escape(line.user), escape(line.tenant), *_change_cells(line.before, line.after)) for line in candidate.nights
    )
    heads = ("person", "tenant", "before", "after", "change")
    table = _table("Told between midnight and six, by their own clock.", heads, people, numbers={2, 3, 4})
    return f"<h3>Whose nights change</h3>{table}"


def _outcomes(lines: Sequence[OutcomeLine]) -> str:
    changed = [line for line in lines if line.before != line.after]
    same = [line for line in lines if line.before == line.after]
    legend = (
        '<p class="legend"><span><i style="background:var(--before)"></i>before</span>'
        '<span><i style="background:var(--after)"></i>after</span></p>'
    )
    told = "<h3>Answers by outcome and reason</h3>"
    told += legend + _outcome_table(changed) if changed else "<p>As often as before, each of them.</p>"
    if same:
        told += f"<details><summary>{len(same):,} as often as before</summary>{_inner(_outcome_table(same))}</details>"
    return told


def _outcome_table(lines: Sequence[OutcomeLine]) -> str:
    most = max(max(line.before, line.after) for line in lines)
    rows = (
        f'<tr><th scope="row">{escape(line.outcome)} <span class="soft">{escape(line.reason)}</span></th>'
        f'<td><span class="tag">{escape(line.domain)}</span></td><td class="number">{line.before:,}</td>'
        f'<td class="number">{line.after:,}</td><td class="number">{_difference(line.before, line.after)}</td>'
        f'<td class="bar">{two_bars(line.before, line.after, most, f"{line.outcome} {line.reason}".strip())}</td></tr>'
        for line in lines
    )
    return _frame_table("", ("outcome", "domain", "before", "after", "change", ""), rows, numbers={2, 3, 4})


def _affected_table(candidate: CandidateReport) -> str:
    if not candidate.affected:
        return ""
    most = candidate.affected[0].flips
    rows = (
        f'<tr><th scope="row">{escape(line.id)}</th><td><span class="tag">{escape(line.kind)}</span></td>'
        f'<td>{escape(line.tenant)}</td><td class="number">{line.flips:,}</td>'
        f'<td class="bar">{bar(line.flips, most, f"{line.kind} {line.id}: {line.flips:,}")}</td></tr>'
        for line in candidate.affected
    )
    heads = ("who", "kind", "tenant", "answers changed", "")
    return "<h3>Most affected</h3>" + _frame_table("", heads, rows, numbers={3})


def _notes(candidate: CandidateReport) -> str:
    told = "".join(f"<li>{escape(line)}</li>" for line in summary.notes(candidate))
    return f'<h3>To know about these numbers</h3><ul class="notes">{told}</ul>' if told else ""


# -- answers that change, each with both traces


def _samples(candidate: CandidateReport) -> str:
    if not candidate.samples:
        return ""
    told = "".join(_sample(flip) for flip in candidate.samples)
    return (
        f"<h3>Answers that change, one by one</h3><p class='soft'>{len(candidate.samples):,} of "
        f"{candidate.flip_count:,}; the rule at which the two part is marked.</p>{told}"
    )


def _sample(flip: Flip) -> str:
    key = f" <span class='soft'>{escape(flip.key)}</span>" if flip.key else ""
    return (
        f'<details class="sample"><summary><span class="flip">{escape(flip.before.outcome)} → '
        f"{escape(flip.after.outcome)}</span> {escape(flip.kind)} {escape(flip.id)} "
        f'<span class="soft">{escape(flip.at)}</span></summary>'
        + _inner(f"<p>{escape(flip.tenant)}{key}</p>{_traces(flip)}")
        + "</details>"
    )


def _traces(flip: Flip) -> str:
    rows = "".join(map(_rule, summary.pairs(flip)))
    ends = f'<tr><th scope="row">the answer</th>{_end(flip.before, "before")}{_end(flip.after, "after")}</tr>'
    return (
        '<table class="traces"><thead><tr><th scope="col">rule</th><th scope="col">before</th>'
        f'<th scope="col">after</th></tr></thead><tbody>{rows}{ends}</tbody></table>'
    )


def _rule(pair: summary.Pair) -> str:
    css, here = (' class="parts"', ' <span class="soft">here they part</span>') if pair.parts else ("", "")
    sides = _trace_cell(pair.before, "before") + _trace_cell(pair.after, "after")
    return f'<tr{css}><th scope="row">{escape(pair.rule)}{here}</th>{sides}</tr>'


def _trace_cell(step: TraceStep | None, side: str) -> str:
    if step is None:
        return f'<td class="unseen" data-side="{side}">{escape(summary.describe_step(step))}</td>'
    held = f' <span class="held">→ {escape(step.reason or "held")}</span>' if step.matched else ""
    shadow = " (shadow)" if step.mode == "shadow" else ""
    return f'<td data-side="{side}">{escape(summary.describe_step(step))}{held}{shadow}</td>'


def _end(side: Side, name: str) -> str:
    until = f" until {side.until}" if side.until else ""
    return (
        f'<td data-side="{name}"><span class="held">{escape(side.outcome)}</span> '
        f"{escape(summary.reasons(side.reasons) + until)}</td>"
    )


def _policy(candidate: CandidateReport) -> str:
    body = msgspec.json.format(msgspec.json.encode(candidate.policy, order="sorted"), indent=2).decode()
    return f"<details><summary>The policy</summary>{_inner(f'<pre>{escape(body)}</pre>')}</details>"


# -- tables


def _inner(content: str) -> str:
    return f'<div class="inner">{content}</div>'


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """Return a table of cells that are HTML already; the first of each row names it."""
    right = frozenset(numbers)

    def row(cells: Sequence[str]) -> str:
        first, *rest = cells
        told = (f"<td{_css(place, right)}>{cell}</td>" for place, cell in enumerate(rest, start=1))
        return f'<tr><th scope="row">{first}</th>{"".join(told)}</tr>'

    return _frame_table(caption, heads, map(row, rows), right)


def _frame_table(caption: str, heads: Sequence[str], rows: Iterable[str], numbers: Iterable[int] = ()) -> str:
    right = frozenset(numbers)
    named = "".join(
        f'<th scope="col"{_css(place, right)}>{escape(head)}</th>' if head else "<td></td>"
        for place, head in enumerate(heads)
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{said}<thead><tr>{named}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _css(place: int, right: frozenset[int]) -> str:
    return ' class="number"' if place in right else ""
