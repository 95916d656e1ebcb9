"""Gauges read from the state: jobs, allocations and nodes by status, and the index."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator

from orchgit.api.metric_values import Gauge
from orchgit.state.snapshot import Snapshot


def cluster_gauges(snapshot: Snapshot) -> Iterator[Gauge]:
    yield Gauge("nomad.raft.applied_index", snapshot.index)
    yield from _counted("nomad.nomad.job_status", (job.status for job in snapshot.jobs.all()))
    yield from _counted("nomad.nomad.node_status", (node.status for node in snapshot.nodes.all()))
    yield from _counted(
        "nomad.nomad.job_summary.allocations", _allocation_counts(snapshot), key="client_status"
    )
    active = len(snapshot.deployments.active())
    yield Gauge("nomad.nomad.deployments.active", active)
    drifted = snapshot.drifted_jobs.counts()
    for source in snapshot.sources.all():
        labels = {"source": source.name}
        yield Gauge("orchgit.gitops.drifted_jobs", drifted.get(source.name, 0), labels)
    rollouts: Counter[str] = Counter()
    for (_, status), count in snapshot.rollouts.counts().items():
        rollouts[status] += count
    for status, count in sorted(rollouts.items()):
        yield Gauge("orchgit.gitops.rollouts", count, {"status": status})


def process_gauges() -> Iterator[Gauge]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield Gauge("nomad.runtime.cpu_seconds", usage.ru_utime + usage.ru_stime)
    scale = 1 if sys.platform == "darwin" else 1024
    yield Gauge("nomad.runtime.max_rss_bytes", usage.ru_maxrss * scale)


def _allocation_counts(snapshot: Snapshot) -> Iterator[str]:
    for job in snapshot.jobs.all():
        summary = snapshot.job_summaries.get(job.namespace, job.id)
        for group in summary.summary.values() if summary else ():
            for name in ("queued", "complete", "failed", "running", "starting", "lost", "unknown"):
                yield from [name] * getattr(group, name)


def _counted(name: str, values: Iterator[str], key: str = "status") -> Iterator[Gauge]:
    for value, count in sorted(Counter(values).items()):
        yield Gauge(name, count, {key: value})
