"""`make soak`: one of the runs below for as long as asked, or for so many units, and the row it adds to the record.

    make soak ARGS="kills --store postgres --minutes 30"
    make soak ARGS="seeds --count 50000 --first 1000000"
    make soak ARGS="every --minutes 5"
    make soak ARGS="every --record"

It prints how far it is every ten seconds, and after Ctrl-C the row of what was done until then. It ends with 1 if
anything was found, with the command that runs the round of each finding again. `--record` does as much as is to be
published, which takes hours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from tests.crash.fleet import ROOT
from tests.postgres import server_dsn
from tests.soak.catalogue import RUNS
from tests.soak.rounds import Limits, Run, Tally, soak

HEAD = "| what | how much | how long | findings | commit | date | command |\n|---|---|---|---|---|---|---|"


def main() -> int:
    options = _arguments()
    names = list(RUNS) if "every" in options.run else options.run
    jobs = [(name, store) for name in names for store in RUNS[name].stores if options.store in (None, store)]
    if not jobs:
        print(f"{', '.join(names)}: none of this runs on {options.store}")
        return 2
    commit, rows, found = _commit(), [], 0
    for name, store in jobs:
        tally = _soak(name, RUNS[name], store, options)
        found += len(tally.findings)
        rows.append(_row(name, RUNS[name], tally, options, commit))
        if tally.is_interrupted:
            break
    print(HEAD, *rows, sep="\n", flush=True)
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    runs = "\n".join(f"  {name:10} {run.says} ({', '.join(run.stores)})" for name, run in RUNS.items())
    parser = argparse.ArgumentParser(
        prog="make soak",
        description=__doc__,
        epilog=f"runs:\n{runs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="+", choices=["every", *RUNS], metavar="RUN", help="one or more of those below")
    parser.add_argument("--store", choices=["sqlite", "postgres"], help="only on this one")
    parser.add_argument("--count", type=int, help="end after so many units")
    parser.add_argument("--record", action="store_true", help="end after as many as are to be published")
    parser.add_argument("--minutes", type=float, help="end after so long; 10, if nothing else is said")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first round")
    parser.add_argument("--at-once", type=int, help="rounds under way at a time")
    options = parser.parse_args()
    if options.count is None and options.minutes is None and not options.record:
        options.minutes = 10.0
    return options


def _soak(name: str, run: Run, store: str, options: argparse.Namespace) -> Tally:
    if store == "postgres":
        server_dsn()
    shown = 0

    def say(tally: Tally) -> None:
        nonlocal shown
        for order, finding in tally.findings[shown:]:
            again = _command(name, run, store, order.seed, order.count)
            print(f"FOUND in seed {order.seed}; again: {again}\n{finding}", flush=True)
        shown = len(tally.findings)
        state = f"{tally.amount(run.units)}, {len(tally.findings)} findings, next seed {tally.next_seed}"
        print(f"{name} on {store}: {state}, {tally.seconds:.0f} s", flush=True)

    limits = Limits(run.record if options.record else options.count, options.minutes)
    tally = soak(run, store, limits, options.first, options.at_once or run.at_once, say)
    say(tally)
    return tally


def _row(name: str, run: Run, tally: Tally, options: argparse.Namespace, commit: str) -> str:
    where = f", {tally.store}" if len(run.stores) > 1 else ""
    again = f"`{_command(name, run, tally.store, options.first, tally.count)}`"
    cells = (
        f"{run.says}{where}",
        tally.amount(run.units),
        _duration(tally.seconds),
        str(len(tally.findings)),
        commit,
        time.strftime("%Y-%m-%d", time.gmtime()),
        again,
    )
    return f"| {' | '.join(cells)} |"


def _command(name: str, run: Run, store: str, first: int, count: int) -> str:
    chosen = f" --store {store}" if len(run.stores) > 1 else ""
    return f'make soak ARGS="{name}{chosen} --first {first} --count {count}"'


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain") else "")


if __name__ == "__main__":
    sys.exit(main())
