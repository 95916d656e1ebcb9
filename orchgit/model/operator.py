"""Cluster-wide settings that operators change at run time."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model


class PreemptionConfig(Model):
    system_scheduler_enabled: bool = True
    sysbatch_scheduler_enabled: bool = field(default=False, name="SysBatchSchedulerEnabled")
    batch_scheduler_enabled: bool = False
    service_scheduler_enabled: bool = False


class SchedulerConfig(Model):
    scheduler_algorithm: str = "binpack"
    preemption_config: PreemptionConfig = field(default_factory=PreemptionConfig)
    memory_oversubscription_enabled: bool = False
    reject_job_registration: bool = False
    pause_eval_broker: bool = False
    node_limit_for_feasibility_checks: int = 0
    create_index: int = 0
    modify_index: int = 0
