"""The `NOMAD_*` variables that follow from a job, its allocation and the node alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.interpolation import Interpolator
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort
from orchgit.model.task import Task

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


def port_variables(alloc: Allocation) -> dict[str, str]:
    env: dict[str, str] = {}
    for port in allocated_ports(alloc):
        label, clean = port.label, _NOT_IN_NAMES.sub("_", port.label)
        host = f"[{port.host_ip}]" if ":" in port.host_ip else port.host_ip
        address = f"{host}:{port.value}"
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
    job: Job, group: TaskGroup, task: Task | None, names: Mapping[str, str]
) -> dict[str, str]:
    """Returns `meta`, task over group over job; each key as written and in upper case.

    What a dispatch may give and did not is "".
    """
    interpolate = Interpolator(names, {})
    env: dict[str, str] = {}
    optional = job.parameterized_job.meta_optional if job.parameterized_job else None
    for level in (
        dict.fromkeys(optional or (), ""),
        job.meta,
        group.meta,
        task.meta if task else None,
    ):
        for key, value in (level or {}).items():
            clean = _NOT_IN_NAMES.sub("_", key)
            text = interpolate.text(value)
            env[f"NOMAD_META_{clean}"] = text
            env[f"NOMAD_META_{clean.upper()}"] = text
    return env
