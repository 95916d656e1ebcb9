"""An allocation: one instance of a task group on one node.

An allocation refers to its job by (namespace, job_id, job_version); it does not embed it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.evaluation import AllocMetric
from orchgit.model.resources import AllocatedResources


class DesiredStatus(StrEnum):
    RUN = "run"
    STOP = "stop"
    EVICT = "evict"


class ClientStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"


TERMINAL_CLIENT_STATUSES = frozenset(
    (ClientStatus.COMPLETE, ClientStatus.FAILED, ClientStatus.LOST)
)


class TaskEvent(Model):
    type: str = ""
    time_ns: int = 0
    message: str = ""
    display_message: str = ""
    details: dict[str, str] = {}
    fails_task: bool = False
    restart_reason: str = ""
    setup_error: str = ""
    driver_error: str = ""
    exit_code: int = 0
    signal: int = 0
    kill_timeout_ns: int = 0
    kill_error: str = ""
    kill_reason: str = ""
    start_delay_ns: int = 0
    download_error: str = ""
    validation_error: str = ""
    disk_limit: int = 0
    failed_sibling: str = ""
    vault_error: str = ""
    task_signal_reason: str = ""
    task_signal: str = ""
    driver_message: str = ""
    generic_source: str = ""


class TaskState(Model):
    """`state` is pending, running or dead."""

    state: str = "pending"
    failed: bool = False
    restarts: int = 0
    last_restart: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    paused: str = ""
    events: list[TaskEvent] = []

    @property
    def is_successful(self) -> bool:
        return self.state == "dead" and not self.failed


class AllocDeploymentStatus(Model):
    healthy: bool | None = None
    timestamp: datetime | None = None
    canary: bool = False
    modify_index: int = 0


class RescheduleEvent(Model):
    reschedule_time: int = 0
    """Unix nanoseconds."""
    prev_alloc_id: str = ""
    prev_node_id: str = ""
    delay_ns: int = 0


class RescheduleTracker(Model):
    events: list[RescheduleEvent] = []
    last_reschedule: str = ""


class DesiredTransition(Model):
    migrate: bool | None = None
    reschedule: bool | None = None
    force_reschedule: bool | None = None
    no_shutdown_delay: bool | None = None
    migrate_disable_placement: bool | None = None


class AllocState(Model):
    """A recorded change of one field of an allocation; field 0 is the client status."""

    field: int = 0
    value: str = ""
    time: datetime | None = None


class NetworkStatus(Model):
    interface_name: str = ""
    address: str = ""
    address_ipv6: str = field(default="", name="AddressIPv6")
    dns: dict[str, object] | None = None


class DriverAddress(Model):
    """The address that a driver itself gave to a running task."""

    ip: str = ""
    ports: dict[str, int] = {}
    """The port inside, by label."""
    auto_advertise: bool = False
    """Whether services with `address_mode = "auto"` are registered at this address."""


class Allocation(Model):
    id: str = ""
    namespace: str = "default"
    eval_id: str = ""
    name: str = ""
    node_id: str = ""
    node_name: str = ""
    job_id: str = ""
    job_version: int = 0
    job_type: str = ""
    task_group: str = ""
    allocated_resources: AllocatedResources | None = None
    metrics: AllocMetric | None = None
    desired_status: str = DesiredStatus.RUN
    desired_description: str = ""
    desired_transition: DesiredTransition = field(default_factory=DesiredTransition)
    client_status: str = ClientStatus.PENDING
    client_description: str = ""
    task_states: dict[str, TaskState] | None = None
    alloc_states: list[AllocState] | None = None
    previous_allocation: str = ""
    next_allocation: str = ""
    deployment_id: str = ""
    deployment_status: AllocDeploymentStatus | None = None
    reschedule_tracker: RescheduleTracker | None = None
    network_status: NetworkStatus | None = None
    followup_eval_id: str = ""
    preempted_allocations: list[str] | None = None
    preempted_by_allocation: str = ""
    commit_id: str = ""
    rollout_id: str = ""
    create_index: int = 0
    modify_index: int = 0
    alloc_modify_index: int = 0
    create_time_ns: int = 0
    modify_time_ns: int = 0
    driver_addresses: dict[str, DriverAddress] | None = None
    """By task; the address of a task that has ended stays, and counts no more."""

    @property
    def is_server_terminal(self) -> bool:
        """Whether the servers want the allocation to end."""
        return self.desired_status in (DesiredStatus.STOP, DesiredStatus.EVICT)

    @property
    def is_client_terminal(self) -> bool:
        """Whether the agent reports that the allocation has ended."""
        return self.client_status in TERMINAL_CLIENT_STATUSES

    @property
    def is_terminal(self) -> bool:
        return self.is_server_terminal or self.is_client_terminal

    def is_of_registration(self, job_create_index: int) -> bool:
        """Whether the allocation was placed since the job was registered, and not for a job of the
        same id that was purged: the versions of both count from 0."""
        return not 0 < self.create_index < job_create_index

    def runs_task(self, task_name: str) -> bool:
        """Whether the task runs; true of a task of which no agent has told."""
        states = self.task_states or {}
        return task_name not in states or states[task_name].state == "running"

    @property
    def name_index(self) -> int:
        """The `3` of `job.group[3]`."""
        return int(self.name[self.name.rindex("[") + 1 : -1])


def alloc_name(job_id: str, group: str, index: int) -> str:
    return f"{job_id}.{group}[{index}]"


def status_after_report(known: str, reported: str) -> str:
    """Returns the client status of an allocation after a report.

    `known` is the stored status, `reported` the one that the agent reports.

    One that failed or completed never runs again, whatever an agent that forgot its end reports (a
    power cut took it): the agent is told to stop it, and the outcome stays. One that was called
    lost may well run: its agent knows better.
    """
    if known == ClientStatus.FAILED:
        return known
    if known == ClientStatus.COMPLETE and reported not in TERMINAL_CLIENT_STATUSES:
        return known
    return reported
