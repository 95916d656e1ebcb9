"""Volumes: requests of groups, volumes of nodes, and the claims that tie a group to a volume."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model


class MountOptions(Model):
    fs_type: str = field(default="", name="FSType")
    mount_flags: list[str] | None = None

    def over(self, others: MountOptions) -> MountOptions:
        """Returns these options, with each one that is not set as the others have it."""
        return MountOptions(self.fs_type or others.fs_type, self.mount_flags or others.mount_flags)


class VolumeRequest(Model):
    """A group's `volume` block; `type` is `host` or `csi`."""

    name: str = ""
    type: str = ""
    source: str = ""
    read_only: bool = False
    sticky: bool = False
    access_mode: str = ""
    attachment_mode: str = ""
    mount_options: MountOptions | None = None
    per_alloc: bool = False


class VolumeMount(Model):
    volume: str = ""
    destination: str = ""
    read_only: bool = False
    propagation_mode: str = "private"
    selinux_label: str = field(default="", name="SELinuxLabel")


class VolumeCapability(Model):
    access_mode: str = ""
    attachment_mode: str = ""


class HostVolume(Model):
    """A dynamic host volume: created on one node, known to the servers by its id."""

    id: str = ""
    namespace: str = "default"
    name: str = ""
    node_id: str = ""
    node_pool: str = "default"
    plugin_id: str = "mkdir"
    host_path: str = ""
    capacity_bytes: int = 0
    requested_capacity_min_bytes: int = 0
    requested_capacity_max_bytes: int = 0
    requested_capabilities: list[VolumeCapability] = []
    constraints: list[dict[str, object]] | None = None
    parameters: dict[str, str] | None = None
    state: str = "pending"
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def request(self) -> tuple[object, ...]:
        """What the plugin is asked with; another request makes the volume again, which may expand
        it."""
        return (
            self.requested_capacity_min_bytes,
            self.requested_capacity_max_bytes,
            self.parameters or {},
        )


class TaskGroupVolumeClaim(Model):
    """Which volume a group with a sticky volume owns (invariant 7), and since which commit.

    There is at most one claim per (namespace, job, group, volume name) and allocation name index:
    Nomad binds each claim to the allocation that made it; a replacement takes the claim over.
    """

    id: str = ""
    namespace: str = "default"
    job_id: str = ""
    task_group_name: str = ""
    alloc_id: str = ""
    volume_id: str = ""
    volume_name: str = ""
    commit_id: str = ""
    rollout_id: str = ""
    create_index: int = 0
    modify_index: int = 0
