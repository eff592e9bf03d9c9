"""Run seeds from the command line: `python -m betimes.testing.simulator --seed 1234 --verbose`."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from betimes.testing.simulator.bugs import BUGS, planted
from betimes.testing.simulator.runner import simulate


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m betimes.testing.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--seeds", default="0..100", metavar="A..B", help="every seed from A up to, not including, B")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug first")
    parser.add_argument("--verbose", action="store_true", help="print everything that happened")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last)) if options.seed is None else [options.seed]
    unsound = 0
    for seed in seeds:
        with planted(options.bug) if options.bug else nullcontext():
            outcome = simulate(seed, verbose=options.verbose, bug=options.bug)
        unsound += not outcome.is_sound
        if options.verbose:
            print(*outcome.trace, sep="\n")
        if not outcome.is_sound or options.seed is not None:
            print(outcome)
    print(f"{len(seeds)} seeds, {unsound} unsound")
    return 1 if unsound else 0


if __name__ == "__main__":
    raise SystemExit(main())
