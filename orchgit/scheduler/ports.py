"""What the scheduler reads: one consistent view of the cluster, and its nodes in columns.

`orchgit.state.cluster_view` implements these over a snapshot; tests over plain lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations
from orchgit.model.node import Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.quota import QuotaRoom
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class NodeColumns(Protocol):
    """Row i of everything is one node; arrays are read-only and valid as long as the view is.

    Capacity is what is left when the node's reserved resources are taken off. Usage counts the
    allocations that are not client-terminal, whatever the servers want of them.
    """

    @property
    def rows(self) -> Mapping[str, int]:
        """Node id -> row."""
        ...

    @property
    def nodes(self) -> Sequence[Node | None]:
        """None: the row is free (its node was deleted)."""
        ...

    @property
    def ready(self) -> Mask: ...

    @property
    def class_codes(self) -> Numbers:
        """Rows with the same code have the same computed class."""
        ...

    @property
    def cpu_capacity(self) -> Numbers: ...

    @property
    def memory_capacity(self) -> Numbers: ...

    @property
    def disk_capacity(self) -> Numbers: ...

    @property
    def cpu_used(self) -> Numbers: ...

    @property
    def memory_used(self) -> Numbers: ...

    @property
    def disk_used(self) -> Numbers: ...

    @property
    def memo(self) -> dict[Hashable, Any]:
        """Keeps what depends on the nodes alone (masks, codes); emptied when any node changes."""
        ...

    def used_ports(self, row: int) -> Mapping[str, frozenset[int] | set[int]]:
        """Address -> ports that allocations which are not client-terminal hold on the node."""
        ...


class ClusterView(Protocol):
    """One consistent state of the cluster. Whatever it returns must not be changed."""

    @property
    def index(self) -> int: ...

    @property
    def columns(self) -> NodeColumns: ...

    def job(self, namespace: str, job_id: str) -> Job | None: ...

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None: ...

    def allocations_by_job(self, namespace: str, job_id: str) -> Sequence[Allocation]:
        """All of them, terminal ones too."""
        ...

    def job_allocations(self, job: Job) -> JobAllocations:
        """All of them, terminal ones too; steady ones of `job`'s version may be told apart."""
        ...

    def namesakes(self, namespace: str, job_id: str) -> Sequence[tuple[str, str]]:
        """(group, node id) of the allocations, not client-terminal, of jobs of this id in other
        namespaces."""
        ...

    def allocation(self, alloc_id: str) -> Allocation | None: ...

    def allocations_on_node(self, node_id: str) -> Sequence[Allocation]:
        """Those that are not client-terminal."""
        ...

    def node(self, node_id: str) -> Node | None: ...

    def node_pool(self, name: str) -> NodePool | None: ...

    def latest_deployment(self, namespace: str, job_id: str) -> Deployment | None: ...

    def deployments(self, namespace: str, job_id: str) -> Sequence[Deployment]:
        """All deployments of the job that are still known."""
        ...

    def host_volume(self, volume_id: str) -> HostVolume | None: ...

    def volume_claims(self, namespace: str, job_id: str) -> Sequence[TaskGroupVolumeClaim]: ...

    def csi_volume(self, namespace: str, volume_id: str) -> Mapping[str, Any] | None:
        """The volume in the shape of Nomad's API, with `Schedulable` computed."""
        ...

    def quota(self, namespace: str) -> QuotaRoom | None:
        """None: the namespace has no quota."""
        ...

    def scheduler_config(self) -> SchedulerConfig: ...
