"""Adds to a job's groups the constraints that its other settings imply."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from orchgit.model.constraint import Constraint
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.service import Service
from orchgit.model.task import Task

_BRIDGE_PLUGINS = ("bridge", "firewall", "host-local", "loopback", "portmap")


def with_implied_constraints(job: Job) -> Job:
    """Returns the job with what its signals, services and Vault blocks need of a node.

    Idempotent: a constraint that is there already is not added again.
    """
    groups = [_completed(group, job) for group in job.task_groups]
    if all(map(operator.is_, groups, job.task_groups)):
        return job
    return replace(job, task_groups=groups)


def _completed(group: TaskGroup, job: Job) -> TaskGroup:
    present = [*(job.constraints or ()), *(group.constraints or ())]
    missing = [constraint for constraint in _implied(group) if constraint not in present]
    named = {constraint.l_target for constraint in group.constraints or ()}
    missing += [constraint for constraint in _bridge(group) if constraint.l_target not in named]
    tasks = [_with_partition(task) for task in group.tasks]
    if not missing and all(map(operator.is_, tasks, group.tasks)):
        return group
    constraints = [*(group.constraints or ()), *missing]
    return replace(group, constraints=constraints or None, tasks=tasks)


def _with_partition(task: Task) -> Task:
    missing = [each for each in _partition(task.consul) if each not in (task.constraints or ())]
    if not missing:
        return task
    return replace(task, constraints=[*(task.constraints or ()), *missing])


def _partition(consul: Mapping[str, object] | None) -> Iterator[Constraint]:
    """Requires the node to be in this admin partition of Consul."""
    partition = (consul or {}).get("Partition")
    if partition:
        yield Constraint("${attr.consul.partition}", str(partition), "=")


def _implied(group: TaskGroup) -> Iterator[Constraint]:
    signals = sorted(_signals(group))
    if signals:
        yield Constraint("${attr.os.signals}", ",".join(signals), "set_contains")
    services = [*(group.services or ())]
    for task in group.tasks:
        services += task.services or ()
    providers = {service.provider for service in services}
    if "nomad" in providers:
        yield Constraint("${attr.nomad.service_discovery}", "true", "=")
    if any(service.provider == "nomad" and service.checks for service in services):
        yield Constraint("${attr.nomad.version}", ">= 1.4.0", "semver")
    if "consul" in providers:
        yield Constraint("${attr.consul.version}", ">= 1.8.0", "semver")
    yield from _partition(group.consul)
    if _has_identities(group, services):
        yield Constraint("${attr.nomad.version}", ">= 1.7.0-a", "semver")
    if any(_is_transparent(service) for service in group.services or ()):
        yield Constraint("${attr.nomad.version}", ">= 1.8.0-dev", "semver")
        yield Constraint("${attr.plugins.cni.version.consul-cni}", ">= 1.4.2", "semver")
    if any(task.vault for task in group.tasks):
        yield Constraint("${attr.vault.version}", ">= 0.6.1", "semver")


def _bridge(group: TaskGroup) -> Iterator[Constraint]:
    """Requires the CNI plugins that make a bridge network.

    A group's own constraint on a plugin's version is kept instead.
    """
    if any(network.mode == "bridge" for network in group.networks or ()):
        for plugin in _BRIDGE_PLUGINS:
            yield Constraint(f"${{attr.plugins.cni.version.{plugin}}}", ">= 0.4.0", "semver")


def _is_transparent(service: Service) -> bool:
    sidecar = (service.connect or {}).get("SidecarService")
    proxy = sidecar.get("Proxy") if isinstance(sidecar, Mapping) else None
    return isinstance(proxy, Mapping) and bool(proxy.get("TransparentProxy"))


def _has_identities(group: TaskGroup, services: Iterable[Service]) -> bool:
    """Returns whether a workload has more identities than the default one."""
    named = (str(each.get("Name") or "") for task in group.tasks for each in task.identities or ())
    return any(name not in ("", "default") for name in named) or any(
        service.identity is not None for service in services
    )


def _signals(group: TaskGroup) -> set[str]:
    found: set[str] = set()
    for task in group.tasks:
        if task.kill_signal:
            found.add(task.kill_signal)
        if task.vault and task.vault.get("ChangeMode") == "signal":
            found.add(str(task.vault.get("ChangeSignal") or ""))
        found.update(
            template.change_signal
            for template in task.templates or ()
            if template.change_mode == "signal" and template.change_signal
        )
    return found - {""}
