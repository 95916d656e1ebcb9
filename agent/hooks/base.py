"""The setup that hooks read and fill, and the error that they raise."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.artifacts.plan import FetchLimits
from agent.devices.registry import Devices
from agent.drivers.base import Mount, NetworkIsolation, TaskDevices
from agent.drivers.users import (
    DEFAULT_CHROOT_USER,
    UserIds,
    host_user,
    user_variables,
)
from agent.hooks.secrets_mount import SecretsMounts
from agent.identities.task_api import TaskApi
from agent.identities.task_identities import TaskIdentities
from agent.paths import TaskPaths
from agent.tasks.environment import EnvInput, TaskEnv, build
from agent.tasks.task_state import TaskEventType
from agent.templates.settings import NodeTemplates
from agent.templates.task_templates import TaskTemplates
from agent.vault.tokens import Vault
from orchgit.clock import Clock
from orchgit.errors import DriverError
from orchgit.model.allocation import Allocation, TaskEvent
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.task import Task


class SetupError(DriverError):
    """A hook failed. `event_type` is the type of the task event that reports the failure."""

    def __init__(
        self,
        message: str,
        recoverable: bool = False,
        event_type: TaskEventType = TaskEventType.HOOK_FAILED,
    ) -> None:
        super().__init__(message, recoverable)
        self.event_type = event_type


class FatalSetupError(SetupError):
    """A hook failed for good: the task is dead and failed, whatever its restart policy says."""

    def __init__(self, message: str) -> None:
        super().__init__(message, event_type=TaskEventType.KILLING)


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """One volume of the group, as found on this node."""

    host_path: str
    read_only: bool


SetUpNetwork = Callable[[], Awaitable[NetworkIsolation | None]]
"""Makes the network of the group, or finds it again; None where the tasks use the host's."""


async def no_network() -> None:
    """For groups that use the host's network."""


@dataclass
class HookResults:
    """What hooks gave the task for as long as it runs; one for each task, over all its setups."""

    env: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables with tokens and addresses of sockets."""
    devices: TaskDevices = field(default_factory=TaskDevices)


@dataclass
class TaskSetup:
    """One task about to be started; `done` names the steps that need not be repeated."""

    node: Node
    region: str
    job: Job
    group: TaskGroup
    task: Task
    alloc: Allocation
    paths: TaskPaths
    volume_sources: dict[str, VolumeSource]
    host_env: dict[str, str]
    isolation: str
    """The driver's isolation: which of the node's files the task sees."""
    clock: Clock
    emit: Callable[[TaskEvent], None]
    templates: NodeTemplates
    task_templates: TaskTemplates
    """What the task's templates were rendered to, over all its attempts."""
    identities: TaskIdentities
    task_api: TaskApi | None = None
    secrets: SecretsMounts = field(default_factory=SecretsMounts)
    fetch_limits: FetchLimits = field(default_factory=FetchLimits)
    devices: Devices = field(default_factory=Devices)
    network: NetworkIsolation | None = None
    set_up_network: SetUpNetwork = no_network
    vault: Vault | None = None
    results: HookResults = field(default_factory=HookResults)
    template_env: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    is_again: bool = False
    """Whether an earlier attempt was prepared, perhaps by an agent before this one."""

    @property
    def secrets_dir(self) -> str:
        """The directory of secrets as the task sees it."""
        return str(self.paths.secrets) if self.isolation == "none" else "/secrets"

    def user(self) -> UserIds | None:
        """The user that the task runs as; None: the agent's, or the user of its image."""
        name = self.environment().interpolate.text(self.task.user)
        if not name and os.geteuid() != 0:
            return None
        return host_user(name or (DEFAULT_CHROOT_USER if self.isolation == "chroot" else ""))

    def environment(self) -> TaskEnv:
        """The environment with what the hooks have added so far."""
        host = self.isolation == "none"
        return build(
            EnvInput(
                node=self.node,
                region=self.region,
                job=self.job,
                group=self.group,
                task=self.task,
                alloc=self.alloc,
                alloc_dir=str(self.paths.alloc_dir) if host else "/alloc",
                local_dir=str(self.paths.local) if host else "/local",
                secrets_dir=self.secrets_dir,
                host_env=self._host_env(),
                template_env={
                    **self.results.devices.env,
                    **self.results.env,
                    **self.template_env,
                },
                network=self.network,
            )
        )

    def _host_env(self) -> dict[str, str]:
        """The variables of the host that the task sees; in a chroot, those of its own user."""
        if self.isolation == "image":
            return {}
        if self.isolation != "chroot":
            return self.host_env
        return {**self.host_env, **user_variables(self.task.user or DEFAULT_CHROOT_USER)}
