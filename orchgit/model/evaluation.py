"""An evaluation: the request to bring a job's allocations to what the job asks for."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class EvalStatus(StrEnum):
    PENDING = "pending"
    BLOCKED = "blocked"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "canceled"


class EvalTrigger(StrEnum):
    JOB_REGISTER = "job-register"
    JOB_DEREGISTER = "job-deregister"
    PERIODIC_JOB = "periodic-job"
    NODE_DRAIN = "node-drain"
    NODE_UPDATE = "node-update"
    ALLOC_STOP = "alloc-stop"
    SCHEDULED = "scheduled"
    ROLLING_UPDATE = "rolling-update"
    DEPLOYMENT_WATCHER = "deployment-watcher"
    FAILED_FOLLOW_UP = "failed-follow-up"
    MAX_PLANS = "max-plan-attempts"
    RETRY_FAILED_ALLOC = "alloc-failure"
    QUEUED_ALLOCS = "queued-allocs"
    PREEMPTION = "preemption"
    JOB_SCALE = "job-scaling"
    MAX_DISCONNECT_TIMEOUT = "max-disconnect-timeout"
    RECONNECT = "reconnect"
    ALLOC_RESCHEDULE = "alloc-reschedule"


class ScoreMetaData(Model):
    node_id: str = ""
    scores: dict[str, float] = {}
    norm_score: float = 0.0


class AllocMetric(Model):
    """Why a placement got its node, or none."""

    nodes_evaluated: int = 0
    nodes_filtered: int = 0
    nodes_in_pool: int = 0
    node_pool: str = ""
    nodes_available: dict[str, int] | None = None
    class_filtered: dict[str, int] | None = None
    constraint_filtered: dict[str, int] | None = None
    nodes_exhausted: int = 0
    class_exhausted: dict[str, int] | None = None
    dimension_exhausted: dict[str, int] | None = None
    quota_exhausted: list[str] | None = None
    resources_exhausted: dict[str, dict[str, object]] | None = None
    scores: dict[str, float] | None = None
    score_meta_data: list[ScoreMetaData] | None = None
    allocation_time_ns: int = 0
    coalesced_failures: int = 0


class DesiredUpdates(Model):
    """How many allocations of a group an evaluation wants to ignore, place, stop and so on."""

    ignore: int = 0
    place: int = 0
    migrate: int = 0
    stop: int = 0
    in_place_update: int = 0
    destructive_update: int = 0
    canary: int = 0
    preemptions: int = 0
    disconnect: int = 0
    reconnect: int = 0
    reschedule_now: int = 0
    reschedule_later: int = 0


class PlanAnnotations(Model):
    desired_tg_updates: dict[str, DesiredUpdates] = {}
    preempted_allocs: list[dict[str, object]] | None = None

    def counts(self) -> dict[str, list[int]]:
        """Returns group -> the numbers of `DesiredUpdates` in the order of its fields."""
        return {
            group: [getattr(updates, name) for name in DesiredUpdates.__struct_fields__]
            for group, updates in self.desired_tg_updates.items()
        }


class Evaluation(Model):
    id: str = ""
    namespace: str = "default"
    priority: int = 50
    type: str = "service"
    triggered_by: str = ""
    job_id: str = ""
    job_modify_index: int = 0
    node_id: str = ""
    node_modify_index: int = 0
    deployment_id: str = ""
    status: str = EvalStatus.PENDING
    status_description: str = ""
    wait_until: int = 0
    """Unix nanoseconds before which the broker does not hand the evaluation out; 0 is now."""
    next_eval: str = ""
    previous_eval: str = ""
    blocked_eval: str = ""
    related_evals: list[dict[str, object]] | None = None
    failed_tg_allocs: dict[str, AllocMetric] | None = None
    class_eligibility: dict[str, bool] | None = None
    quota_limit_reached: str = ""
    escaped_computed_class: bool = False
    annotate_plan: bool = False
    plan_annotations: PlanAnnotations | None = None
    queued_allocations: dict[str, int] | None = None
    missing_non_node_resources: list[str] | None = None
    """What is missing in the whole cluster, as `csi-volume:NAMESPACE:ID`."""
    leader_acl: str = ""
    snapshot_index: int = 0
    rollout_id: str = ""
    """The gitops rollout whose commit caused this evaluation, if one did."""
    create_index: int = 0
    modify_index: int = 0
    create_time_ns: int = 0
    modify_time_ns: int = 0
    desired_updates: dict[str, list[int]] | None = None
    """`PlanAnnotations.counts` of the decision. Numbers without names, since every evaluation is
    stored."""

    def annotations(self) -> PlanAnnotations | None:
        """Returns what the evaluation wanted to change; None before it was decided."""
        if self.plan_annotations is not None or self.desired_updates is None:
            return self.plan_annotations
        return PlanAnnotations(
            {group: DesiredUpdates(*counts) for group, counts in self.desired_updates.items()}
        )

    @property
    def is_terminal(self) -> bool:
        return self.status in (EvalStatus.COMPLETE, EvalStatus.FAILED, EvalStatus.CANCELLED)
