"""Metrics: Nomad's JSON, or Prometheus' text with `format=prometheus`."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY, text_response
from orchgit.api.metric_collection import collected
from orchgit.api.request_metrics import BUCKETS_S, RequestMetrics, RequestTiming
from orchgit.api.routing import Endpoint, endpoint
from orchgit.metrics.exposition import (
    NOT_ENABLED,
    PROMETHEUS_TYPE,
    nomad_json,
    prometheus_text,
)
from orchgit.metrics.values import Histogram, Metric

_REQUESTS = "nomad.http.request"


def endpoints(requests: RequestMetrics) -> list[Endpoint]:
    async def metrics(call: ApiCall) -> Response:
        settings = call.api.telemetry
        prometheus = call.query.get("format") == "prometheus"
        if prometheus and not settings.prometheus:
            return text_response(NOT_ENABLED, 415)
        shown = await collected(call.api)
        shows_requests = settings.filter.shows(_REQUESTS)
        if prometheus:
            shown += _request_histograms(requests) if shows_requests else []
            text = await asyncio.to_thread(prometheus_text, shown)
            return Response(text, headers=dict(VARY), media_type=PROMETHEUS_TYPE)
        timings = (
            [_sample(*key, timing) for key, timing in sorted(requests.timings.items())]
            if shows_requests
            else []
        )
        counts = [{**each, "Name": f"{_REQUESTS}.count"} for each in timings]
        return await asyncio.to_thread(lambda: call.answer(nomad_json(shown, timings, counts)))

    return [endpoint("/v1/metrics", get=metrics)]


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


def _request_histograms(requests: RequestMetrics) -> list[Metric]:
    return [
        Histogram(
            "nomad.http.request.seconds",
            BUCKETS_S,
            list(timing.buckets),
            timing.total_s,
            {"method": method, "path": path},
        )
        for (method, path), timing in sorted(requests.timings.items())
    ]
