"""A plan: what a scheduler wants to change; and the part of it that the plan applier commits."""

from __future__ import annotations

from msgspec import field

from orchgit.model.allocation import (
    AllocDeploymentStatus,
    DesiredTransition,
    RescheduleTracker,
)
from orchgit.model.base import Model
from orchgit.model.deployment import Deployment, DeploymentStatusUpdate
from orchgit.model.evaluation import AllocMetric, PlanAnnotations
from orchgit.model.resources import AllocatedPort, AllocatedResources


class AllocStop(Model):
    """End an allocation (or, with `client_status`, record that it is lost or unknown)."""

    alloc_id: str = ""
    node_id: str = ""
    desired_status: str = "stop"
    desired_description: str = ""
    client_status: str = ""
    """Empty: the status stays as the agent reported it."""
    client_description: str = ""
    followup_eval_id: str = ""
    reschedule_tracker: RescheduleTracker | None = None


class AllocPreemption(Model):
    alloc_id: str = ""
    node_id: str = ""
    preempted_by: str = ""


class AllocUpdate(Model):
    """An in-place change of an existing allocation; None or empty means: as it is.

    `record_client_status` appends an AllocState (invariant 6: only the plan applier records
    disconnects and reconnects).
    """

    alloc_id: str = ""
    node_id: str = ""
    job_version: int | None = None
    allocated_resources: AllocatedResources | None = None
    deployment_id: str | None = None
    deployment_status: AllocDeploymentStatus | None = None
    clear_deployment_status: bool = False
    desired_description: str | None = None
    desired_transition: DesiredTransition | None = None
    client_status: str = ""
    client_description: str = ""
    record_client_status: str = ""
    followup_eval_id: str | None = None
    reschedule_tracker: RescheduleTracker | None = None
    metrics: AllocMetric | None = None


class Placements(Model):
    """New allocations of one group, in columns: row i of every list is one allocation.

    `resources` (what every row was given, ports and reserved cores left out) and `metrics` are
    shared by all rows; `ports[i]` completes row i; the sparse maps (row -> value) hold what few
    rows have.
    """

    namespace: str = "default"
    job_id: str = ""
    job_version: int = 0
    job_type: str = ""
    task_group: str = ""
    eval_id: str = ""
    deployment_id: str = ""
    commit_id: str = ""
    rollout_id: str = ""
    alloc_ids: list[str] = []
    name_indexes: list[int] = []
    node_ids: list[str] = []
    node_names: list[str] = []
    resources: AllocatedResources = field(default_factory=AllocatedResources)
    ports: list[list[AllocatedPort]] | None = None
    metrics: AllocMetric | None = None
    metrics_of: dict[int, AllocMetric] = {}
    resources_of: dict[int, AllocatedResources] = {}
    """Row -> resources that differ from `resources` (cores, devices, group networks)."""
    previous_of: dict[int, str] = {}
    """Row -> the allocation it replaces."""
    canary_rows: list[int] = []
    reschedule_of: dict[int, RescheduleTracker] = {}
    preempts_of: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return len(self.alloc_ids)


class VolumeClaimRequest(Model):
    """A claim to create when the placement that needs it is committed (invariant 7)."""

    claim_id: str = ""
    namespace: str = "default"
    job_id: str = ""
    task_group_name: str = ""
    alloc_id: str = ""
    volume_id: str = ""
    volume_name: str = ""
    commit_id: str = ""
    rollout_id: str = ""


class Plan(Model):
    eval_id: str = ""
    eval_token: str = ""
    namespace: str = "default"
    job_id: str = ""
    job_version: int = 0
    job_modify_index: int = 0
    job_create_index: int = 0
    """Tells the job from a purged one of the same id; 0 from a worker of an older version."""
    priority: int = 50
    all_at_once: bool = False
    snapshot_index: int = 0
    stops: list[AllocStop] = []
    placements: list[Placements] = []
    updates: list[AllocUpdate] = []
    preemptions: list[AllocPreemption] = []
    claims: list[VolumeClaimRequest] = []
    deployment: Deployment | None = None
    """The deployment this plan creates or changes."""
    deployment_updates: list[DeploymentStatusUpdate] = []
    annotations: PlanAnnotations | None = None

    @property
    def is_no_op(self) -> bool:
        return not (
            self.stops
            or self.placements
            or self.updates
            or self.preemptions
            or self.deployment
            or self.deployment_updates
        )


class PlanResult(Model):
    """The committed part of a plan.

    `refresh_index` > 0: parts were rejected; the worker decides again at that index.
    """

    stops: list[AllocStop] = []
    placements: list[Placements] = []
    updates: list[AllocUpdate] = []
    preemptions: list[AllocPreemption] = []
    claims: list[VolumeClaimRequest] = []
    deployment: Deployment | None = None
    deployment_updates: list[DeploymentStatusUpdate] = []
    rejected_nodes: list[str] = []
    refresh_index: int = 0
    alloc_index: int = 0
