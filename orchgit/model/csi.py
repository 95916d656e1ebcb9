"""CSI volumes, and the claims of allocations on them."""

from __future__ import annotations

from orchgit.model.base import Model
from orchgit.model.volume import MountOptions, VolumeCapability

READ, WRITE = "read", "write"
_WRITERS_OF_ONE = ("single-node-writer", "multi-node-single-writer")
_MODES_TO_WRITE = (*_WRITERS_OF_ONE, "multi-node-multi-writer")


class CsiTopology(Model):
    segments: dict[str, str] | None = None


class CsiTopologyRequest(Model):
    required: list[CsiTopology] | None = None
    preferred: list[CsiTopology] | None = None


class CsiClaim(Model):
    """An allocation's hold on a volume. `external_node_id` is the node's name for the plugin."""

    alloc_id: str = ""
    node_id: str = ""
    mode: str = READ
    access_mode: str = ""
    attachment_mode: str = ""
    external_node_id: str = ""
    publish_context: dict[str, str] | None = None


class CsiVolume(Model):
    """`external_id` is the storage provider's name for it; `id` is unique in the namespace."""

    id: str = ""
    name: str = ""
    external_id: str = ""
    namespace: str = "default"
    plugin_id: str = ""
    access_mode: str = ""
    attachment_mode: str = ""
    mount_options: MountOptions | None = None
    secrets: dict[str, str] | None = None
    parameters: dict[str, str] | None = None
    context: dict[str, str] | None = None
    capacity: int = 0
    requested_capacity_min: int = 0
    requested_capacity_max: int = 0
    requested_capabilities: list[VolumeCapability] | None = None
    requested_topologies: CsiTopologyRequest | None = None
    topologies: list[CsiTopology] | None = None
    clone_id: str = ""
    snapshot_id: str = ""
    claims: list[CsiClaim] = []
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def key(self) -> str:
        return volume_key(self.namespace, self.id)

    def claim_of(self, alloc_id: str) -> CsiClaim | None:
        return next((each for each in self.claims if each.alloc_id == alloc_id), None)

    def claim_problem(self, claim: CsiClaim) -> str:
        """Returns why the volume cannot be claimed so; "" if it can."""
        others = [each for each in self.claims if each.alloc_id != claim.alloc_id]
        modes = [each.access_mode for each in self.requested_capabilities or ()]
        if modes and claim.access_mode and claim.access_mode not in modes:
            return f"volume {self.id} was not registered with access mode {claim.access_mode}"
        if others and self.access_mode and claim.access_mode != self.access_mode:
            return f"volume {self.id} is in use with access mode {self.access_mode}"
        if claim.mode != WRITE:
            return ""
        if claim.access_mode not in _MODES_TO_WRITE:
            return f"volume {self.id} cannot be written with access mode {claim.access_mode}"
        writers = [each for each in others if each.mode == WRITE]
        if writers and claim.access_mode in _WRITERS_OF_ONE:
            return f"volume max claims reached: {self.id} is written by {writers[0].alloc_id}"
        return ""


def volume_key(namespace: str, volume_id: str) -> str:
    return f"{namespace}/{volume_id}"
