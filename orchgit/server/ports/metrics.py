"""Figures of this server for `/v1/metrics`, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from orchgit.api.metric_values import Counter, Gauge
from orchgit.control.leader import Control
from orchgit.gitops.gitops import Gitops
from orchgit.replication.replicated import ReplicatedState


def server_metrics(
    state: ReplicatedState, control: Control, gitops: Gitops, forwarded_in_flight: int
) -> Iterator[Gauge | Counter]:
    for name, value in control.broker_stats().items():
        yield Gauge(f"nomad.nomad.broker.{name}", value)
    yield Gauge("nomad.rpc.forwarded_in_flight", float(forwarded_in_flight))
    yield Gauge("orchgit.gitops.mirrors.lacking", float(gitops.synchronizer.lacking_objects))
    counts = gitops.exchange.counts
    for one in fields(counts):
        yield Gauge(f"orchgit.gitops.mirrors.{one.name}", float(getattr(counts, one.name)))
    yield Gauge("nomad.raft.is_leader", float(state.cluster.is_leader))
    yield Gauge("orchgit.disk.full", float(not state.space.suffices_all))
    yield Counter("nomad.raft.log_syncs", state.log_syncs)
    yield Counter("nomad.raft.log_synced_bytes", state.log_synced_bytes)
