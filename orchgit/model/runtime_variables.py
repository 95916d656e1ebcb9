"""The `NOMAD_*` variables that follow from a job, its allocation and the node alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from orchgit.host_port import join_host_port
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.interpolation import Interpolator, node_names
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedTask
from orchgit.model.task import Task

PARENT_CGROUP = "nomad.slice"
"""The control group above those of all tasks."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


def identity_variables(
    job: Job, group: TaskGroup, task: Task | None, alloc: Allocation, node: Node, region: str
) -> dict[str, str]:
    """Returns the variables that say which allocation and task run where.

    Without a task: those that the services of a group may refer to.
    """
    env = {
        "NOMAD_ALLOC_ID": alloc.id,
        "NOMAD_SHORT_ALLOC_ID": alloc.id[:8],
        "NOMAD_ALLOC_NAME": alloc.name,
        "NOMAD_ALLOC_INDEX": str(alloc.name_index),
        "NOMAD_GROUP_NAME": group.name,
        "NOMAD_JOB_ID": job.id,
        "NOMAD_JOB_NAME": job.name,
        "NOMAD_DC": node.datacenter,
        "NOMAD_REGION": region,
        "NOMAD_NAMESPACE": alloc.namespace,
    }
    if task is not None:
        env["NOMAD_TASK_NAME"] = task.name
    if job.parent_id:
        env["NOMAD_JOB_PARENT_ID"] = job.parent_id
    return env


def allocated_ports(alloc: Allocation) -> list[AllocatedPort]:
    """Returns the ports of the group, from its networks where no flat list was stored."""
    given = alloc.allocated_resources
    if given is None:
        return []
    if given.shared.ports:
        return given.shared.ports
    return [
        AllocatedPort(label=port.label, value=port.value, to=port.to, host_ip=network.ip)
        for network in given.shared.networks or ()
        for port in (*(network.reserved_ports or ()), *(network.dynamic_ports or ()))
    ]


def port_variables(alloc: Allocation, as_written: bool = False) -> dict[str, str]:
    """Returns the variables of the group's ports.

    `as_written`: the names that texts of the job itself use, with labels as they are written.
    """
    env: dict[str, str] = {}
    for port in allocated_ports(alloc):
        label = port.label
        clean = label if as_written else _NOT_IN_NAMES.sub("_", label)
        address = join_host_port(port.host_ip, port.value)
        env |= {
            f"NOMAD_IP_{clean}": port.host_ip,
            f"NOMAD_PORT_{clean}": str(port.to if port.to > 0 else port.value),
            f"NOMAD_ADDR_{clean}": address,
            f"NOMAD_HOST_PORT_{clean}": str(port.value),
            # These three have the label as it is written (recorded).
            f"NOMAD_HOST_IP_{label}": port.host_ip,
            f"NOMAD_HOST_ADDR_{label}": address,
            f"NOMAD_ALLOC_PORT_{label}": str(port.to if port.to > 0 else port.value),
        }
    return env


def meta_variables(
    job: Job,
    group: TaskGroup,
    task: Task | None,
    interpolate: Interpolator,
    as_written: bool = False,
) -> dict[str, str]:
    """Returns `meta`, task over group over job; each key in its own case and in upper case.

    What a dispatch may give and did not is "". `as_written`: as of `port_variables`.
    """
    env: dict[str, str] = {}
    optional = job.parameterized_job.meta_optional if job.parameterized_job else None
    for level in (
        dict.fromkeys(optional or (), ""),
        job.meta,
        group.meta,
        task.meta if task else None,
    ):
        for key, value in (level or {}).items():
            clean = key if as_written else _NOT_IN_NAMES.sub("_", key)
            text = interpolate.text(value)
            env[f"NOMAD_META_{clean}"] = text
            env[f"NOMAD_META_{clean.upper()}"] = text
    return env


def resource_variables(alloc: Allocation, task: Task) -> dict[str, str]:
    """Returns the limits of the task."""
    given = allocated_task(alloc, task)
    env = {
        "NOMAD_CPU_LIMIT": str(given.cpu.cpu_shares),
        "NOMAD_MEMORY_LIMIT": str(given.memory.memory_mb),
    }
    if given.memory.memory_max_mb:
        env["NOMAD_MEMORY_MAX_LIMIT"] = str(given.memory.memory_max_mb)
    return env


def allocated_task(alloc: Allocation, task: Task) -> AllocatedTask:
    """The resources of the allocation for the task; those that the task asks for, without any."""
    if alloc.allocated_resources and task.name in alloc.allocated_resources.tasks:
        return alloc.allocated_resources.tasks[task.name]
    given = AllocatedTask()
    given.cpu.cpu_shares = task.resources.cpu
    given.memory.memory_mb = task.resources.memory_mb
    given.memory.memory_max_mb = task.resources.memory_max_mb
    return given


def service_interpolator(
    job: Job,
    group: TaskGroup,
    task: Task | None,
    alloc: Allocation,
    node: Node,
    directories: Mapping[str, str] = MappingProxyType({}),
) -> Interpolator:
    """Returns what the services of the task, or of the group without one, may refer to.

    The services of a group know nothing of its tasks.
    """
    names = node_names(node, job.region)
    known = {
        **identity_variables(job, group, task, alloc, node, job.region),
        **(resource_variables(alloc, task) if task else {}),
        **directories,
        "NOMAD_PARENT_CGROUP": PARENT_CGROUP,
    }
    in_meta = Interpolator(names, {**known, **port_variables(alloc, as_written=True)})
    env = {**meta_variables(job, group, task, in_meta), **known, **port_variables(alloc)}
    found = Interpolator(names, env)
    for name, value in ((task.env if task else None) or {}).items():
        env[name] = found.text(value)
    return found
