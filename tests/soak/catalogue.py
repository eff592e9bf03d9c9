"""The table of runs."""

from __future__ import annotations

import os

from tests.soak.alternatives import find_alternatives
from tests.soak.automation import send_storm, suspend_controllers
from tests.soak.caps import overshoot_caps
from tests.soak.counts import kill_counters
from tests.soak.failures import crash_servers, fill_disks, kill_processes, step_clocks, stop_processes
from tests.soak.requests import compare_tenants, send_extremes, try_writes
from tests.soak.rounds import Run
from tests.soak.seeds import simulate_domains, simulate_kernel
from tests.soak.urls import call_hostile_urls

CORES = os.cpu_count() or 1
CHUNK = 50

RUNS = {
    "seeds": Run(
        units="seeds",
        says="the simulator, with the kernel's gates",
        play=simulate_kernel,
        size=CHUNK,
        record=50_000,
        seeds_each=CHUNK,
        stores=("simulated",),
        at_once=CORES,
    ),
    "domains": Run(
        units="seeds",
        says="the simulator, with each domain in turn",
        play=simulate_domains,
        size=CHUNK,
        record=10_000,
        seeds_each=CHUNK,
        stores=("simulated",),
        at_once=CORES,
    ),
    "kills": Run(units="kills", says="processes killed with SIGKILL", play=kill_processes, size=50, record=5_000),
    "stops": Run(units="stops", says="processes stopped and continued", play=stop_processes, size=100, record=1_000),
    "crashes": Run(
        units="crashes",
        says="a PostgreSQL server killed and restarted",
        play=crash_servers,
        size=10,
        record=200,
        stores=("postgres",),
    ),
    "disk": Run(
        units="times full", says="a disk filled and freed", play=fill_disks, size=20, record=200, stores=("sqlite",)
    ),
    "clock": Run(units="steps", says="wall clocks stepped forward and back", play=step_clocks, size=50, record=1_000),
    "counts": Run(
        units="kills",
        says="processes killed that count outcomes",
        play=kill_counters,
        size=50,
        record=2_000,
    ),
    "caps": Run(units="trials", says="eight processes at one limit", play=overshoot_caps, size=20, record=1_000),
    "isolation": Run(
        units="operations",
        says="a tenant's requests among another's",
        play=compare_tenants,
        size=300,
        record=10_000,
        at_once=2 * CORES,  # a round mostly waits for its commits
        hangs_s=7_200,
    ),
    "alternatives": Run(
        units="verdicts",
        says="verdicts of a town decided again, and every alternative applied",
        play=find_alternatives,
        size=10_000,
        record=10_000,
        stores=("sqlite",),
        hangs_s=7_200,
    ),
    "dryruns": Run(
        units="writes", says="dry runs, each against the write it is of", play=try_writes, size=500, record=10_000
    ),
    "fuzz": Run(
        units="requests",
        says="extreme values to every route, then every list",
        play=send_extremes,
        size=5_000,
        record=100_000,
        hangs_s=7_200,
    ),
    "urls": Run(
        units="URLs",
        says="hostile URLs of webhooks",
        play=call_hostile_urls,
        size=2_000,
        record=50_000,
        stores=("none",),
    ),
    "storm": Run(
        units="messages", says="messages at one sensor", play=send_storm, size=1_000_000, record=100_000, hangs_s=7_200
    ),
    "suspended": Run(
        units="suspensions", says="a controller suspended for a minute", play=suspend_controllers, size=1, record=1
    ),
}
