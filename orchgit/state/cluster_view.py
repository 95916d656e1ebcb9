"""A snapshot and its node columns in the shape of the scheduler's port."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, cast

from orchgit.model.allocation import Allocation
from orchgit.model.csi import WRITE
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations
from orchgit.model.node import Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.quota import QuotaRoom
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.state.cache import Cache
from orchgit.state.columns import ClusterColumns
from orchgit.state.in_flight import InFlightPlacements
from orchgit.state.job_allocations import job_allocations
from orchgit.state.quota_usage import namespaces_of_quota, quota_of_namespace, quota_usage
from orchgit.state.snapshot import Snapshot


class SnapshotClusterView:
    """Implements `orchgit.scheduler.ports.ClusterView`.

    `columns` must have been refreshed to `snapshot`, and what is `expected` put on them.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        columns: ClusterColumns,
        in_flight: InFlightPlacements | None = None,
    ) -> None:
        self._snapshot = snapshot
        self.columns = columns
        self._in_flight = in_flight
        self._volumes: Cache[str, HostVolume | None] = Cache()
        self._job_versions: Cache[tuple[str, str, int], Job | None] = Cache()

    @property
    def index(self) -> int:
        return self._snapshot.index

    def job(self, namespace: str, job_id: str) -> Job | None:
        return self._snapshot.jobs.get(namespace, job_id)

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        key = (namespace, job_id, version)
        return self._job_versions.load(key, lambda: self._snapshot.job_versions.get(*key))

    def allocations_by_job(self, namespace: str, job_id: str) -> list[Allocation]:
        return self._snapshot.allocations.of_job(namespace, job_id)

    def namesakes(self, namespace: str, job_id: str) -> list[tuple[str, str]]:
        if not self.columns.settings_cache.has_other_namespaces(self._snapshot):
            return []
        return self._snapshot.allocations.namesakes_of_job(namespace, job_id)

    def job_allocations(self, job: Job) -> JobAllocations:
        return job_allocations(self._snapshot, job, self._untainted_nodes())

    def _untainted_nodes(self) -> Set[str]:
        memo = self.columns.memo
        if "untainted" not in memo:
            memo["untainted"] = {
                n.id for n in self.columns.nodes if n is not None and n.is_untainted
            }
        return cast(Set[str], memo["untainted"])

    def allocation(self, alloc_id: str) -> Allocation | None:
        return self._snapshot.allocations.get(alloc_id)

    def allocations_on_node(self, node_id: str) -> list[Allocation]:
        held = self._snapshot.allocations.occupying_node(node_id)
        return [*held, *self._in_flight.of_node(node_id)] if self._in_flight else held

    def node(self, node_id: str) -> Node | None:
        row = self.columns.rows.get(node_id)
        return self.columns.nodes[row] if row is not None else None

    def node_pool(self, name: str) -> NodePool | None:
        return self.columns.settings_cache.node_pool(self._snapshot, name)

    def latest_deployment(self, namespace: str, job_id: str) -> Deployment | None:
        return self._snapshot.deployments.latest_of_job(namespace, job_id)

    def deployments(self, namespace: str, job_id: str) -> list[Deployment]:
        return self._snapshot.deployments.of_job(namespace, job_id)

    def host_volume(self, volume_id: str) -> HostVolume | None:
        return self._volumes.load(volume_id, lambda: self._snapshot.host_volumes.get(volume_id))

    def volume_claims(self, namespace: str, job_id: str) -> list[TaskGroupVolumeClaim]:
        return self._snapshot.volume_claims.all(namespace, job_id)

    def csi_volume(self, namespace: str, volume_id: str) -> Mapping[str, Any] | None:
        volume = self._snapshot.csi_volumes.get(namespace, volume_id)
        if volume is None:
            return None
        capabilities = volume.requested_capabilities or ()
        return {
            "ID": volume.id,
            "PluginID": volume.plugin_id,
            "Schedulable": True,
            "AccessMode": volume.access_mode,
            "RequestedCapabilities": [{"AccessMode": each.access_mode} for each in capabilities],
            "Topologies": [{"Segments": each.segments} for each in volume.topologies or ()],
            "WriteAllocs": {each.alloc_id: None for each in volume.claims if each.mode == WRITE},
        }

    def quota(self, namespace: str) -> QuotaRoom | None:
        quota = quota_of_namespace(self._snapshot, namespace)
        if quota is None:
            return None
        used = quota_usage(self._snapshot, namespaces_of_quota(self._snapshot, quota.name))
        by_name = used.by_name()
        return QuotaRoom(
            quota.name,
            {name: limit - by_name[name] for name, limit in quota.allowed().items()},
        )

    def scheduler_config(self) -> SchedulerConfig:
        return self.columns.settings_cache.scheduler_config(self._snapshot)
