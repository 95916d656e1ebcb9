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
NO_LIMIT = -1
"""`memory_max` of a raw_exec task that may use all memory of the node."""
_MIB = 1 << 20
_LEAST_SHARES, _MOST_SHARES, _MOST_WEIGHT = 2, 262_144, 10_000
"""Version 1 counts a group's part of the processor in shares, version 2 by weights from 1."""
_V1_LIMITS = ("limit", "memsw.limit")
"""Of memory, and of memory and swap together: the order in which the kernel takes them."""
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
            return self._in_unified(group, {"cpuset": {"cpuset.cpus": cores}})
        root = self.controllers.get("cpuset", "")
        mems = _text(f"{root}/cpuset.mems").strip()
        values = {"cpuset.cpus": cores, "cpuset.mems": mems}
        group = self._in_trees(group, name, {"cpuset": values})
        if group is None or not root:
            return group
        parent = f"{root}/{CGROUP_PARENT}"
        inherited = {
            f"{parent}/cpuset.cpus": _text(f"{root}/cpuset.cpus").strip(),
            f"{parent}/cpuset.mems": mems,
        }
        return msgspec.structs.replace(group, values={**inherited, **group.values})

    def with_limits(
        self, group: ControlGroup | None, name: str, resources: TaskResources
    ) -> ControlGroup | None:
        """The group, whose members together have the task's memory and its share of the processor,
        where the node has the controllers and the job names no unified group of its own."""
        hard, soft = memory_limits(resources)
        if resources.memory_max_mb == NO_LIMIT:
            hard, soft = 0, hard
        shares = max(_LEAST_SHARES, resources.cpu_shares)
        if self.mode == "v2":
            if group is None:
                return None
            memory = {"memory.max": str(hard), "memory.swap.max": "0"} if hard else {}
            memory |= {"memory.low": str(soft)} if soft else {}
            above = min(shares, _MOST_SHARES) - _LEAST_SHARES
            weight = 1 + above * (_MOST_WEIGHT - 1) // (_MOST_SHARES - _LEAST_SHARES)
            cpu = {"cpu.weight": str(weight)}
            limited = self._in_unified(group, {"memory": memory, "cpu": cpu})
            return msgspec.structs.replace(limited, oom=f"{group.kill}/memory.events")
        memory = {f"memory.{each}_in_bytes": str(hard) for each in _V1_LIMITS} if hard else {}
        memory |= {"memory.soft_limit_in_bytes": str(soft)} if soft else {}
        limited_v1 = self._in_trees(
            group, name, {"memory": memory, "cpu": {"cpu.shares": str(shares)}}
        )
        root = self.controllers.get("memory", "")
        if limited_v1 is None or not root:
            return limited_v1
        oom = f"{root}/{CGROUP_PARENT}/{name}/memory.oom_control"
        return msgspec.structs.replace(limited_v1, oom=oom)

    def _in_unified(
        self, group: ControlGroup, wanted: Mapping[str, Mapping[str, str]]
    ) -> ControlGroup:
        """`group` of the unified tree with values by controller, which are passed on to it first:
        those that the node has."""
        there = _text(f"{self.unified}/cgroup.controllers").split()
        values = dict(group.values)
        for path in (self.unified, f"{self.unified}/{CGROUP_PARENT}"):
            file = f"{path}/cgroup.subtree_control"
            enabled = [*values.get(file, "").split(), *(f"+{each}" for each in wanted)]
            values[file] = " ".join(each for each in enabled if each[1:] in there)
        for controller, files in wanted.items():
            if controller in there:
                values |= {f"{group.kill}/{file}": text for file, text in files.items()}
        return msgspec.structs.replace(group, values=values)

    def _in_trees(
        self, group: ControlGroup | None, name: str, wanted: Mapping[str, Mapping[str, str]]
    ) -> ControlGroup | None:
        """`group` and a group in the tree of each controller that the node has, with its values."""
        for controller, files in wanted.items():
            if root := self.controllers.get(controller, ""):
                directory = f"{root}/{CGROUP_PARENT}/{name}"
                group = group or ControlGroup()
                values = {f"{directory}/{file}": text for file, text in files.items()}
                group = msgspec.structs.replace(
                    group,
                    dirs=[*group.dirs, directory],
                    values={**group.values, **values},
                    members=[*group.members, f"{directory}/cgroup.procs"],
                )
        return group

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


def memory_limits(resources: TaskResources) -> tuple[int, int]:
    """Returns the most bytes that a task may use, and how many it keeps when memory is short; 0
    where that is not less."""
    if resources.memory_max_mb > resources.memory_mb:
        return resources.memory_max_mb * _MIB, resources.memory_mb * _MIB
    return resources.memory_mb * _MIB, 0


def oci_resources(resources: TaskResources) -> dict[str, object]:
    """The limits of a task as the OCI runtime specification has them."""
    hard, soft = memory_limits(resources)
    memory = {"limit": hard, "swap": hard}
    if soft:
        memory["reservation"] = soft
    cpu: dict[str, object] = {"shares": max(_LEAST_SHARES, resources.cpu_shares)}
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
