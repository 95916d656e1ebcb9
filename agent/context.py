"""The contexts of the runners: what the node offers, and the allocation that its tasks share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.artifacts.plan import FetchLimits
from agent.devices.registry import Devices
from agent.drivers.base import Driver, NetworkIsolation
from agent.hooks.base import SetUpNetwork, VolumeSource, no_network
from agent.hooks.secrets_mount import SecretsMounts
from agent.identities.task_api import TaskApi
from agent.identities.task_identities import SignIdentities, no_identities
from agent.local_state.store import LocalState
from agent.metrics.hook_times import HookTimes
from agent.networks.alloc_networks import AllocNetworks
from agent.paths import AllocPaths
from agent.services.registrations import ServiceTable
from agent.templates.settings import NodeTemplates
from agent.vault.tokens import Vault
from orchgit.clock import Clock
from orchgit.errors import DriverError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node


class VolumeMounts(Protocol):
    async def publish(
        self, alloc: Allocation, group: TaskGroup, runs: bool
    ) -> dict[str, VolumeSource]: ...

    async def release(self, alloc: Allocation, group: TaskGroup) -> None: ...


class NoVolumes:
    """An agent without servers has no CSI volumes."""

    async def publish(
        self, alloc: Allocation, group: TaskGroup, runs: bool
    ) -> dict[str, VolumeSource]:
        return {}

    async def release(self, alloc: Allocation, group: TaskGroup) -> None:
        return None


TakeOver = Callable[[Allocation, TaskGroup, AllocPaths], Awaitable[str]]


async def no_data_to_take_over(alloc: Allocation, group: TaskGroup, paths: AllocPaths) -> str:
    return "Cannot move data of the previous allocation: this agent has no servers"


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One per agent."""

    clock: Clock
    local: LocalState
    drivers: Mapping[str, Driver]
    node: Callable[[], Node]
    region: str
    host_env: dict[str, str]
    alloc_root: Path
    services: ServiceTable
    wait_ended: Callable[[str], Awaitable[AllocPaths | None]]
    """Waits until another allocation of this node has ended; its files, if they are still here."""
    templates: NodeTemplates = field(default_factory=NodeTemplates)
    hook_times: HookTimes = field(default_factory=HookTimes)
    max_kill_timeout_s: float = 30.0
    """A task's own `kill_timeout` counts up to this."""
    fetch_limits: FetchLimits = field(default_factory=FetchLimits)
    sign_identities: SignIdentities = no_identities
    secrets: SecretsMounts = field(default_factory=SecretsMounts)
    devices: Devices = field(default_factory=Devices)
    task_api: TaskApi | None = None
    """None: tasks find no API among their secrets."""
    vault: Vault | None = None
    """None: the node's configuration has no `vault` block."""
    networks: AllocNetworks | None = None
    """None: groups can only use the host's network."""
    csi: VolumeMounts = field(default_factory=NoVolumes)
    """Mounts the CSI volumes of allocations."""
    take_over: TakeOver = no_data_to_take_over
    """Takes over the data of a previous allocation of another node; returns what it did."""

    def driver(self, name: str) -> Driver:
        found = self.drivers.get(name)
        if found is None:
            raise DriverError(f'cannot start the task: this node has no driver "{name}"')
        return found


@dataclass
class AllocContext:
    """One per allocation; `update` replaces what the servers may change in place."""

    alloc: Allocation
    job: Job
    paths: AllocPaths
    volume_sources: dict[str, VolumeSource] = field(default_factory=dict)
    network: NetworkIsolation | None = None
    """None: the tasks use the host's network, or the group's is not there yet."""
    set_up_network: SetUpNetwork = no_network

    @property
    def group(self) -> TaskGroup:
        group = self.job.group(self.alloc.task_group)
        assert group is not None, f"job {self.job.id} has no group {self.alloc.task_group}"
        return group
