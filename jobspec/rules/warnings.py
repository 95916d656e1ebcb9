"""Warnings about what is allowed but probably not meant."""

from __future__ import annotations

from typing import Any

from jobspec.rules.cluster import ClusterFacts
from jobspec.rules.findings import listed
from jobspec.rules.template_reads import template_warnings
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.service import Service
from orchgit.model.task import Task


def job_warnings(job: Job, cluster: ClusterFacts) -> list[str]:
    warnings: list[str] = []
    warnings += _auto_promote(job)
    for group in job.task_groups:
        inner = _group_warnings(group)
        if inner:
            warnings.append(f"Group {quote(group.name)} has warnings: {listed(inner)}".strip())
    for task in [task for group in job.task_groups for task in group.tasks]:
        names = [str(each.get("Name") or "") for each in task.identities or ()]
        warnings += [
            f"Task {task.name} has an identity called {name} but no vault block"
            for name in names
            if name.startswith("vault_") and task.vault is None
        ]
    if job.periodic is not None and job.periodic.spec:
        warnings.append(
            "cron is deprecated and may be removed in a future release. Use crons instead"
        )
    for group in job.task_groups:
        warnings += _shutdown_delay(group)
    warnings += _memory(job, cluster)
    warnings += template_warnings(job)
    return warnings


def _auto_promote(job: Job) -> list[str]:
    groups = [g for g in job.task_groups if g.update is not None and g.update.canary > 0]
    promoted = [g for g in groups if g.update is not None and g.update.auto_promote]
    if promoted and len(promoted) < len(groups):
        return ["auto_promote must be true for all groups to enable automatic promotion"]
    return []


def _group_warnings(group: TaskGroup) -> list[str]:
    warnings = [
        "mbits has been deprecated as of Nomad 0.12.0. Please remove mbits from the network block"
        for network in group.networks or ()
        if network.mbits
    ]
    for service in group.services or ():
        if service.identity is not None:
            found = _identity_warnings(service.identity)
            warnings += [f"Service {quote(service.name)}: {text}" for text in found]
    for task in group.tasks:
        inner = _task_warnings(task)
        if inner:
            warnings.append(f"Task {quote(task.name)} has warnings: {listed(inner)}")
    return warnings


def _task_warnings(task: Task) -> list[str]:
    warnings = []
    if task.resources.networks:
        warnings.append(
            "task network resources have been deprecated as of Nomad 0.12.0. Please configure "
            "networking via group network block."
        )
    if task.resources.iops:
        warnings.append(
            "IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block."
        )
    for index, template in enumerate(task.templates or ()):
        if template.vault_grace_ns:
            warnings.append(
                f"Template[{index}] VaultGrace has been deprecated as of Nomad 0.11 and ignored "
                "since Vault 0.5. Please remove VaultGrace / vault_grace from template block."
            )
    for identity in task.identities or ():
        name = identity.get("Name") or "default"
        if name == "default":
            continue
        inner = _identity_warnings(identity, f"Identity[{name}] ")
        if identity.get("Env") and identity.get("ChangeMode") != "restart":
            inner.append(
                f'Identity[{name}] using env=true without change_mode="restart" may result in '
                "task not getting updated identity"
            )
        if inner:
            warnings.append(listed(inner))
    return warnings


def _identity_warnings(identity: dict[str, Any], start: str = "") -> list[str]:
    warnings = []
    audience = identity.get("Audience") or ()
    if not audience:
        warnings.append(f"{start}identities without an audience are insecure")
    elif isinstance(audience, list) and len(audience) > 1:
        warnings.append(
            f"{start}while multiple audiences is allowed, it is more secure to use 1 "
            "audience per identity"
        )
    if not identity.get("TTL"):
        warnings.append(f"{start}identities without an expiration are insecure")
    return warnings


def _shutdown_delay(group: TaskGroup) -> list[str]:
    """A service should leave the catalogue before its task is stopped."""
    own = group.shutdown_delay_ns is not None
    late = [task for task in group.tasks if not (task.shutdown_delay_ns or own)]
    warnings = [
        f"task {quote(task.name)} in group {quote(group.name)} defines services, but has no "
        "shutdown_delay set"
        for task in late
        if task.services
    ]
    services = group.services or ()
    any_task = any(task.shutdown_delay_ns for task in group.tasks) or any(
        _brings_a_proxy(service, group) for service in services
    )
    if any(not service.task_name for service in services) and not own and not any_task:
        warnings.append(
            f"group {quote(group.name)} defines services, but neither the group nor any of its "
            "tasks have shutdown_delay set"
        )
    named = {service.task_name for service in services if service.task_name}
    warnings += [
        f"group {quote(group.name)} references task {quote(task.name)} in a service definition, "
        "but the task has no shutdown_delay set"
        for task in late
        if task.name in named
    ]
    return warnings


def _brings_a_proxy(service: Service, group: TaskGroup) -> bool:
    """A gateway's or, with a network, a sidecar's task is added, with a delay of its own."""
    connect = service.connect or {}
    sidecar = connect.get("SidecarService") is not None and len(group.networks or ()) == 1
    return sidecar or connect.get("Gateway") is not None


def _memory(job: Job, cluster: ClusterFacts) -> list[str]:
    if cluster.memory_oversubscription:
        return []
    return [
        f'Memory oversubscription is not enabled; Task "{group.name}.{task.name}" memory_max '
        "value will be ignored. Update the Scheduler Configuration to allow oversubscription."
        for group in job.task_groups
        for task in group.tasks
        if task.resources.memory_max_mb
    ]
