"""Restart, reschedule, update, migrate, disconnect, scaling: how a group is kept running."""

from __future__ import annotations

from jobspec.durations import to_text
from jobspec.rules.findings import Findings, quoted
from orchgit.model.group import (
    DisconnectStrategy,
    MigrateStrategy,
    ReschedulePolicy,
    ScalingPolicy,
    UpdateStrategy,
)
from orchgit.model.task import RestartPolicy

_SECOND_NS = 1_000_000_000
_MIN_NS = 5 * _SECOND_NS
_RECONCILE = ("", "keep_original", "keep_replacement", "best_score", "longest_running")


def check_restart(findings: Findings, policy: RestartPolicy) -> None:
    if policy.mode not in ("fail", "delay"):
        findings.add(f"Unsupported restart mode: {quoted(policy.mode)}", "Mode")
    if policy.attempts == 0 and policy.mode != "fail":
        findings.add(
            f"Restart policy {quoted(policy.mode)} with {policy.attempts} attempts is ambiguous",
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


def check_reschedule(findings: Findings, policy: ReschedulePolicy) -> None:
    if policy.attempts <= 0 and not policy.unlimited:
        return
    findings.check(
        policy.attempts > 0 and policy.interval_ns <= 0,
        "Interval must be a non zero value if Attempts > 0",
        "Interval",
    )
    known = policy.delay_function in ("constant", "exponential", "fibonacci")
    if not known:
        findings.add(
            f"Invalid delay function {quoted(policy.delay_function)}, must be one of "
            '["constant" "exponential" "fibonacci"]',
            "DelayFunction",
        )
    short = policy.delay_ns < _MIN_NS
    if short:
        findings.add(
            f"Delay cannot be less than {to_text(_MIN_NS)} (got {to_text(policy.delay_ns)})",
            "Delay",
        )
    bad_ceiling = known and _bad_ceiling(findings, policy)
    if known and not short and not bad_ceiling and not policy.unlimited and policy.interval_ns > 0:
        _check_fit(findings, policy)


def _bad_ceiling(findings: Findings, policy: ReschedulePolicy) -> bool:
    if policy.delay_function == "constant":
        return False
    if policy.max_delay_ns < _MIN_NS:
        least = to_text(_MIN_NS)
    elif policy.max_delay_ns < policy.delay_ns:
        least = f"Delay {to_text(policy.delay_ns)}"
    else:
        return False
    got = to_text(policy.max_delay_ns)
    findings.add(f"Max Delay cannot be less than {least} (got {got})", "MaxDelay")
    return True


def _check_fit(findings: Findings, policy: ReschedulePolicy) -> None:
    possible, needed_ns = _possible_attempts(policy)
    if possible >= policy.attempts:
        return
    text = (
        f"Nomad can only make {possible} attempts in {to_text(policy.interval_ns)} with initial "
        f"delay {to_text(policy.delay_ns)}"
    )
    function = quoted(policy.delay_function)
    if policy.delay_function == "constant":
        text += f" and delay function {function}"
    else:
        text += f", delay function {function}, and delay ceiling {to_text(policy.max_delay_ns)}"
    findings.add(text, "Attempts")
    findings.add(
        f"Set the interval to at least {to_text(needed_ns)} to accommodate "
        f"{policy.attempts} attempts",
        "Interval",
    )


def _possible_attempts(policy: ReschedulePolicy) -> tuple[int, int]:
    """How many of the attempts fit the interval, and the interval that all would need."""
    attempts, delay_ns, interval_ns = policy.attempts, policy.delay_ns, policy.interval_ns
    if policy.delay_function == "constant":
        needed_ns = attempts * delay_ns
        return (attempts if interval_ns >= needed_ns else interval_ns // delay_ns), needed_ns
    if policy.delay_function == "exponential":
        return _exponential(policy)
    slots = [delay_ns, delay_ns]
    capped = False
    for _ in range(2, attempts):
        following = slots[-1] + (policy.max_delay_ns if capped else slots[-2])
        if not capped and following > policy.max_delay_ns:
            following, capped = policy.max_delay_ns, True
        slots.append(following)
    if interval_ns >= slots[-1]:
        return attempts, slots[-1]
    return next(i for i, slot in enumerate(slots) if slot > interval_ns), slots[-1]


def _exponential(policy: ReschedulePolicy) -> tuple[int, int]:
    needed_ns = possible = 0
    for attempt in range(policy.attempts):
        delay_ns = policy.delay_ns << min(attempt, 62)
        if delay_ns > policy.max_delay_ns:
            needed_ns += policy.max_delay_ns
        else:
            needed_ns = delay_ns
        possible += needed_ns < policy.interval_ns
    return possible, needed_ns


def check_update(findings: Findings, update: UpdateStrategy) -> None:
    if update.health_check not in ("checks", "task_states", "manual"):
        findings.add(f"Invalid health check given: {quoted(update.health_check)}", "HealthCheck")
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
        findings.add(f"Invalid HealthCheck: {quoted(migrate.health_check)}", "HealthCheck")
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
            "stop_after can only be used with service or batch jobs",
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
    if job_type in ("system", "sysbatch"):
        return
    findings.check(
        policy.max >= 0 and policy.max < count,
        f"{start}task group count must not be greater than maximum count in scaling policy",
        "Max",
    )
    findings.check(
        policy.min >= 0 and policy.max >= policy.min and policy.min > count,
        f"{start}task group count must not be less than minimum count in scaling policy",
        "Min",
    )
