"""Metrics: Nomad's JSON, or Prometheus' text with `format=prometheus`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.cluster_gauges import cluster_gauges, process_gauges
from orchgit.api.errors import VARY
from orchgit.api.metric_values import Counter, Gauge, Histogram
from orchgit.api.request_metrics import BUCKETS_S, RequestMetrics, RequestTiming
from orchgit.api.routing import Endpoint, endpoint

_REQUESTS = "nomad.http.request"


def endpoints(requests: RequestMetrics) -> list[Endpoint]:
    async def metrics(call: ApiCall) -> Response:
        with call.context.snapshot() as snapshot:
            found: list[Gauge | Counter | Histogram] = [
                *cluster_gauges(snapshot),
                *process_gauges(),
                *call.api.scrape(),
            ]
            if call.api.gitops is not None:
                # In a thread: a source may have many jobs.
                found += await asyncio.to_thread(call.api.gitops.metrics, snapshot)
        scraped = Scraped(
            [each for each in found if isinstance(each, Gauge)],
            [each for each in found if isinstance(each, Counter)],
            [each for each in found if isinstance(each, Histogram)],
            requests,
        )
        if call.query.get("format") == "prometheus":
            return _prometheus(scraped)
        return call.answer(_json(scraped))

    return [endpoint("/v1/metrics", get=metrics)]


@dataclass(frozen=True, slots=True)
class Scraped:
    """What one scrape found."""

    gauges: Sequence[Gauge]
    counters: Sequence[Counter]
    histograms: Sequence[Histogram]
    requests: RequestMetrics


def _json(scraped: Scraped) -> dict[str, Any]:
    timings = [_sample(*key, timing) for key, timing in sorted(scraped.requests.timings.items())]
    return {
        "Timestamp": time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime()),
        "Gauges": [
            {"Name": each.name, "Value": each.value, "Labels": dict(each.labels)}
            for each in scraped.gauges
        ],
        "Points": [],
        "Counters": [
            *(_counter(each) for each in scraped.counters),
            *({**each, "Name": f"{_REQUESTS}.count"} for each in timings),
        ],
        "Samples": [*timings, *(_histogram_sample(each) for each in scraped.histograms)],
        "PrecisionGauges": [],
    }


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
        "Labels": {},
    }


def _sample(method: str, path: str, timing: RequestTiming) -> dict[str, Any]:
    return {
        "Name": _REQUESTS,
        "Count": timing.count,
        "Rate": timing.total_s,
        "Sum": timing.total_s * 1000,
        "Min": timing.min_s * 1000,
        "Max": timing.max_s * 1000,
        "Mean": timing.total_s / timing.count * 1000,
        "Stddev": 0,
        "Labels": {"method": method, "path": path},
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


def _prometheus(scraped: Scraped) -> Response:
    # Imported here: only those who scrape in this format pay for the library.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(scraped))
    return Response(
        generate_latest(registry),
        headers=dict(VARY),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )


class _Collector:
    """One scrape's values in the library's form."""

    def __init__(self, scraped: Scraped) -> None:
        self._scraped = scraped

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        families: dict[str, Any] = {}
        for each in self._scraped.gauges:
            name = each.name.replace(".", "_")
            labels = sorted(each.labels)
            family = families.setdefault(name, GaugeMetricFamily(name, name, labels=labels))
            family.add_metric([each.labels[label] for label in labels], each.value)
        for one in self._scraped.histograms:
            name = one.name.replace(".", "_")
            labels = sorted(one.labels)
            family = families.setdefault(name, HistogramMetricFamily(name, name, labels=labels))
            values = [one.labels[label] for label in labels]
            family.add_metric(values, _cumulative(one.bounds, one.counts), one.total)
        yield from families.values()
        for counter in self._scraped.counters:
            name = counter.name.replace(".", "_")
            yield CounterMetricFamily(name, name, value=counter.value)
        histogram = HistogramMetricFamily(
            "nomad_http_request_seconds", "HTTP requests", labels=["method", "path"]
        )
        for (method, path), timing in sorted(self._scraped.requests.timings.items()):
            buckets = _cumulative(BUCKETS_S, timing.buckets)
            histogram.add_metric([method, path], buckets, timing.total_s)
        yield histogram


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    names = [*(str(bound) for bound in bounds), "+Inf"]
    total, rows = 0, []
    for bound, count in zip(names, counts, strict=True):
        total += count
        rows.append((bound, float(total)))
    return rows
