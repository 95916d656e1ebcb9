"""A task's environment: the `NOMAD_*` variables, the commit of its job, and the job's own `env`.

Pure: everything is passed in. Later sources win: the host's variables (for drivers that see the
host's files), the built-in ones, templates' variables, the task's `env`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent.drivers.base import NetworkIsolation
from orchgit.host_port import join_host_port
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.interpolation import Interpolator, node_names
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.runtime_variables import (
    PARENT_CGROUP,
    allocated_ports,
    allocated_task,
    identity_variables,
    meta_variables,
    port_variables,
    resource_variables,
)
from orchgit.model.task import Task

DEFAULT_ALLOWED = ("PATH", "HOME", "LANG", "LC_*", "TZ", "TMPDIR")
"""What of the agent's environment tasks see where its configuration names nothing else."""
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE|^(NOMAD|ORCHGIT|VAULT|CONSUL|AWS|GOOGLE)_",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EnvInput:
    """The sources of a task's environment."""

    node: Node
    region: str
    job: Job
    group: TaskGroup
    task: Task
    alloc: Allocation
    alloc_dir: str
    """The three directories as the task itself sees them."""
    local_dir: str
    secrets_dir: str
    host_env: Mapping[str, str]
    template_env: Mapping[str, str]
    network: NetworkIsolation | None = None


@dataclass(frozen=True, slots=True)
class TaskEnv:
    env: dict[str, str]
    interpolate: Interpolator
    names: dict[str, str]
    """The node's names."""


def build(source: EnvInput) -> TaskEnv:
    """The environment, and the interpolator for the job's other strings."""
    names = node_names(source.node, source.region)
    job, group, task, alloc = source.job, source.group, source.task, source.alloc
    known = {
        **identity_variables(job, group, task, alloc, source.node, source.region),
        **_directories(source),
        **_resources(source),
        **_network(source),
        **_origin(job, alloc),
        "NOMAD_PARENT_CGROUP": PARENT_CGROUP,
    }
    written = {**known, **port_variables(alloc, as_written=True)}
    in_meta = Interpolator(names, written)
    in_env = {
        **source.host_env,
        **meta_variables(job, group, task, in_meta, as_written=True),
        **written,
        **source.template_env,
    }
    env = {
        **source.host_env,
        **meta_variables(job, group, task, in_meta),
        **known,
        **port_variables(alloc),
        **source.template_env,
    }
    first = Interpolator(names, in_env)
    given = task.env or {}
    for name in _in_order(given):
        env[name] = in_env[name] = first.text(given[name])
    return TaskEnv(env, Interpolator(names, env), names)


def _in_order(given: Mapping[str, str]) -> list[str]:
    """Returns the names of a task's `env`, each after those that its value refers to. Of names that
    refer to each other, and of one that refers to itself, some see what is outside of `env`."""
    order: dict[str, None] = {}
    begun: set[str] = set()
    waiting = list(given)[::-1]  # no recursion: a chain of references may be of any length
    while waiting:
        name = waiting[-1]
        if name in begun:
            order[waiting.pop()] = None
            continue
        begun.add(name)
        others = Interpolator.references(given[name])
        waiting += [each for each in reversed(others) if each in given and each not in begun]
    return list(order)


def host_env(
    environ: Mapping[str, str], allowed: Sequence[str] = DEFAULT_ALLOWED
) -> dict[str, str]:
    """The agent's own variables that a name or pattern of `allowed` names.

    A pattern never passes on what may be, or lead to, a secret; its full name does.
    """
    patterns = [one for one in allowed if "*" in one]
    return {
        name: value
        for name, value in environ.items()
        if name in allowed
        or (not _SECRET_NAME.search(name) and any(fnmatchcase(name, one) for one in patterns))
    }


def _directories(source: EnvInput) -> dict[str, str]:
    return {
        "NOMAD_ALLOC_DIR": source.alloc_dir,
        "NOMAD_TASK_DIR": source.local_dir,
        "NOMAD_SECRETS_DIR": source.secrets_dir,
    }


def _resources(source: EnvInput) -> dict[str, str]:
    given = allocated_task(source.alloc, source.task)
    env = resource_variables(source.alloc, source.task)
    cores = given.cpu.reserved_cores or ()
    for network in given.networks or ():
        for port in (*(network.reserved_ports or ()), *(network.dynamic_ports or ())):
            version = 6 if ":" in network.ip else 4
            env |= {
                f"NOMAD_IP_{port.label}": network.ip,
                f"NOMAD_IPv{version}_{port.label}": network.ip,
                f"NOMAD_PORT_{port.label}": str(port.to if port.to > 0 else port.value),
                f"NOMAD_HOST_PORT_{port.label}": str(port.value),
                f"NOMAD_ADDR_{port.label}": join_host_port(network.ip, port.value),
            }
    env["NOMAD_CPU_CORES"] = core_list(cores) or " "
    return env


def _network(source: EnvInput) -> dict[str, str]:
    """Where each port of the group is inside its own network."""
    network = source.network
    if network is None or not network.address:
        return {}
    env: dict[str, str] = {}
    for port in allocated_ports(source.alloc):
        number = port.to if port.to > 0 else port.value
        env |= {
            f"NOMAD_ALLOC_INTERFACE_{port.label}": network.interface,
            f"NOMAD_ALLOC_IP_{port.label}": network.address,
            f"NOMAD_ALLOC_ADDR_{port.label}": join_host_port(network.address, number),
        }
    return env


def core_list(cores: Sequence[int]) -> str:
    """Returns `0-2,7,12-14`, as the kernel writes sets of processors."""
    ranges: list[list[int]] = []
    for core in sorted(set(cores)):
        if ranges and ranges[-1][1] == core - 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _origin(job: Job, alloc: Allocation) -> dict[str, str]:
    commit = alloc.commit_id or (job.origin.commit_id if job.origin else "")
    env = {"ORCHGIT_COMMIT": commit} if commit else {}
    if job.origin and job.origin.source:
        env["ORCHGIT_SOURCE"] = job.origin.source
    return env
