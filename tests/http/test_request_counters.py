"""Requests in plain numbers, and the same numbers for Prometheus."""

from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from betimes.engine.store import Backlog
from betimes.http.counters import BOUNDS_S, CommitCounters, RequestCounters
from betimes.http.metrics import write_metrics
from tests.patience import HANGS_S


def test_a_request_is_counted_up_to_its_bound_and_with_the_others_of_its_route() -> None:
    requests = RequestCounters()
    for status, took_s in ((200, 0.001), (200, 0.004), (404, 31.0)):
        requests.observe_request("GET", "/v1/runs", status, took_s)
    [counts] = requests.request_times().values()
    assert counts == [1, 1, *[2] * (len(BOUNDS_S) - 2), 3], "at a bound is within it, and the last counts all"


def test_prometheus_reads_the_same_numbers() -> None:
    requests = RequestCounters()
    requests.observe_request("GET", "/v1/runs", 200, 0.004)
    requests.count_refusal("requests")
    text = write_metrics(requests, CommitCounters(), Backlog(0, None, 0, 0, 0, {}), 0, queue_count=0, stream_count=0)
    found = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
    assert found["betimes_request_seconds_bucket", "0.0025"] == 0
    assert found["betimes_request_seconds_bucket", "0.005"] == found["betimes_request_seconds_bucket", "+Inf"] == 1
    assert (found["betimes_request_seconds_sum", ""], found["betimes_rate_limited_total", ""]) == (0.004, 1)


def test_a_server_does_not_load_the_library_of_prometheus() -> None:
    program = "import sys, betimes.app.routes, betimes.http.server; print('prometheus_client' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=True)
    assert done.stdout == "False\n"
