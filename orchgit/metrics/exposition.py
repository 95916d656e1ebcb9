"""The two forms of metrics: Nomad's JSON and Prometheus' text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from orchgit.metrics.values import Counter, Gauge, Histogram, Metric

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOT_ENABLED = "Prometheus is not enabled"


def nomad_json(
    metrics: Iterable[Metric],
    samples: Sequence[dict[str, Any]] = (),
    counters: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Returns Nomad's JSON object; `samples` and `counters` are entries in its own form."""
    found = list(metrics)
    return {
        "Timestamp": time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime()),
        "Gauges": [
            {"Name": each.name, "Value": each.value, "Labels": dict(each.labels)}
            for each in found
            if isinstance(each, Gauge)
        ],
        "Points": [],
        "Counters": [
            *(_counter(each) for each in found if isinstance(each, Counter)),
            *counters,
        ],
        "Samples": [
            *samples,
            *(_histogram_sample(each) for each in found if isinstance(each, Histogram)),
        ],
        "PrecisionGauges": [],
    }


def prometheus_text(metrics: Iterable[Metric]) -> bytes:
    """Returns Prometheus' text. Metrics of one name have the same labels, or some lack some."""
    # Imported here: only those who scrape in this form pay for the library.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    return generate_latest(registry)


def _counter(counter: Counter) -> dict[str, Any]:
    """Returns a counter since the start; Nomad's covers the last seconds."""
    return {
        "Name": counter.name,
        "Count": counter.value,
        "Rate": 0,
        "Sum": counter.value,
        "Min": 0,
        "Max": counter.value,
        "Mean": 0,
        "Stddev": 0,
        "Labels": dict(counter.labels),
    }


def _histogram_sample(histogram: Histogram) -> dict[str, Any]:
    """Returns what Nomad's form has room for: neither the buckets nor the extremes."""
    count = sum(histogram.counts)
    return {
        "Name": histogram.name,
        "Count": count,
        "Rate": 0,
        "Sum": histogram.total,
        "Min": 0,
        "Max": 0,
        "Mean": histogram.total / count if count else 0,
        "Stddev": 0,
        "Labels": dict(histogram.labels),
    }


class _Collector:
    """One scrape's values in the library's form."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            UnknownMetricFamily,
        )

        families: dict[tuple[str, tuple[str, ...]], Any] = {}
        for each in self._metrics:
            name = each.name.replace(".", "_").replace("-", "_")
            labels = tuple(sorted(each.labels))
            values = [each.labels[label] for label in labels]
            family = families.get((name, labels))
            if family is None:
                kind = {
                    Gauge: GaugeMetricFamily,
                    Counter: CounterMetricFamily,
                    Histogram: HistogramMetricFamily,
                }[type(each)]
                if isinstance(each, Counter) and each.plain:
                    kind = UnknownMetricFamily
                family = families[name, labels] = kind(name, name, labels=labels)
            if isinstance(each, Histogram):
                family.add_metric(values, cumulative(each.bounds, each.counts), each.total)
            else:
                family.add_metric(values, each.value)
        yield from families.values()


def cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    names = [*(str(bound) for bound in bounds), "+Inf"]
    total, rows = 0, []
    for bound, count in zip(names, counts, strict=True):
        total += count
        rows.append((bound, float(total)))
    return rows
