"""`make soak` at a small scale: every run finds nothing, and would say so if it did."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.crash.fleet import ROOT
from tests.patience import HANGS_S
from tests.postgres import GIVEN, server_dsn

pytestmark = pytest.mark.crash


def run_soak(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since it forks."""
    command, told = [sys.executable, "-W", "ignore", *words], os.environ | environment
    return subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=HANGS_S)


@pytest.mark.parametrize(
    ("store", "runs"),
    [
        ("sqlite", ["kills", "stops", "clock", "disk", "caps", "counts"]),
        pytest.param("postgres", ["kills", "caps", "counts"], marks=pytest.mark.postgres),
    ],
)
def test_runs_find_nothing_and_end_with_their_rows(store: str, runs: list[str]) -> None:
    given = {GIVEN: server_dsn()} if store == "postgres" else {}
    ended = run_soak("-m", "tests.soak", *runs, "--store", store, "--count", "4", **given)
    rows = [line.split(" | ") for line in ended.stdout.splitlines() if "make soak ARGS=" in line]
    assert (ended.returncode, len(rows)) == (0, len(runs)), ended.stdout + ended.stderr
    assert all(row[3] == "0" for row in rows), ended.stdout


FOUND = """
import os, sys
from tests.soak.__main__ import main
from tests.soak.catalogue import RUNS
from tests.soak.rounds import Round, Run
from tests.soak.urls import call_hostile_urls
from betimes.outbound.settings import WebhookSettings

def anything_goes(order):
    return call_hostile_urls(order, WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",)))

def play(order):
    return {1: lambda: Round(1), 2: lambda: 1 // 0, 3: lambda: os._exit(1)}[order.seed]()

RUNS["sample"] = Run(units="samples", says="a sample", play=play, size=1, record=1, stores=("none",))
RUNS["open"] = Run(units="URLs", says="anything goes", play=anything_goes, size=200, record=1, stores=("none",))
sys.argv[1:] = ["sample", "urls", "open", "--count", "200"]
sys.exit(main())
"""


def test_a_round_that_finds_something_raises_or_dies_is_told_with_how_to_run_it_again() -> None:
    ended = run_soak("-c", FOUND)
    assert ended.returncode == 1
    assert 'again: make soak ARGS="sample --first 2 --count 1"\nTraceback' in ended.stdout
    assert "ZeroDivisionError" in ended.stdout
    assert 'again: make soak ARGS="sample --first 3 --count 1"\nthe process of the round died' in ended.stdout
    assert "127.0.0.1 was tried" in ended.stdout
    [row] = [line for line in ended.stdout.splitlines() if line.startswith("| hostile URLs")]
    assert " | 0 | " in row, "the same URLs lead to nothing with the usual settings"
