"""Constraints a job does not write down but its other settings imply, added to its groups."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from msgspec.structs import replace

from orchgit.model.constraint import Constraint
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.service import Service


def with_implied_constraints(job: Job) -> Job:
    """Each group gets what its tasks' signals, services and Vault blocks need of a node.

    Idempotent: a constraint that is there already is not added again.
    """
    groups = [_completed(group, job) for group in job.task_groups]
    if all(map(operator.is_, groups, job.task_groups)):
        return job
    return replace(job, task_groups=groups)


def _completed(group: TaskGroup, job: Job) -> TaskGroup:
    present = [*(job.constraints or ()), *(group.constraints or ())]
    missing = [constraint for constraint in _implied(group) if constraint not in present]
    if not missing:
        return group
    return replace(group, constraints=[*(group.constraints or ()), *missing])


def _implied(group: TaskGroup) -> Iterator[Constraint]:
    signals = sorted(_signals(group))
    if signals:
        yield Constraint("${attr.os.signals}", ",".join(signals), "set_contains")
    services = list(_services(group))
    providers = {service.provider for service in services}
    if "nomad" in providers:
        yield Constraint("${attr.nomad.service_discovery}", "true", "=")
    if any(service.provider == "nomad" and service.checks for service in services):
        yield Constraint("${attr.nomad.version}", ">= 1.4.0", "semver")
    if "consul" in providers:
        yield Constraint("${attr.consul.version}", ">= 1.8.0", "semver")
    if any(task.identities for task in group.tasks):
        yield Constraint("${attr.nomad.version}", ">= 1.7.0-a", "semver")
    if any(task.vault for task in group.tasks):
        yield Constraint("${attr.vault.version}", ">= 0.6.1", "semver")


def _services(group: TaskGroup) -> Iterator[Service]:
    yield from group.services or ()
    for task in group.tasks:
        yield from task.services or ()


def _signals(group: TaskGroup) -> set[str]:
    found: set[str] = set()
    for task in group.tasks:
        if task.kill_signal:
            found.add(task.kill_signal)
        found.update(
            template.change_signal
            for template in task.templates or ()
            if template.change_mode == "signal" and template.change_signal
        )
    return found
