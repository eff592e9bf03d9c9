"""The numbers of a process for Prometheus. No label names a tenant, a person or anything else by its id.

It is imported by the first request for metrics: the library of Prometheus loads an HTTP server of its own, about a
megabyte that most processes never need. What is counted is in `counters.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from betimes.core.instants import SECOND, Instant
from betimes.engine.alarm_lag import LAG_BOUNDS, AlarmLagCounters
from betimes.engine.clock_report import ClockReport
from betimes.engine.store import Backlog
from betimes.http.counters import BATCH_BOUNDS, BOUNDS_S, CommitCounters, RequestCounters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def write_metrics(
    requests: RequestCounters,
    tally: CommitCounters,
    backlog: Backlog,
    now: Instant,
    *,
    queue_count: int,
    stream_count: int,
    clock: ClockReport | None = None,
    alarm_lag: AlarmLagCounters | None = None,
) -> bytes:
    """Return everything there is to say now, as Prometheus reads it."""
    found = [*_request_metrics(requests), *_commit_metrics(tally), *_owed(backlog, now), *_clock(clock)]
    found += [_rung(alarm_lag)] if alarm_lag else []
    found.append(_gauge("betimes_queue_commands", "Commands that wait in this process", queue_count))
    found.append(_gauge("betimes_live_streams", "Open event streams in this process", stream_count))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(found))
    return generate_latest(registry)


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def _request_metrics(requests: RequestCounters) -> Iterator[Metric]:
    times = HistogramMetricFamily(
        "betimes_request_seconds",
        "Time from a request's arrival to its answer",
        labels=("method", "route", "status"),
    )
    for (method, route, status), counter in requests.answered.items():
        buckets = [*zip((*map(str, BOUNDS_S), "+Inf"), counter.cumulative_counts, strict=True)]
        times.add_metric((method, route, str(status)), buckets, counter.total_s)
    yield times
    says = "Requests refused by a tenant's rate limit"
    yield _counter("betimes_rate_limited", says, ("what",), requests.refused)


def _commit_metrics(tally: CommitCounters) -> Iterator[Metric]:
    says = "Verdicts that were committed by this process"
    yield _counter("betimes_verdicts", says, ("kind", "outcome", "reason"), tally.verdicts())
    yield _batches(tally)
    says = "Claims that expired without a report"
    yield _counter("betimes_claims_expired", says, ("kind",), tally.claims_expired)
    says = "Problems in background work, as logged"
    yield _counter("betimes_reports", says, ("what",), tally.reports)


def _clock(report: ClockReport | None) -> Iterator[Metric]:
    if report is None:
        return
    yield _gauge("betimes_clock_held_seconds", "How far the clock is ahead and not trusted yet", report.held / SECOND)
    yield _gauge(
        "betimes_clock_behind_seconds",
        "How far the database's latest segment is ahead of the clock",
        report.ahead / SECOND,
    )
    yield _counter(
        "betimes_clock_steps", "Steps of the clock, ahead or back, that this process saw", (), {(): report.steps}
    )


def _batches(tally: CommitCounters) -> Metric:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BATCH_BOUNDS), "+Inf"), tally.batches, strict=True):
        total += count
        buckets.append((bound if bound == "+Inf" else f"{bound}.0", total))
    return HistogramMetricFamily(
        "betimes_batch_segments", "Segments written by one commit", buckets=buckets, sum_value=tally.segments
    )


def _rung(lag: AlarmLagCounters) -> Metric:
    bounds = (*(str(bound / SECOND) for bound in LAG_BOUNDS), "+Inf")
    return HistogramMetricFamily(
        "betimes_alarm_rang_late_seconds",
        "How late this process rang alarms",
        buckets=[*zip(bounds, accumulate(lag.counts), strict=True)],
        sum_value=lag.total_lag / SECOND,
    )


def _owed(backlog: Backlog, now: Instant) -> Iterator[Metric]:
    oldest = backlog.oldest_alarm_at
    lag_s = 0.0 if oldest is None else max(0.0, (now - oldest) / SECOND)
    yield _gauge("betimes_alarm_lag_seconds", "How late the oldest alarm that is due is", lag_s)
    yield _gauge(
        "betimes_oldest_alarm_timestamp_seconds",
        "Since when the oldest alarm is due; 0 when none is",
        0 if oldest is None else oldest / SECOND,
    )
    yield _gauge("betimes_alarms_due", "Streams whose alarm is due and has not been rung", backlog.alarms_due)
    yield _gauge("betimes_wakes_snoozed", "Streams that are snoozed because their wake failed", backlog.snoozed)
    yield _gauge("betimes_effects_pending", "Effects that have not ended", backlog.effects_pending)
    yield _gauge("betimes_effects_dead", "Dead letters", backlog.effects_dead)
    orphaned = GaugeMetricFamily(
        "betimes_effects_orphaned", "Effects that no process claimed for a minute", labels=("executor",)
    )
    for executor, count in sorted(backlog.orphaned.items()):
        orphaned.add_metric((executor,), count)
    yield orphaned


def _counter(name: str, says: str, labels: tuple[str, ...], counts: Mapping[Any, int]) -> Metric:
    """Return a counter with a count for each value of its label, or for each combination of its labels."""
    counter = CounterMetricFamily(name, says, labels=labels)
    for values, count in sorted(counts.items()):
        counter.add_metric((values,) if isinstance(values, str) else values, count)
    return counter


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)
