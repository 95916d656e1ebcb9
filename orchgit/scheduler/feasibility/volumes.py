"""Checks the host and CSI volumes of a group against one node, sticky claims included (invariant
7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim, VolumeRequest
from orchgit.scheduler.placement.fit import SINGLE_WRITER, volume_source
from orchgit.scheduler.ports import ClusterView

HOST_VOLUMES_MISSING = "missing compatible host volumes"
_READER = "single-node-reader-only"
_WRITER = "single-node-writer"
_CSI_WRITERS_OF_ONE = ("single-node-writer", "multi-node-single-writer")
_CSI_MODES_TO_WRITE = (*_CSI_WRITERS_OF_ONE, "multi-node-multi-writer")


def host_requests(group: TaskGroup) -> list[VolumeRequest]:
    return [volume for volume in (group.volumes or {}).values() if volume.type == "host"]


def csi_requests(group: TaskGroup) -> list[VolumeRequest]:
    return [volume for volume in (group.volumes or {}).values() if volume.type == "csi"]


def is_sticky(group: TaskGroup) -> bool:
    return any(request.sticky for request in host_requests(group))


@dataclass(slots=True)
class StickyClaims:
    """The sticky claims of one job as this plan changes them.

    A claim is met while its allocation holds it; it must be honoured by the next placement when
    that allocation has ended or is being replaced.
    """

    claims: list[TaskGroupVolumeClaim]
    held_by: set[str] = field(default_factory=set)
    """Ids of the allocations that keep running."""

    def unmet(self, group: str, volume_name: str) -> list[TaskGroupVolumeClaim]:
        """Returns the open claims on the volume name: those of the group, or if it has none, those
        of other groups."""
        open_claims = [
            claim
            for claim in self.claims
            if claim.volume_name == volume_name and claim.alloc_id not in self.held_by
        ]
        own = [claim for claim in open_claims if claim.task_group_name == group]
        return own or open_claims

    def take(self, claim: TaskGroupVolumeClaim) -> TaskGroupVolumeClaim | None:
        """Records a claim of this plan; returns the claim that it replaces, if there is one."""
        self.held_by.add(claim.alloc_id)
        for position, known in enumerate(self.claims):
            if (known.task_group_name, known.volume_id) == (
                claim.task_group_name,
                claim.volume_id,
            ) and known.alloc_id not in self.held_by:
                self.claims[position] = claim
                return known
        self.claims.append(claim)
        return None


@dataclass(slots=True)
class HostVolumeCheck:
    """Decides whether a node has the host volumes that one group requests. A job uses volumes of
    its own namespace, and those that a node's configuration names."""

    view: ClusterView
    namespace: str
    group: TaskGroup
    claims: StickyClaims
    proposed_on: Callable[[Node], Iterable[Allocation]]
    """The allocations that will be on the node, those of this plan included."""
    requests_of: Callable[[Allocation], Iterable[VolumeRequest]]

    def available(self, node: Node, alloc_name: str) -> bool:
        return all(self._has(node, request, alloc_name) for request in host_requests(self.group))

    def _has(self, node: Node, request: VolumeRequest, alloc_name: str) -> bool:
        offered = node.host_volumes.get(volume_source(request, alloc_name))
        if offered is None:
            return False
        if not offered.id:
            return not request.sticky and (request.read_only or not offered.read_only)
        volume = self.view.host_volume(offered.id)
        if volume is None or volume.namespace != self.namespace:
            return False
        if volume.state != "ready" or not self._usable(node, volume, request):
            return False
        if not request.sticky:
            return True
        unmet = self.claims.unmet(self.group.name, request.source)
        return not unmet or any(claim.volume_id == volume.id for claim in unmet)

    def _usable(self, node: Node, volume: HostVolume, request: VolumeRequest) -> bool:
        access = request.access_mode or (_READER if request.read_only else _WRITER)
        attachment = request.attachment_mode or "file-system"
        offers = [(c.access_mode, c.attachment_mode) for c in volume.requested_capabilities]
        if (access, attachment) not in offers:
            return False
        if access == SINGLE_WRITER:
            return not self._has_writer(node, volume.name)
        return (access == _READER) == request.read_only

    def _has_writer(self, node: Node, volume_name: str) -> bool:
        return any(
            request.type == "host"
            and not request.read_only
            and volume_source(request, allocation.name) == volume_name
            for allocation in self.proposed_on(node)
            for request in self.requests_of(allocation)
        )


@dataclass(slots=True)
class VolumeCheck:
    """Checks both kinds of volumes as a `RowCheck`."""

    nodes: Sequence[Node | None]
    host: HostVolumeCheck | None
    csi: CsiVolumeCheck | None
    frees_others: bool = True

    def refused(self, row: int, alloc_name: str) -> str:
        node = self.nodes[row]
        if node is None:
            return HOST_VOLUMES_MISSING
        if self.host is not None and not self.host.available(node, alloc_name):
            return HOST_VOLUMES_MISSING
        return self.csi.refused(node, alloc_name) if self.csi is not None else ""

    def add(self, row: int, group: str, change: int) -> None:
        """Does nothing: the check reads the volumes in use from the proposed allocations."""


@dataclass(slots=True)
class CsiVolumeCheck:
    """Decides whether a node can use the CSI volumes that one group requests."""

    view: ClusterView
    job: Job
    group: TaskGroup
    proposed_on: Callable[[Node], Iterable[Allocation]]
    requests_of: Callable[[Allocation], Iterable[VolumeRequest]]

    def refused(self, node: Node, alloc_name: str) -> str:
        """Returns why the node cannot use a volume; empty if it can use all."""
        for request in csi_requests(self.group):
            source = volume_source(request, alloc_name)
            volume = self.view.csi_volume(self.job.namespace, source)
            if volume is None:
                return f"missing CSI volume(s) {source}"
            reason = (
                _plugin_problem(node, volume)
                or self._too_many(node, volume)
                or self._claim_problem(volume, request)
            )
            if reason:
                return reason
        return ""

    def _too_many(self, node: Node, volume: Mapping[str, Any]) -> str:
        """Returns a reason if the volume exceeds the plugin's limit on the node; a volume in use
        there counts once."""
        plugin_id = str(volume.get("PluginID", ""))
        plugin: Mapping[str, Any] = (node.csi_node_plugins or {})[plugin_id]
        info: Any = plugin.get("NodeInfo") or {}
        limit = int(info.get("MaxVolumes") or 0)
        if not limit:
            return ""
        held = {
            volume_source(request, allocation.name)
            for allocation in self.proposed_on(node)
            for request in self.requests_of(allocation)
            if request.type == "csi" and self._is_of(allocation, request, plugin_id)
        }
        if len(held | {str(volume.get("ID", ""))}) <= limit:
            return ""
        return f"CSI plugin {plugin_id} has the maximum number of volumes on client {node.id}"

    def _is_of(self, allocation: Allocation, request: VolumeRequest, plugin_id: str) -> bool:
        source = volume_source(request, allocation.name)
        known = self.view.csi_volume(allocation.namespace, source)
        return known is not None and known.get("PluginID") == plugin_id

    def missing(self, alloc_name: str) -> list[str]:
        """Names of volumes that do not exist at all, as a blocked evaluation lists them."""
        sources = [volume_source(request, alloc_name) for request in csi_requests(self.group)]
        return [
            f"csi-volume:{self.job.namespace}:{source}"
            for source in sources
            if self.view.csi_volume(self.job.namespace, source) is None
        ]

    def _claim_problem(self, volume: Mapping[str, Any], request: VolumeRequest) -> str:
        name = volume.get("ID", "")
        schedulable = bool(volume.get("Schedulable"))
        if request.read_only:
            reason = "is unschedulable or has exhausted its available reader claims"
            return "" if schedulable else f"CSI volume {name} {reason}"
        modes = [volume["AccessMode"]] if volume.get("AccessMode") else []
        if not modes:
            capabilities = volume.get("RequestedCapabilities") or ()
            modes = [each.get("AccessMode", "") for each in capabilities]
        if not schedulable or not any(mode in _CSI_MODES_TO_WRITE for mode in modes):
            return f"CSI volume {name} is unschedulable or is read-only"
        writers = volume.get("WriteAllocs") or {}
        if not writers or "multi-node-multi-writer" in modes:
            return ""
        return self._writer_problem(name, writers)

    def _writer_problem(self, name: str, writers: Mapping[str, Any]) -> str:
        for alloc_id in writers:
            allocation = self.view.allocation(alloc_id)
            if allocation is None:
                return (
                    f"CSI volume {name} has exhausted its available writer claims and is claimed "
                    f"by a garbage collected allocation {alloc_id}; waiting for claim to be "
                    "released"
                )
            if (allocation.namespace, allocation.job_id) != (self.job.namespace, self.job.id):
                return f"CSI volume {name} has exhausted its available writer claims"
        return ""


def _plugin_problem(node: Node, volume: Mapping[str, Any]) -> str:
    plugin_id = str(volume.get("PluginID", ""))
    plugin: Mapping[str, Any] | None = (node.csi_node_plugins or {}).get(plugin_id)
    if plugin is None:
        return f"CSI plugin {plugin_id} is missing from client {node.id}"
    if not plugin.get("Healthy"):
        return f"CSI plugin {plugin_id} is unhealthy on client {node.id}"
    wanted = volume.get("Topologies") or []
    info = plugin.get("NodeInfo") or {}
    if not wanted:
        return ""
    segments = (info.get("AccessibleTopology") or {}).get("Segments") or {}
    for topology in wanted:
        required = topology.get("Segments") or {}
        if all(segments.get(key) == value for key, value in required.items()):
            return ""
    return f"did not meet topology requirement of volume {volume.get('ID', '')}"
