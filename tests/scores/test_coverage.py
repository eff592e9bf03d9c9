"""How much of the domain its own scenarios reach."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.crash.fleet import ROOT
from tests.patience import HANGS_S

SCENARIOS = [f"tests/scores/test_{name}.py" for name in ("decay", "policy", "rules", "pauses")]
PERCENT_MIN = 80
PURE = ("amounts", "decay", "decide", "fold", "model", "policy", "reasons", "rules")
"""The files that decide."""


def test_the_scenarios_reach_at_least_80_percent_of_the_domain(tmp_path: Path) -> None:
    """AC-T9.6"""
    data = f"--data-file={tmp_path / 'coverage'}"
    run = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        data,
        "--source=betimes.scores",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=few",
        *SCENARIOS,
    ]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=HANGS_S)
    judged = ",".join(f"src/betimes/scores/{name}.py" for name in PURE)
    report = [sys.executable, "-m", "coverage", "report", data, f"--include={judged}"]
    shown = subprocess.run(report, cwd=ROOT, check=True, capture_output=True, text=True, timeout=HANGS_S).stdout
    print(shown)
    assert int(shown.split()[-1].rstrip("%")) >= PERCENT_MIN
