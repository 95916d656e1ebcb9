"""The server section's keys for scheduling, heartbeats and garbage, named as in Nomad's files."""

from __future__ import annotations

import msgspec

from orchgit.control.leader_term import ControlConfig
from orchgit.control.plans.node_rejections import RejectionLimits
from orchgit.control.watchers.garbage import GarbageLimits
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError
from orchgit.model.operator import PreemptionConfig, SchedulerConfig


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """Base of the file's sections: a key that is not a field is an error that names it."""


class PlanRejectionSection(Section):
    enabled: bool = False
    node_threshold: int = 100
    node_window: str = "5m"


class PreemptionSection(Section):
    system_scheduler_enabled: bool = True
    sysbatch_scheduler_enabled: bool = False
    batch_scheduler_enabled: bool = False
    service_scheduler_enabled: bool = False


class SchedulerSection(Section):
    scheduler_algorithm: str = "binpack"
    memory_oversubscription_enabled: bool = False
    reject_job_registration: bool = False
    pause_eval_broker: bool = False
    numa_enabled: bool = False
    preemption_config: PreemptionSection = msgspec.field(default_factory=PreemptionSection)


class ControlSection(Section):
    """The part of the server section that concerns the leader's work."""

    heartbeat_grace: str = "10s"
    min_heartbeat_ttl: str = "10s"
    max_heartbeats_per_second: float = 50.0
    failover_heartbeat_ttl: str = "1m"
    job_gc_interval: str = "5m"
    job_gc_threshold: str = "4h"
    eval_gc_threshold: str = "1h"
    batch_eval_gc_threshold: str = "24h"
    deployment_gc_threshold: str = "1h"
    node_gc_threshold: str = "24h"
    acl_token_gc_threshold: str = "1h"  # noqa: S105 - an age
    plan_rejection_tracker: PlanRejectionSection = msgspec.field(
        default_factory=PlanRejectionSection
    )
    default_scheduler_config: SchedulerSection | None = None


def control_config(section: ControlSection) -> ControlConfig:
    """Returns the leader's settings. Raises InvalidInputError that names the key."""
    rejections = section.plan_rejection_tracker
    return ControlConfig(
        heartbeats=HeartbeatLimits(
            min_ttl_s=_seconds("min_heartbeat_ttl", section.min_heartbeat_ttl),
            grace_s=_seconds("heartbeat_grace", section.heartbeat_grace),
            max_per_s=_above_zero("max_heartbeats_per_second", section.max_heartbeats_per_second),
            failover_s=_seconds("failover_heartbeat_ttl", section.failover_heartbeat_ttl),
        ),
        garbage=GarbageLimits(
            interval_s=_seconds("job_gc_interval", section.job_gc_interval),
            evaluation_age_s=_seconds("eval_gc_threshold", section.eval_gc_threshold),
            batch_evaluation_age_s=_seconds(
                "batch_eval_gc_threshold", section.batch_eval_gc_threshold
            ),
            job_age_s=_seconds("job_gc_threshold", section.job_gc_threshold),
            deployment_age_s=_seconds("deployment_gc_threshold", section.deployment_gc_threshold),
            node_age_s=_seconds("node_gc_threshold", section.node_gc_threshold),
            token_age_s=_seconds("acl_token_gc_threshold", section.acl_token_gc_threshold),
        ),
        rejections=RejectionLimits(
            enabled=rejections.enabled,
            threshold=round(
                _above_zero("plan_rejection_tracker.node_threshold", rejections.node_threshold)
            ),
            window_s=_seconds("plan_rejection_tracker.node_window", rejections.node_window),
        ),
    )


def scheduler_config(section: ControlSection) -> SchedulerConfig | None:
    """Returns the scheduler settings that a new cluster begins with; None for the defaults."""
    wanted = section.default_scheduler_config
    if wanted is None:
        return None
    if wanted.scheduler_algorithm not in ("binpack", "spread"):
        raise InvalidInputError(
            "cannot use server.default_scheduler_config.scheduler_algorithm: "
            f'"{wanted.scheduler_algorithm}" is neither "binpack" nor "spread"'
        )
    preemption = PreemptionConfig(
        system_scheduler_enabled=wanted.preemption_config.system_scheduler_enabled,
        sysbatch_scheduler_enabled=wanted.preemption_config.sysbatch_scheduler_enabled,
        batch_scheduler_enabled=wanted.preemption_config.batch_scheduler_enabled,
        service_scheduler_enabled=wanted.preemption_config.service_scheduler_enabled,
    )
    return SchedulerConfig(
        scheduler_algorithm=wanted.scheduler_algorithm,
        preemption_config=preemption,
        memory_oversubscription_enabled=wanted.memory_oversubscription_enabled,
        reject_job_registration=wanted.reject_job_registration,
        pause_eval_broker=wanted.pause_eval_broker,
        numa_enabled=wanted.numa_enabled,
    )


def _seconds(name: str, text: str) -> float:
    return _above_zero(name, parse_setting_ns(f"server.{name}", text) / 1e9)


def _above_zero(name: str, value: float) -> float:
    if value <= 0:
        raise InvalidInputError(f"cannot use server.{name}: it must be more than zero")
    return value
