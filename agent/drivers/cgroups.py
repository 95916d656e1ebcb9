"""Where this node's control groups are, and which files hold one task's limits and counters.

Four layouts: v2 alone; v1 alone; both (`hybrid`: v1 controllers, v2 mounted beside them without
any, which still can kill a whole group at once); none. Without groups a task is still held
together by its process group.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.drivers.base import TaskResources, TaskStats
from agent.supervisor.protocol import ControlGroup
from orchgit.model.runtime_variables import PARENT_CGROUP

CGROUP_PARENT = PARENT_CGROUP
"""As Nomad's, since jobs read it in NOMAD_PARENT_CGROUP. The groups below it have names of ours."""
_MIB = 1 << 20
_CLOCK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_V1_CONTROLLERS = ("cpu", "cpuacct", "memory", "freezer", "pids", "cpuset")


class CgroupLayout(msgspec.Struct, frozen=True):
    """`unified` is the v2 tree ("" if none); `controllers` are v1 trees by name."""

    unified: str = ""
    controllers: dict[str, str] = {}

    @property
    def mode(self) -> str:
        if not self.unified:
            return "v1" if self.controllers else "none"
        return "hybrid" if self.controllers else "v2"

    def tracking(self, name: str, beside_unified: bool = False) -> ControlGroup | None:
        """A group that only holds a task's processes together: one tree, as joining costs time.

        `beside_unified`: in a v1 tree, for a task that is in another group of the unified tree.
        """
        root = self.controllers.get("freezer", "")
        if self.unified and not beside_unified:
            root = self.unified
        if not root:
            return None
        directory = f"{root}/{CGROUP_PARENT}/{name}"
        return ControlGroup(dirs=[directory], members=[f"{directory}/cgroup.procs"], kill=directory)

    def holding(self, name: str) -> ControlGroup | None:
        """The group that holds the processes of the running task `name`; None where none does."""
        groups = (self.tracking(name, beside_unified) for beside_unified in (False, True))
        return next((each for each in groups if each and os.path.isdir(each.kill)), None)

    def with_cores(
        self, group: ControlGroup | None, name: str, resources: TaskResources
    ) -> ControlGroup | None:
        """The group, whose members run on the task's reserved cores only, where the node has a
        cpuset controller and the job names no unified group of its own."""
        if not resources.reserved_cores:
            return group
        cores = ",".join(map(str, resources.reserved_cores))
        if self.mode == "v2" and group is not None:
            passed_on = (self.unified, f"{self.unified}/{CGROUP_PARENT}")
            enabled = {f"{path}/cgroup.subtree_control": "+cpuset" for path in passed_on}
            return msgspec.structs.replace(
                group, values={**group.values, **enabled, f"{group.kill}/cpuset.cpus": cores}
            )
        root = self.controllers.get("cpuset", "")
        if not root:
            return group
        group = group or ControlGroup()
        parent = f"{root}/{CGROUP_PARENT}"
        directory = f"{parent}/{name}"
        return ControlGroup(
            dirs=[*group.dirs, directory],
            values={
                f"{parent}/cpuset.cpus": _text(f"{root}/cpuset.cpus").strip(),
                f"{parent}/cpuset.mems": _text(f"{root}/cpuset.mems").strip(),
                f"{directory}/cpuset.cpus": cores,
                f"{directory}/cpuset.mems": _text(f"{root}/cpuset.mems").strip(),
            },
            members=[*group.members, f"{directory}/cgroup.procs"],
            kill=group.kill,
        )

    def overrides(self, v1: Mapping[str, str], v2: str) -> list[str]:
        """Directories of the groups that a job names for this machine's kinds of groups."""
        named = [(self.unified, v2)] if v2 else []
        named += [(self.controllers.get(name, ""), path) for name, path in v1.items()]
        return [
            os.path.join(root, path.removeprefix(root).lstrip("/")) for root, path in named if root
        ]

    def runtime_owned(self, name: str) -> ControlGroup:
        """The group that a container runtime makes for us at `oci_path(name)`."""
        counters = self.controllers.get("memory")
        path = self.oci_path(name)
        oom = f"{self.unified}{path}/memory.events"
        if counters:
            oom = f"{counters}{path}/memory.oom_control"
        root = self.unified or self.controllers.get("freezer", "")
        return ControlGroup(kill=f"{root}{path}" if root else "", oom=oom)

    def oci_path(self, name: str) -> str:
        return f"/{CGROUP_PARENT}/{name}"

    def stats(self, name: str) -> TaskStats:
        """Counters of a group with a memory and a cpu controller; zero where there are none."""
        path = self.oci_path(name)
        if self.mode == "v2":
            memory = _number(f"{self.unified}{path}/memory.current")
            counters = dict(
                line.split(maxsplit=1)
                for line in _text(f"{self.unified}{path}/cpu.stat").splitlines()
            )
            cpu_ns = int(counters.get("usage_usec", 0)) * 1000
        else:
            memory = _number(f"{self.controllers.get('memory')}{path}/memory.usage_in_bytes")
            cpu_ns = _number(f"{self.controllers.get('cpuacct')}{path}/cpuacct.usage")
        root = self.unified or self.controllers.get("freezer", "")
        return TaskStats(memory_bytes=memory, cpu_ns=cpu_ns, pids=tuple(_members(f"{root}{path}")))


def detect(root: Path = Path("/sys/fs/cgroup")) -> CgroupLayout:
    """The layout, with only those trees in which this process may make groups."""
    if (root / "cgroup.controllers").exists():
        usable = _usable(root)
        return CgroupLayout(unified=str(root)) if usable else CgroupLayout()
    controllers = {
        name: str(root / name) for name in _V1_CONTROLLERS if _usable((root / name).resolve())
    }
    unified = root / "unified"
    hybrid = (unified / "cgroup.controllers").exists() and _usable(unified)
    return CgroupLayout(unified=str(unified) if hybrid else "", controllers=controllers)


def process_stats(pid: int, group: ControlGroup | None) -> TaskStats:
    """Counters summed over a task's processes, for groups without controllers."""
    pids = (_members(group.kill) if group and group.kill else []) or [pid]
    memory = cpu_ns = 0
    for member in pids:
        if fields := _text(f"/proc/{member}/statm").split():
            memory += int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
        if fields := _text(f"/proc/{member}/stat").rpartition(")")[2].split():
            cpu_ns += (int(fields[11]) + int(fields[12])) * _CLOCK_NS
    return TaskStats(memory_bytes=memory, cpu_ns=cpu_ns, pids=tuple(pids))


def oci_resources(resources: TaskResources) -> dict[str, object]:
    """The limits of a task as the OCI runtime specification has them."""
    limit_mb = max(resources.memory_mb, resources.memory_max_mb)
    memory = {"limit": limit_mb * _MIB, "swap": limit_mb * _MIB}
    if resources.memory_max_mb > resources.memory_mb:
        memory["reservation"] = resources.memory_mb * _MIB
    cpu: dict[str, object] = {"shares": max(2, resources.cpu_shares)}
    if resources.reserved_cores:
        cpu["cpus"] = ",".join(str(core) for core in resources.reserved_cores)
    return {"memory": memory, "cpu": cpu}


def _usable(directory: Path) -> bool:
    return directory.is_dir() and os.access(directory, os.W_OK)


def _members(directory: str) -> list[int]:
    return [int(line) for line in _text(f"{directory}/cgroup.procs").split()]


def _number(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
