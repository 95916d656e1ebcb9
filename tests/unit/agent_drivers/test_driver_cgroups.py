"""Finding control groups in each of the four layouts, on trees made of plain files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.drivers.base import TaskResources


def tree(root: Path, layout: str) -> Path:
    if layout in ("v1", "hybrid"):
        for name in ("cpu", "memory", "freezer", "cpuacct", "net_cls"):
            (root / name).mkdir(parents=True)
    if layout == "hybrid":
        (root / "unified").mkdir()
        (root / "unified" / "cgroup.controllers").write_text("")
    if layout == "v2":
        root.mkdir()
        (root / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    return root


@pytest.mark.parametrize("layout", ["v1", "v2", "hybrid", "none"])
def test_layout_is_recognised(tmp_path: Path, layout: str) -> None:
    assert cgroups.detect(tree(tmp_path / "cgroup", layout)).mode == layout


@pytest.mark.parametrize(
    ("layout", "directory"),
    [("v2", "nomad.slice/t"), ("hybrid", "unified/nomad.slice/t"), ("v1", "freezer/nomad.slice/t")],
)
def test_one_group_holds_a_task_together(tmp_path: Path, layout: str, directory: str) -> None:
    root = tree(tmp_path / "cgroup", layout)
    group = cgroups.detect(root).tracking("t")
    assert group is not None
    assert group.kill == f"{root}/{directory}"
    assert group.dirs == [group.kill]
    assert group.members == [f"{group.kill}/cgroup.procs"]


@pytest.mark.parametrize(
    ("layout", "directory"),
    [("v2", ""), ("hybrid", "freezer/nomad.slice/t"), ("v1", "freezer/nomad.slice/t")],
)
def test_task_in_another_unified_group_is_held_together_in_another_tree(
    tmp_path: Path, layout: str, directory: str
) -> None:
    root = tree(tmp_path / "cgroup", layout)
    found = cgroups.detect(root)
    group = found.tracking("t", beside_unified=True)
    assert (group.kill if group else "") == (f"{root}/{directory}" if directory else "")
    assert found.holding("t") is None
    if group is not None:
        Path(group.kill).mkdir(parents=True)
        assert found.holding("t") == group


def test_overrides_are_those_of_the_trees_that_the_node_has(tmp_path: Path) -> None:
    found = cgroups.detect(tree(tmp_path / "hybrid", "hybrid"))
    root = tmp_path / "hybrid"
    given = found.overrides({"memory": "a/b", "pids": "c"}, f"{root}/unified/d")
    assert given == [f"{root}/unified/d", f"{root}/memory/a/b"]
    assert cgroups.detect(tree(tmp_path / "v1", "v1")).overrides({}, "d") == []


def test_cores_are_set_in_the_one_group_of_version_two_after_they_are_passed_on_to_it(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path / "cgroup", "v2")
    layout = cgroups.detect(root)
    cores = TaskResources(reserved_cores=(1, 3))
    group = layout.with_cores(layout.tracking("t"), "t", cores)
    assert group is not None
    assert group.dirs == [f"{root}/nomad.slice/t"]
    assert list(group.values.items()) == [
        (f"{root}/cgroup.subtree_control", "+cpuset"),
        (f"{root}/nomad.slice/cgroup.subtree_control", "+cpuset"),
        (f"{root}/nomad.slice/t/cpuset.cpus", "1,3"),
    ]
    assert layout.with_cores(None, "t", cores) is None
    assert layout.with_cores(layout.tracking("t"), "t", TaskResources()) == layout.tracking("t")


@pytest.mark.parametrize(
    ("resources", "memory"),
    [
        (TaskResources(memory_mb=10), {"memory.max": 10 << 20, "memory.swap.max": 0}),
        (
            TaskResources(memory_mb=10, memory_max_mb=20),
            {"memory.max": 20 << 20, "memory.swap.max": 0, "memory.low": 10 << 20},
        ),
        (TaskResources(memory_mb=10, memory_max_mb=-1), {"memory.low": 10 << 20}),
    ],
)
def test_limits_are_set_in_the_one_group_of_version_two(
    tmp_path: Path, resources: TaskResources, memory: dict[str, int]
) -> None:
    root = tree(tmp_path / "cgroup", "v2")
    layout = cgroups.detect(root)
    group = layout.with_limits(layout.tracking("t"), "t", resources)
    assert group is not None
    assert group.oom == f"{root}/nomad.slice/t/memory.events"
    assert group.values == {
        f"{root}/cgroup.subtree_control": "+memory +cpu",
        f"{root}/nomad.slice/cgroup.subtree_control": "+memory +cpu",
        **{f"{root}/nomad.slice/t/{name}": str(value) for name, value in memory.items()},
        f"{root}/nomad.slice/t/cpu.weight": "4",
    }
    assert layout.with_limits(None, "t", resources) is None


def test_cores_and_limits_of_version_two_are_passed_on_together(tmp_path: Path) -> None:
    root = tree(tmp_path / "cgroup", "v2")
    layout, resources = cgroups.detect(root), TaskResources(reserved_cores=(1,))
    (root / "cgroup.controllers").write_text("cpuset cpu\n")
    group = layout.with_cores(layout.tracking("t"), "t", resources)
    group = layout.with_limits(group, "t", resources)
    assert group is not None
    assert group.values == {
        f"{root}/cgroup.subtree_control": "+cpuset +cpu",
        f"{root}/nomad.slice/cgroup.subtree_control": "+cpuset +cpu",
        f"{root}/nomad.slice/t/cpuset.cpus": "1",
        f"{root}/nomad.slice/t/cpu.weight": "4",
    }


def test_limits_of_version_one_are_set_in_groups_of_their_own(tmp_path: Path) -> None:
    root = tree(tmp_path / "cgroup", "v1")
    layout, resources = cgroups.detect(root), TaskResources(memory_mb=10, memory_max_mb=20)
    group = layout.with_limits(layout.tracking("t"), "t", resources)
    assert group is not None
    assert group.kill == f"{root}/freezer/nomad.slice/t"
    assert group.dirs == [f"{root}/{each}/nomad.slice/t" for each in ("freezer", "memory", "cpu")]
    assert group.members == [f"{each}/cgroup.procs" for each in group.dirs]
    assert group.oom == f"{root}/memory/nomad.slice/t/memory.oom_control"
    assert list(group.values.items()) == [
        (f"{root}/memory/nomad.slice/t/memory.limit_in_bytes", str(20 << 20)),
        (f"{root}/memory/nomad.slice/t/memory.memsw.limit_in_bytes", str(20 << 20)),
        (f"{root}/memory/nomad.slice/t/memory.soft_limit_in_bytes", str(10 << 20)),
        (f"{root}/cpu/nomad.slice/t/cpu.shares", "100"),
    ]


def test_without_groups_there_is_none(tmp_path: Path) -> None:
    assert cgroups.detect(tmp_path / "nothing").tracking("t") is None


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        ("v2", "nomad.slice/t/memory.events"),
        ("v1", "memory/nomad.slice/t/memory.oom_control"),
        ("hybrid", "memory/nomad.slice/t/memory.oom_control"),
    ],
)
def test_memory_kills_are_counted_where_the_memory_controller_is(
    tmp_path: Path, layout: str, file: str
) -> None:
    root = tree(tmp_path / "cgroup", layout)
    assert cgroups.detect(root).runtime_owned("t").oom == f"{root}/{file}"


def test_stats_are_read_from_either_version(tmp_path: Path) -> None:
    two = tree(tmp_path / "two", "v2")
    group = two / "nomad.slice" / "t"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("4096\n")
    (group / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (group / "cgroup.procs").write_text("11\n12\n")
    stats = cgroups.detect(two).stats("t")
    assert (stats.memory_bytes, stats.cpu_ns, stats.pids) == (4096, 1_500_000, (11, 12))
    one = tree(tmp_path / "one", "v1")
    for controller, name, text in (
        ("memory", "memory.usage_in_bytes", "8192"),
        ("cpuacct", "cpuacct.usage", "77"),
    ):
        (one / controller / "nomad.slice" / "t").mkdir(parents=True)
        (one / controller / "nomad.slice" / "t" / name).write_text(text)
    stats = cgroups.detect(one).stats("t")
    assert (stats.memory_bytes, stats.cpu_ns, stats.pids) == (8192, 77, ())


def test_limits_for_a_container_runtime() -> None:
    made = cgroups.oci_resources(
        TaskResources(cpu_shares=500, memory_mb=64, memory_max_mb=128, reserved_cores=(0, 2))
    )
    assert made == {
        "memory": {"limit": 128 << 20, "swap": 128 << 20, "reservation": 64 << 20},
        "cpu": {"shares": 500, "cpus": "0,2"},
    }
    assert cgroups.oci_resources(TaskResources(cpu_shares=1))["cpu"] == {"shares": 2}
