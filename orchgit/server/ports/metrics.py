"""Figures of this server for `/v1/metrics`, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from orchgit.control.evaluations.broker import EvalTimes
from orchgit.control.leader import Control
from orchgit.gitops.gitops import Gitops
from orchgit.metrics.durations import BOUNDS_S
from orchgit.metrics.values import Counter, Gauge, Histogram, Metric
from orchgit.replication.replicated import ReplicatedState


def server_metrics(
    state: ReplicatedState,
    control: Control,
    gitops: Gitops,
    forwarded_in_flight: int,
    refused_connections: int,
) -> Iterator[Metric]:
    if stats := control.broker_stats():
        yield Gauge("nomad.nomad.broker.total_ready", stats["ready"])
        yield Gauge("nomad.nomad.broker.total_unacked", stats["unacked"])
        yield Gauge("nomad.nomad.broker.total_pending", stats["pending"])
        yield Gauge("nomad.nomad.broker.total_waiting", stats["waiting"])
        yield Gauge("nomad.nomad.broker.total_cancelable", stats["cancelable"])
        yield Gauge("nomad.nomad.broker._failed_ready", stats["failed"])
        yield Gauge("nomad.nomad.blocked_evals.total_blocked", stats["blocked"])
        yield Gauge("nomad.nomad.blocked_evals.total_escaped", stats["blocked_escaped"])
        yield Gauge("nomad.nomad.blocked_evals.total_quota_limit", stats["blocked_by_quota"])
        yield Gauge("nomad.nomad.plan.queue_depth", stats["plans_waiting"])
        yield Gauge("nomad.nomad.heartbeat.active", stats["heartbeats"])
    if (counts := control.leader_counts()) is not None:
        for queue, (ready, unacked) in sorted(counts.queues.items()):
            yield Gauge(f"nomad.nomad.broker.{queue}_ready", ready)
            yield Gauge(f"nomad.nomad.broker.{queue}_unacked", unacked)
        yield Counter("nomad.nomad.heartbeat.invalidate", counts.missed_heartbeats, plain=True)
        yield Counter("nomad.nomad.plan.node_rejected", counts.plans.rejected_nodes, plain=True)
        for queue, times in sorted(counts.times.items()):
            yield from _evaluation_times(queue, times)
        checks, commits = counts.plans.evaluate, counts.plans.commit
        queued, submits = counts.plans.queued, counts.plans.submit
        yield Histogram("orchgit.plan.queue_seconds", BOUNDS_S, list(queued.counts), queued.total_s)
        yield Histogram(
            "nomad.nomad.plan.submit.seconds", BOUNDS_S, list(submits.counts), submits.total_s
        )
        yield Histogram(
            "nomad.nomad.plan.evaluate.seconds", BOUNDS_S, list(checks.counts), checks.total_s
        )
        yield Histogram(
            "nomad.nomad.plan.apply.seconds", BOUNDS_S, list(commits.counts), commits.total_s
        )
    yield Gauge("nomad.rpc.forwarded_in_flight", float(forwarded_in_flight))
    yield Counter("nomad.http.exceeded", refused_connections, plain=True)
    yield Gauge("orchgit.gitops.mirrors.lacking", float(gitops.synchronizer.lacking_objects))
    mirrors = gitops.exchange.counts
    for one in fields(mirrors):
        yield Gauge(f"orchgit.gitops.mirrors.{one.name}", float(getattr(mirrors, one.name)))
    cluster = state.cluster
    yield Gauge("nomad.raft.is_leader", float(cluster.is_leader))
    yield Gauge("nomad.raft.last_index", float(cluster.last_log_index))
    yield Gauge("nomad.raft.term", float(cluster.term))
    yield Gauge("nomad.raft.peers", float(len(cluster.members)))
    contact_s = cluster.last_contact_s
    if contact_s is not None:
        yield Gauge("nomad.raft.last_contact_seconds", contact_s)
    yield Gauge("orchgit.disk.full", float(not state.space.suffices_all))
    yield Counter("nomad.raft.log_syncs", state.log_syncs)
    yield Counter("nomad.raft.log_synced_bytes", state.log_synced_bytes)


def _evaluation_times(queue: str, times: EvalTimes) -> Iterator[Metric]:
    labels = {"type": queue}
    for name, one in (
        ("wait_time", times.wait),
        ("process_time", times.process),
        ("response_time", times.response),
    ):
        yield Histogram(
            f"nomad.nomad.broker.{name}.seconds", BOUNDS_S, list(one.counts), one.total_s, labels
        )
