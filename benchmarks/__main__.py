"""`python -m benchmarks [SUITE …] [--store sqlite|postgres] [--scale 1.0] [--json]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import domains, suites
from benchmarks.places import PLACES

SUITES = dict(suites.SUITES)
for found in iter_modules(domains.__path__, "benchmarks.domains."):
    SUITES.update(getattr(import_module(found.name), "SUITES", {}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios measured in one run.")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which (default: all)")
    parser.add_argument("--store", choices=[*PLACES], help="only this one")
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer decisions (and streams, below 1)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.suites or SUITES:
        for kind in [options.store] if options.store else PLACES:
            results.setdefault(name, []).extend(asyncio.run(SUITES[name](kind, options.scale)))
        if not options.json:
            show(name, results[name])
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()


def show(name: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{name}: {(SUITES[name].__doc__ or '').strip()}", title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
