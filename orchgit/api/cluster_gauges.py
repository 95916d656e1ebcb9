"""Gauges read from the state: jobs, allocations and nodes by status, and the index."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator

from orchgit.metrics.settings import TelemetrySettings
from orchgit.metrics.values import Gauge
from orchgit.model.job import JobStatus
from orchgit.state.quota_usage import namespaces_of_quota, quota_usage
from orchgit.state.snapshot import Snapshot


def cluster_gauges(snapshot: Snapshot, settings: TelemetrySettings) -> Iterator[Gauge]:
    """Yields the cluster's figures; without `dispatched_summaries`, children of other jobs are only
    in the sums."""
    yield Gauge("nomad.raft.applied_index", snapshot.index)
    statuses = snapshot.jobs.count_by_status()
    for each in JobStatus:
        yield Gauge(f"nomad.nomad.job_status.{each.value}", statuses.get(each.value, 0))
    for node_status, count in snapshot.nodes.count_by_status().items():
        yield Gauge("nomad.nomad.node_status", count, {"status": node_status})
    sums: Counter[str] = Counter()
    for row in snapshot.job_summaries.all():
        sums.update(row.counts)
        if row.parent_id and not settings.dispatched_summaries:
            continue
        labels = {"namespace": row.namespace, "job": row.job_id, "task_group": row.task_group}
        if row.parent_id:
            labels["parent_id"] = row.parent_id
        for name, count in row.counts.items():
            yield Gauge(f"nomad.nomad.job_summary.{name}", count, labels)
    for name, count in sorted(sums.items()):
        yield Gauge("orchgit.allocations", count, {"client_status": name})
    active = len(snapshot.deployments.active_ids())
    yield Gauge("nomad.nomad.deployments.active", active)
    drifted = snapshot.drifted_jobs.counts()
    for source in snapshot.sources.all():
        labels = {"source": source.name}
        yield Gauge("orchgit.gitops.drifted_jobs", drifted.get(source.name, 0), labels)
    if settings.quotas:
        yield from quota_gauges(snapshot)
    rollouts: Counter[str] = Counter()
    for (_, status), count in snapshot.rollouts.counts().items():
        rollouts[status] += count
    for status, count in sorted(rollouts.items()):
        yield Gauge("orchgit.gitops.rollouts", count, {"status": status})


def quota_gauges(snapshot: Snapshot) -> Iterator[Gauge]:
    """Yields what the namespaces of each quota take, and what they may."""
    for quota in snapshot.quotas.all():
        used = quota_usage(snapshot, namespaces_of_quota(snapshot, quota.name)).by_name()
        for name, amount in used.items():
            yield Gauge("orchgit.quota.used", amount, {"quota": quota.name, "resource": name})
        for limit in quota.limits:
            for name, amount in limit.region_limit.by_name().items():
                if amount:  # 0 is no limit
                    labels = {"quota": quota.name, "resource": name}
                    yield Gauge("orchgit.quota.limit", max(amount, 0), labels)


def process_gauges() -> Iterator[Gauge]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield Gauge("nomad.runtime.cpu_seconds", usage.ru_utime + usage.ru_stime)
    scale = 1 if sys.platform == "darwin" else 1024
    yield Gauge("nomad.runtime.max_rss_bytes", usage.ru_maxrss * scale)
