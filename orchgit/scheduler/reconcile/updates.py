"""Whether a changed job can update a running allocation in place, or must replace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.resources import NetworkResource, Port
from orchgit.model.service import Service
from orchgit.model.task import Task


def must_replace(old_job: Job, new_job: Job, group_name: str) -> bool:
    """Whether the group's tasks would run differently, so that they must be started anew."""
    old, new = old_job.group(group_name), new_job.group(group_name)
    if old is None or new is None:
        return True
    return (
        _group_differs(old, new)
        or len(old.tasks) != len(new.tasks)
        or any(_task_differs(old_job, old, new_job, new, task) for task in new.tasks)
    )


def _group_differs(old: TaskGroup, new: TaskGroup) -> bool:
    return (
        old.ephemeral_disk != new.ephemeral_disk
        or _networks_differ(old.networks, new.networks)
        or (old.volumes or {}) != (new.volumes or {})
        or _consul_differs(old.consul, new.consul)
        or _connect_of(old.services) != _connect_of(new.services)
        or old.restart_policy.render_templates != new.restart_policy.render_templates
    )


def _consul_differs(old: dict[str, Any] | None, new: dict[str, Any] | None) -> bool:
    """Another cluster or partition; a block that comes or goes says where the task is already."""
    if not old or not new:
        return False
    return any((old.get(key) or "") != (new.get(key) or "") for key in ("Cluster", "Partition"))


def _effective_meta(job: Job, group: TaskGroup) -> dict[str, str]:
    return {**(job.meta or {}), **(group.meta or {})}


def _connect_of(services: Sequence[Service] | None) -> list[tuple[str, Any]]:
    """Sidecars and gateways run beside the tasks; other service settings do not matter here."""
    return [(service.name, service.connect) for service in services or () if service.connect]


def _task_differs(
    old_job: Job, old_group: TaskGroup, new_job: Job, new_group: TaskGroup, new: Task
) -> bool:
    old = old_group.task(new.name)
    if old is None or _what_runs(old) != _what_runs(new):
        return True
    old_meta = {**_effective_meta(old_job, old_group), **(old.meta or {})}
    new_meta = {**_effective_meta(new_job, new_group), **(new.meta or {})}
    return (
        old_meta != new_meta
        or _consul_differs(old.consul, new.consul)
        or _networks_differ(old.resources.networks, new.resources.networks)
        or _what_is_given(old) != _what_is_given(new)
    )


def _what_runs(task: Task) -> tuple[Any, ...]:
    return (
        task.driver,
        task.user,
        task.config or {},
        task.env or {},
        task.artifacts or [],
        task.vault,
        task.templates or [],
        task.csi_plugin_config,
        task.volume_mounts or [],
        task.secrets or [],
        task.log_config.disabled,
        task.identity or None,
        task.identities or [],
        task.restart_policy is not None and task.restart_policy.render_templates,
    )


def _what_is_given(task: Task) -> tuple[Any, ...]:
    resources = task.resources
    return (
        resources.cpu,
        resources.cores,
        resources.memory_mb,
        resources.memory_max_mb,
        resources.secrets_mb,
        resources.numa,
        resources.devices or [],
    )


def _networks_differ(
    old: Sequence[NetworkResource] | None, new: Sequence[NetworkResource] | None
) -> bool:
    return [_network(network) for network in old or ()] != [
        _network(network) for network in new or ()
    ]


def _network(network: NetworkResource) -> tuple[Any, ...]:
    return (
        network.mode,
        network.mbits or 0,
        network.hostname,
        network.dns,
        network.cni,
        _ports(network.reserved_ports),
        _ports(network.dynamic_ports),
    )


def _ports(ports: Sequence[Port] | None) -> list[tuple[Any, ...]]:
    return [
        (port.label, port.value, port.to, port.host_network or "default") for port in ports or ()
    ]
