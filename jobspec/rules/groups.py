"""A task group."""

from __future__ import annotations

from jobspec.rules.findings import Findings
from jobspec.rules.networks import check_networks, check_volume
from jobspec.rules.policies import (
    check_disconnect,
    check_migrate,
    check_restart,
    check_scaling,
    check_update,
)
from jobspec.rules.reschedule import check_reschedule
from jobspec.rules.services import check_group_services, check_script_checks
from jobspec.rules.targets import check_affinities, check_constraints, check_spreads
from jobspec.rules.tasks import check_task
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job

_MIN_DISK_MB = 10


def check_group(findings: Findings, group: TaskGroup, job: Job) -> None:
    findings.check(not group.name, "Missing task group name", "Name")
    findings.check("\0" in group.name, "Task group name contains a null character", "Name")
    findings.check(group.count < 0, "Task group count can't be negative", "Count")
    findings.check(not group.tasks, "Missing tasks for task group")
    _old_disconnect(findings, group)
    if group.disconnect is not None:
        inner = findings.at("Disconnect")
        translated = (
            group.max_client_disconnect_ns is not None
            and group.stop_after_client_disconnect_ns is not None
        )
        check_disconnect(inner, group.disconnect, job.type, translated)
        findings.include(inner)
    check_constraints(findings, group.constraints)
    _targets(findings, group, job)
    _policies(findings, group, job)
    _run_duration(findings, group, job)
    _task_names(findings, group)
    _shared(findings, group, job)
    for index, task in enumerate(group.tasks):
        inner = findings.at("Tasks", index)
        check_task(inner, task, group)
        if inner.messages:
            findings.nest(f"Task {task.name} validation failed", inner)


def _old_disconnect(findings: Findings, group: TaskGroup) -> None:
    lost_ns, stop_ns = group.max_client_disconnect_ns, group.stop_after_client_disconnect_ns
    findings.check(
        lost_ns is not None and lost_ns < 0,
        "max_client_disconnect cannot be negative",
        "MaxClientDisconnect",
    )
    findings.check(
        stop_ns is not None and stop_ns < 0,
        "stop_after_client_disconnect cannot be negative",
        "StopAfterClientDisconnect",
    )


def _targets(findings: Findings, group: TaskGroup, job: Job) -> None:
    if job.type == "system":
        findings.check(
            bool(group.affinities), "System jobs may not have an affinity block", "Affinities"
        )
    else:
        check_affinities(findings, group.affinities)
    inner = findings.at("RestartPolicy")
    check_restart(inner, group.restart_policy)
    findings.include(inner)
    if job.type == "system":
        findings.check(bool(group.spreads), "System jobs may not have a spread block", "Spreads")
    else:
        check_spreads(findings, group.spreads)


def _policies(findings: Findings, group: TaskGroup, job: Job) -> None:
    if group.reschedule_policy is not None:
        inner = findings.at("ReschedulePolicy")
        if job.type == "system":
            inner.add("System jobs should not have a reschedule policy")
        else:
            check_reschedule(inner, group.reschedule_policy)
        findings.include(inner)
    size_mb = group.ephemeral_disk.size_mb
    if size_mb < _MIN_DISK_MB:
        findings.add(f"minimum DiskMB value is {_MIN_DISK_MB}; got {size_mb}", "EphemeralDisk")
    if group.update is not None:
        inner = findings.at("Update")
        if job.type not in ("service", "system"):
            inner.add(f"Job type {quote(job.type)} does not allow update block")
        check_update(inner, group.update)
        findings.include(inner)
    if group.migrate is not None:
        inner = findings.at("Migrate")
        if job.type == "service":
            check_migrate(inner, group.migrate)
        else:
            inner.add(f"Job type {quote(job.type)} does not allow migrate block")
        findings.include(inner)


def _run_duration(findings: Findings, group: TaskGroup, job: Job) -> None:
    if group.max_run_duration_ns is None:
        return
    if job.type not in ("batch", "sysbatch"):
        findings.add(
            f"Job type {quote(job.type)} does not allow max_run_duration", "MaxRunDuration"
        )
    findings.check(
        group.max_run_duration_ns <= 0,
        "MaxRunDuration must be greater than zero",
        "MaxRunDuration",
    )


def _task_names(findings: Findings, group: TaskGroup) -> None:
    first: dict[str, int] = {}
    for index, task in enumerate(group.tasks):
        if not task.name:
            findings.add(f"Task {index + 1} missing name", "Tasks", index)
        elif task.name in first:
            findings.add(
                f"Task {index + 1} redefines '{task.name}' from task {first[task.name] + 1}",
                "Tasks",
                index,
            )
        else:
            first[task.name] = index
    findings.check(
        sum(task.leader for task in group.tasks) > 1, "Only one task may be marked as leader"
    )
    if group.tasks and all(task.lifecycle is not None for task in group.tasks):
        findings.add(f"Task group {group.name} must have at least one main task")


def _services(findings: Findings, group: TaskGroup) -> None:
    inner = findings.at()
    check_group_services(inner, group)
    findings.nest("Task group service validation failed", inner)
    inner = findings.at()
    check_script_checks(inner, group)
    findings.nest("Task group service check validation failed", inner)


def _shared(findings: Findings, group: TaskGroup, job: Job) -> None:
    canaries = group.update.canary if group.update is not None else 0
    for name, volume in (group.volumes or {}).items():
        inner = findings.at("Volumes", name)
        check_volume(inner, volume, job.type, group.count, canaries)
        findings.nest(f"Task group volume validation for {name} failed", inner)
    if group.networks or any(task.resources.networks for task in group.tasks):
        inner = findings.at()
        check_networks(inner, group)
        findings.nest("Task group network validation failed", inner)
    if group.services or any(task.services for task in group.tasks):
        _services(findings, group)
    if group.scaling is not None:
        inner = findings.at("Scaling")
        check_scaling(inner, group.scaling, group.count, job.type)
        findings.nest("Task group scaling policy validation failed", inner)
