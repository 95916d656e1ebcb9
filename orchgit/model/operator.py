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
    numa_enabled: bool = False
    """Whether `numa` blocks count; Nomad's Community Edition ignores them."""
    create_index: int = 0
    modify_index: int = 0


class AutopilotConfig(Model):
    """How the leader watches over the servers.

    The last three settings belong to Nomad's paid edition: stored as given, without effect.
    """

    cleanup_dead_servers: bool = True
    last_contact_threshold_ns: int = 200_000_000
    max_trailing_logs: int = 250
    min_quorum: int = 0
    server_stabilization_time_ns: int = 10_000_000_000
    enable_redundancy_zones: bool = False
    disable_upgrade_migration: bool = False
    enable_custom_upgrades: bool = False
    create_index: int = 0
    modify_index: int = 0
