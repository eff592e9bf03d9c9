"""`python -m benchmarks [SUITE …] [--store sqlite|postgres] [--scale 1.0] [--json] [--write docs/measurements.md]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import domains, suites
from benchmarks.goals import Results, rows_against_goals
from benchmarks.places import PLACES

SUITES = dict(suites.SUITES)
for found in iter_modules(domains.__path__, "benchmarks.domains."):
    SUITES.update(getattr(import_module(found.name), "SUITES", {}))


GENERATED = ("<!-- measured -->", "<!-- /measured -->")
"""A page has its tables between these."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios measured in one run.")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which (default: all)")
    parser.add_argument("--store", choices=[*PLACES], help="only this one")
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer decisions (and streams, below 1)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--write", type=Path, help="a page of the documentation to put the tables of this run into")
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.suites or SUITES:
        for kind in [options.store] if options.store else PLACES:
            results.setdefault(name, []).extend(asyncio.run(SUITES[name](kind, options.scale)))
        if not options.json:
            show(f"{name}: {_description(name)}", results[name])
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()
    elif goals := rows_against_goals(results):
        show("goals", goals)
    if options.write:
        write_page(options.write, results, " ".join(sys.argv[1:]))


def _description(name: str) -> str:
    return (SUITES[name].__doc__ or "").strip()


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    Console(width=150).print(table)


def write_page(page: Path, results: Results, words: str) -> None:
    """Replace the tables of a page by those of this run."""
    before, _, rest = page.read_text().partition(GENERATED[0])
    _, _, after = rest.partition(GENERATED[1])
    parts = [
        f"Measured in one run: `python -m benchmarks {words}`.",
        "## Goals",
        _markdown(rows_against_goals(results)),
    ]
    for name, rows in results.items():
        parts += [f"## `{name}`", _description(name), _markdown(rows)]
    page.write_text("\n\n".join([before + GENERATED[0], *parts, GENERATED[1] + after]))


def _markdown(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(column, "")) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else "–" if value is None else str(value)


if __name__ == "__main__":
    main()
