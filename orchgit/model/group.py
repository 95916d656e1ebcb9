"""A task group: the tasks that are placed together, and the policies they share."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.constraint import Affinity, Constraint, Spread
from orchgit.model.resources import NetworkResource
from orchgit.model.service import Service
from orchgit.model.task import RestartPolicy, Task
from orchgit.model.volume import VolumeRequest


class UpdateStrategy(Model):
    """How a changed group rolls out; `max_parallel` 0 means all at once, without a deployment."""

    stagger_ns: int = 30_000_000_000
    max_parallel: int = 1
    health_check: str = "checks"
    min_healthy_time_ns: int = 10_000_000_000
    healthy_deadline_ns: int = 300_000_000_000
    progress_deadline_ns: int = 600_000_000_000
    auto_revert: bool = False
    auto_promote: bool = False
    canary: int = 0


class MigrateStrategy(Model):
    max_parallel: int = 1
    health_check: str = "checks"
    min_healthy_time_ns: int = 10_000_000_000
    healthy_deadline_ns: int = 300_000_000_000


class ReschedulePolicy(Model):
    attempts: int = 0
    interval_ns: int = 0
    delay_ns: int = 30_000_000_000
    delay_function: str = "exponential"
    max_delay_ns: int = 3_600_000_000_000
    unlimited: bool = True


class DisconnectStrategy(Model):
    """What happens to the group's allocations on a node that lost its connection."""

    lost_after_ns: int = 0
    stop_on_client_after_ns: int | None = None
    replace: bool = True
    reconcile: str = "best_score"


class EphemeralDisk(Model):
    sticky: bool = False
    size_mb: int = 300
    migrate: bool = False


class ScalingPolicy(Model):
    id: str = ""
    namespace: str = ""
    type: str = "horizontal"
    target: dict[str, str] | None = None
    min: int = 0
    max: int = 0
    enabled: bool = True
    policy: dict[str, object] | None = None
    create_index: int = 0
    modify_index: int = 0


class TaskGroup(Model):
    name: str = ""
    count: int = 1
    tasks: list[Task] = []
    constraints: list[Constraint] | None = None
    affinities: list[Affinity] | None = None
    spreads: list[Spread] | None = None
    networks: list[NetworkResource] | None = None
    services: list[Service] | None = None
    volumes: dict[str, VolumeRequest] | None = None
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    reschedule_policy: ReschedulePolicy | None = None
    ephemeral_disk: EphemeralDisk = field(default_factory=EphemeralDisk)
    update: UpdateStrategy | None = None
    migrate: MigrateStrategy | None = None
    disconnect: DisconnectStrategy | None = None
    max_client_disconnect_ns: int | None = None
    stop_after_client_disconnect_ns: int | None = None
    prevent_reschedule_on_lost: bool = False
    max_run_duration_ns: int | None = None
    shutdown_delay_ns: int | None = None
    scaling: ScalingPolicy | None = None
    consul: dict[str, object] | None = None
    meta: dict[str, str] | None = None

    def task(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.name == name), None)
