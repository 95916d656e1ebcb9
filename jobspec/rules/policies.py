"""Restart, reschedule, update, migrate, disconnect, scaling: how a group is kept running."""

from __future__ import annotations

from jobspec.rules.findings import Findings
from orchgit.durations import to_text
from orchgit.go_quote import quote
from orchgit.model.group import (
    DisconnectStrategy,
    MigrateStrategy,
    ScalingPolicy,
    UpdateStrategy,
)
from orchgit.model.task import RestartPolicy

_SECOND_NS = 1_000_000_000
_MIN_NS = 5 * _SECOND_NS
_RECONCILE = ("", "keep_original", "keep_replacement", "best_score", "longest_running")


def check_restart(findings: Findings, policy: RestartPolicy) -> None:
    if policy.mode not in ("fail", "delay"):
        findings.add(f"Unsupported restart mode: {quote(policy.mode)}", "Mode")
    if policy.attempts == 0 and policy.mode != "fail":
        findings.add(
            f"Restart policy {quote(policy.mode)} with {policy.attempts} attempts is ambiguous",
            "Attempts",
        )
    if policy.interval_ns < _MIN_NS:
        findings.add(
            f"Interval can not be less than {to_text(_MIN_NS)} (got {to_text(policy.interval_ns)})",
            "Interval",
        )
    if policy.attempts * policy.delay_ns > policy.interval_ns:
        findings.add(
            f"Nomad can't restart the TaskGroup {policy.attempts} times in an interval of "
            f"{to_text(policy.interval_ns)} with a delay of {to_text(policy.delay_ns)}",
            "Interval",
        )


def check_update(findings: Findings, update: UpdateStrategy) -> None:
    if update.health_check not in ("checks", "task_states", "manual"):
        findings.add(f"Invalid health check given: {quote(update.health_check)}", "HealthCheck")
    if update.max_parallel < 0:
        findings.add(
            f"Max parallel can not be less than zero: {update.max_parallel} < 0", "MaxParallel"
        )
    if update.canary < 0:
        findings.add(f"Canary count can not be less than zero: {update.canary} < 0", "Canary")
    if update.canary == 0 and update.auto_promote:
        findings.add("Auto Promote requires a Canary count greater than zero", "AutoPromote")
    _check_update_times(findings, update)


def _check_update_times(findings: Findings, update: UpdateStrategy) -> None:
    health, deadline = update.min_healthy_time_ns, update.healthy_deadline_ns
    progress, stagger = update.progress_deadline_ns, update.stagger_ns

    def add(problem: str, times: str, field: str) -> None:
        findings.add(f"{problem}: {times}", field)

    if health < 0:
        problem = "Minimum healthy time may not be less than zero"
        add(problem, to_text(health), "MinHealthyTime")
    if deadline <= 0:
        add("Healthy deadline must be greater than zero", to_text(deadline), "HealthyDeadline")
    if progress < 0:
        add("Progress deadline must be zero or greater", to_text(progress), "ProgressDeadline")
    if health >= deadline:
        problem = "Minimum healthy time must be less than healthy deadline"
        add(problem, f"{to_text(health)} > {to_text(deadline)}", "MinHealthyTime")
    if progress != 0 and deadline >= progress:
        problem = "Healthy deadline must be less than progress deadline"
        add(problem, f"{to_text(deadline)} > {to_text(progress)}", "HealthyDeadline")
    if stagger <= 0:
        add("Stagger must be greater than zero", to_text(stagger), "Stagger")


def check_migrate(findings: Findings, migrate: MigrateStrategy) -> None:
    health, deadline = migrate.min_healthy_time_ns, migrate.healthy_deadline_ns
    if migrate.max_parallel < 0:
        findings.add(f"MaxParallel must be >= 0 but found {migrate.max_parallel}", "MaxParallel")
    if migrate.health_check not in ("checks", "task_states"):
        findings.add(f"Invalid HealthCheck: {quote(migrate.health_check)}", "HealthCheck")
    if health < 0:
        findings.add(f"MinHealthyTime is {to_text(health)} and must be >= 0", "MinHealthyTime")
    if deadline < 0:
        findings.add(f"HealthyDeadline is {to_text(deadline)} and must be >= 0", "HealthyDeadline")
    if health > deadline:
        findings.add("MinHealthyTime must be less than HealthyDeadline", "MinHealthyTime")


def check_disconnect(
    findings: Findings, disconnect: DisconnectStrategy, job_type: str, translated: bool
) -> None:
    """`translated`: the block was made of the older fields, of which both may be set."""
    stop_ns = disconnect.stop_on_client_after_ns
    if stop_ns is not None:
        findings.check(stop_ns < 0, "stop_after cannot be a negative duration", "StopOnClientAfter")
        findings.check(
            job_type not in ("service", "batch"),
            "stop_after can only be used with service or batch job types",
            "StopOnClientAfter",
        )
    findings.check(
        disconnect.lost_after_ns < 0, "lost_after cannot be a negative duration", "LostAfter"
    )
    findings.check(
        stop_ns is not None and disconnect.lost_after_ns != 0 and not translated,
        "Disconnect cannot be configured with both lost_after and stop_after",
        "StopOnClientAfter",
    )
    findings.check(
        disconnect.reconcile not in _RECONCILE,
        f"reconcile option is invalid: {disconnect.reconcile}",
        "Reconcile",
    )


def check_scaling(findings: Findings, policy: ScalingPolicy, count: int, job_type: str) -> None:
    start = "Scaling policy invalid: "
    findings.check(
        policy.max < 0, f"{start}maximum count must be specified and non-negative", "Max"
    )
    findings.check(
        policy.max >= 0 and policy.max < policy.min,
        f"{start}maximum count must not be less than minimum count",
        "Max",
    )
    findings.check(
        policy.min < 0, f"{start}minimum count must be specified and non-negative", "Min"
    )
    findings.check(
        policy.max < count,
        f"{start}task group count must not be greater than maximum count in scaling policy",
        "Max",
    )
    findings.check(
        job_type not in ("system", "sysbatch")
        and policy.min >= 0
        and policy.max >= policy.min
        and policy.min > count,
        f"{start}task group count must not be less than minimum count in scaling policy",
        "Min",
    )
