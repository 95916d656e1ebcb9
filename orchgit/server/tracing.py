"""Sends traces of rollouts to an OpenTelemetry collector, where the configuration names one.

The libraries are those of the extra `otel`; nothing of them is imported unless traces are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from orchgit import __version__
from orchgit.errors import InvalidInputError
from orchgit.gitops.rollouts.trace import RolloutTrace, TraceSpan, span_id, trace_of
from orchgit.model.rollout import Rollout
from orchgit.services.context import UseCaseContext

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_log = structlog.get_logger(component="tracing")

MAX_WAITING = 100
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Where traces go; `endpoint` is the URL of OTLP over HTTP, as http://127.0.0.1:4318."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise InvalidInputError(
                f'cannot use telemetry.otlp_endpoint: "{self.endpoint}" does not begin with '
                "http:// or https://"
            )


def otlp_exporter(settings: TraceSettings) -> SpanExporter:
    """Raises InvalidInputError where the libraries are not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise InvalidInputError(
            "cannot send traces: the packages of the extra `otel` are not installed; install "
            "orchgit[otel], or take telemetry.otlp_endpoint out of the configuration"
        ) from None
    return OTLPSpanExporter(
        endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces",
        headers=dict(settings.headers),
        timeout=settings.timeout_s,
    )


class RolloutTracing:
    """Sends the traces of rollouts that end while this server leads, one after the other.

    A collector that does not answer never holds up a rollout: beyond `MAX_WAITING` the oldest
    traces are dropped, with a line in the log.
    """

    def __init__(self, context: UseCaseContext, exporter: SpanExporter, instance: str) -> None:
        self._context = context
        self._exporter = exporter
        self._instance = instance
        self._waiting: list[Rollout] = []
        self._wake = asyncio.Event()

    def ended(self, rollout: Rollout) -> None:
        """Queues the trace of a rollout; never waits."""
        if len(self._waiting) >= MAX_WAITING:
            dropped = self._waiting.pop(0)
            _log.warning("the collector is slow: a trace was dropped", rollout=dropped.id)
        self._waiting.append(rollout)
        self._wake.set()

    async def run(self) -> None:
        """Sends until canceled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await asyncio.to_thread(self._send, self._waiting.pop(0))
        finally:
            await asyncio.to_thread(self._exporter.shutdown)

    def _send(self, rollout: Rollout) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        with self._context.snapshot() as snapshot:
            trace = trace_of(snapshot, rollout)
        try:
            done = self._exporter.export(self.readable(trace))
        except Exception as error:  # noqa: BLE001 - the library's errors are many, none of them ours
            _log.warning("cannot send a trace", rollout=rollout.id, error=str(error))
            return
        if done is not SpanExportResult.SUCCESS:
            _log.warning("the collector took no trace", rollout=rollout.id)

    def readable(self, trace: RolloutTrace) -> Sequence[ReadableSpan]:
        """Returns the spans in the library's form."""
        from opentelemetry.sdk.resources import Resource

        resource = Resource.create(
            {
                "service.name": "orchgit",
                "service.version": __version__,
                "service.instance.id": self._instance,
            }
        )
        return [_readable(trace, span, resource) for span in trace.spans]


def _readable(trace: RolloutTrace, span: TraceSpan, resource: Resource) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    flags = TraceFlags(_SAMPLED)
    parent = SpanContext(trace.id, span_id(span.parent), False, flags) if span.parent else None
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace.id, span.id, False, flags),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )
