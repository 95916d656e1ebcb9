"""Sending traces: errors have reasons, a slow collector holds nothing up, wrong settings fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from orchgit.clock import SystemClock
from orchgit.errors import InvalidInputError
from orchgit.gitops.rollouts.trace import RolloutTrace, TraceSpan
from orchgit.ids import RandomIds
from orchgit.model.rollout import Rollout, RolloutJob, RolloutStatus
from orchgit.server.tracing import MAX_WAITING, RolloutTracing, TraceSettings
from orchgit.services.context import UseCaseContext
from tests.support.polling import until
from tests.support.state import running_state

ROLLOUT = Rollout(
    id="11111111-2222-4333-8444-555555555555",
    source="demo",
    status=RolloutStatus.FAILED,
    status_description="job web: no place",
    create_time_ns=5 * 10**9,
    applied_time_ns=6 * 10**9,
    finished_time_ns=9 * 10**9,
    jobs=[RolloutJob(job_id="web", status="failed", description="no place")],
)


def test_failed_rollout_is_an_error_with_its_reason(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    asyncio.run(_send(exporter, tmp_path))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"rollout demo", "plan and gates", "job web"}
    root, job = spans["rollout demo"], spans["job web"]
    assert (root.start_time, root.end_time) == (5 * 10**9, 9 * 10**9)
    assert (root.status.status_code, root.status.description) == (
        StatusCode.ERROR,
        "job web: no place",
    )
    assert (job.status.status_code, job.status.description) == (StatusCode.ERROR, "no place")
    assert root.context is not None
    assert job.parent is not None
    assert job.parent.span_id == root.context.span_id
    assert root.context.trace_id == 0x11111111222243338444555555555555


async def _send(exporter: InMemorySpanExporter, directory: Path) -> None:
    async with running_state(directory) as state:
        context = UseCaseContext(state, SystemClock(), RandomIds())
        tracing = RolloutTracing(context, exporter, "server-1")
        for _ in range(MAX_WAITING + 5):
            tracing.ended(ROLLOUT)
        sending = asyncio.create_task(tracing.run())
        await until(lambda: len(exporter.get_finished_spans()) == 3 * MAX_WAITING or None)
        sending.cancel()


def test_span_ids_follow_from_their_keys() -> None:
    one = TraceSpan("a", "", "n", 1, 2)
    assert one.id == TraceSpan("a", "", "other", 3, 4).id
    assert one.id != TraceSpan("b", "", "n", 1, 2).id
    assert RolloutTrace(1, (one,)).spans[0].id == one.id


def test_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"telemetry\.otlp_endpoint.*http://"):
        TraceSettings("127.0.0.1:4318")
