"""The simulator over fresh seeds: the kernel alone, and every domain on it."""

from __future__ import annotations

import traceback

from betimes.testing.simulator.gates import GATES
from betimes.testing.simulator.runner import simulate
from betimes.testing.simulator.workload import Workload
from tests.automation.simulated import AUTOMATION
from tests.intents.simulated import INTENTS
from tests.notifications.simulated import NOTIFYING
from tests.runs.simulated import RUNS
from tests.scores.simulated import SCORES
from tests.soak.rounds import Order, Round

DOMAINS = (RUNS, NOTIFYING, INTENTS, AUTOMATION, SCORES)


def simulate_kernel(order: Order) -> Round:
    return _simulate(order, (GATES,))


def simulate_domains(order: Order) -> Round:
    """Play one seed of each domain in turn."""
    return _simulate(order, DOMAINS)


def _simulate(order: Order, workloads: tuple[Workload, ...]) -> Round:
    result = Round(order.count, [])
    for seed in range(order.seed, order.seed + order.count):
        workload = workloads[seed % len(workloads)]
        try:
            findings: tuple[str, ...] = simulate(seed, workload).findings
        except Exception:  # noqa: BLE001 — that a seed cannot be played is a finding of that seed
            findings = (traceback.format_exc(),)
        if findings:
            result.findings.append(f"seed {seed} of {workload.name}: " + "\n  ".join(findings))
    return result
