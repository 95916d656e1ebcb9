"""Metrics: Nomad's JSON, or Prometheus' text with `format=prometheus`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.cluster_gauges import cluster_gauges, process_gauges
from orchgit.api.context import Counter, Gauge
from orchgit.api.errors import VARY
from orchgit.api.request_metrics import BUCKETS_S, RequestMetrics, RequestTiming
from orchgit.api.routing import Endpoint, endpoint

_REQUESTS = "nomad.http.request"


def endpoints(requests: RequestMetrics) -> list[Endpoint]:
    async def metrics(call: ApiCall) -> Response:
        with call.context.snapshot() as snapshot:
            found = [*cluster_gauges(snapshot), *process_gauges(), *call.api.scrape()]
        gauges = [each for each in found if isinstance(each, Gauge)]
        counters = [each for each in found if isinstance(each, Counter)]
        if call.query.get("format") == "prometheus":
            return _prometheus(gauges, counters, requests)
        return call.answer(_json(gauges, counters, requests))

    return [endpoint("/v1/metrics", get=metrics)]


def _json(gauges: list[Gauge], counters: list[Counter], requests: RequestMetrics) -> dict[str, Any]:
    timings = [_sample(*key, timing) for key, timing in sorted(requests.timings.items())]
    return {
        "Timestamp": time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime()),
        "Gauges": [
            {"Name": each.name, "Value": each.value, "Labels": dict(each.labels)} for each in gauges
        ],
        "Points": [],
        "Counters": [
            *(_counter(each) for each in counters),
            *({**each, "Name": f"{_REQUESTS}.count"} for each in timings),
        ],
        "Samples": timings,
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


def _prometheus(gauges: list[Gauge], counters: list[Counter], requests: RequestMetrics) -> Response:
    # Imported here: only those who scrape in this format pay for the library.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(gauges, counters, requests))
    return Response(
        generate_latest(registry),
        headers=dict(VARY),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )


class _Collector:
    """One scrape's values in the library's form."""

    def __init__(
        self, gauges: list[Gauge], counters: list[Counter], requests: RequestMetrics
    ) -> None:
        self._gauges = gauges
        self._counters = counters
        self._requests = requests

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        families: dict[str, Any] = {}
        for each in self._gauges:
            name = each.name.replace(".", "_")
            labels = sorted(each.labels)
            family = families.setdefault(name, GaugeMetricFamily(name, name, labels=labels))
            family.add_metric([each.labels[label] for label in labels], each.value)
        yield from families.values()
        for counter in self._counters:
            name = counter.name.replace(".", "_")
            yield CounterMetricFamily(name, name, value=counter.value)
        histogram = HistogramMetricFamily(
            "nomad_http_request_seconds", "HTTP requests", labels=["method", "path"]
        )
        for (method, path), timing in sorted(self._requests.timings.items()):
            histogram.add_metric([method, path], _cumulative(timing), timing.total_s)
        yield histogram


def _cumulative(timing: RequestTiming) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS_S), "+Inf"]
    total, rows = 0, []
    for bound, count in zip(bounds, timing.buckets, strict=True):
        total += count
        rows.append((bound, float(total)))
    return rows
