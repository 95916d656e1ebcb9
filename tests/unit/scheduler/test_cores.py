"""Which cores tasks are given, with and without a wish for one NUMA node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchgit.ids import SequentialIds
from orchgit.model.evaluation import Evaluation
from orchgit.model.node import Node, NodeDevice, NodeDeviceInstance
from orchgit.model.operator import SchedulerConfig
from orchgit.model.resources import (
    NUMA,
    AllocatedCpu,
    AllocatedResources,
    AllocatedTask,
    RequestedDevice,
    Resources,
)
from orchgit.model.task import Task
from orchgit.scheduler.ranking.cores import PREFER, REQUIRE, assign_cores
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_job, make_task
from tests.support.scheduling import make_network_node

MHZ = 1000


def node_of(*places: int) -> Node:
    """Core i is on NUMA node `places[i]`."""
    node = make_network_node(0, cpu_shares=MHZ * len(places))
    node.node_resources.cpu.total_cpu_cores = len(places)
    node.node_resources.cpu.reservable_cpu_cores = list(range(len(places)))
    cores = [{"ID": core, "NodeID": place, "BaseSpeed": MHZ} for core, place in enumerate(places)]
    node.node_resources.processors = {"Topology": {"Cores": cores}}
    return node


def used(*cores: int) -> list[AllocatedResources]:
    task = AllocatedTask(cpu=AllocatedCpu(reserved_cores=list(cores)))
    return [AllocatedResources(tasks={"t": task})]


def ids(node: Node, taken: list[AllocatedResources], count: int, affinity: str) -> list[int] | None:
    found = assign_cores(node, taken, {"t": count}, {"t": affinity})
    return found and found["t"][0]


def test_without_a_wish_the_lowest_free_ones_are_given() -> None:
    assert ids(node_of(0, 1, 0, 1), used(0), 2, "none") == [1, 2]


def test_preference_keeps_them_together_where_that_is_possible() -> None:
    assert ids(node_of(0, 1, 0, 1), [], 2, PREFER) == [0, 2]
    assert ids(node_of(0, 1, 0, 1), used(0), 2, PREFER) == [1, 3]
    assert ids(node_of(0, 1, 0, 1), used(0, 1), 2, PREFER) == [2, 3], "or else anywhere"


def test_smallest_numa_node_that_has_enough_is_used() -> None:
    assert ids(node_of(0, 0, 0, 1, 1), [], 2, PREFER) == [3, 4]


def test_requirement_is_met_or_nothing_is_given() -> None:
    assert ids(node_of(0, 1, 0, 1), used(0, 1), 2, REQUIRE) is None
    assert ids(node_of(0, 1, 0, 1), [], 3, REQUIRE) is None


@given(
    places=st.lists(st.integers(0, 2), min_size=1, max_size=10),
    taken=st.sets(st.integers(0, 9)),
    wanted=st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["none", PREFER, REQUIRE])), max_size=3
    ),
)
def test_no_core_is_given_twice_and_every_wish_is_heeded(
    places: list[int], taken: set[int], wanted: list[tuple[int, str]]
) -> None:
    node = node_of(*places)
    counts = {f"t{number}": count for number, (count, _) in enumerate(wanted)}
    affinities = {f"t{number}": affinity for number, (_, affinity) in enumerate(wanted)}
    found = assign_cores(node, used(*taken), counts, affinities)
    free = set(range(len(places))) - taken
    if found is None:
        assert sum(counts.values()) > len(free) or REQUIRE in affinities.values()
        return
    given_ids = [core for cores, _ in found.values() for core in cores]
    assert len(given_ids) == len(set(given_ids)) == sum(counts.values())
    assert set(given_ids) <= free
    for task, (cores, mhz) in found.items():
        assert mhz == MHZ * len(cores)
        if affinities[task] == REQUIRE:
            assert len({places[core] for core in cores}) == 1


def _placed(config: SchedulerConfig) -> tuple[list[int] | None, str]:
    """(the cores that a task is given, what the node lacked)"""
    cluster = ListCluster(NOW_NS)
    node = node_of(0, 1, 0, 1)
    cluster.nodes[node.id] = node
    cluster.config = config
    task = make_task(resources=Resources(cores=3, memory_mb=64, numa=NUMA(affinity=REQUIRE)))
    job = make_job(id="j", task_groups=[make_group(count=1, tasks=[task])])
    cluster.jobs[job.namespace, job.id, job.version] = job
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="job-register")
    outcome = schedule(evaluation, cluster, NOW_NS, 1, SequentialIds())
    failed = outcome.evaluation.failed_tg_allocs or {}
    lacks = "".join(next(iter(failed.values())).dimension_exhausted or {}) if failed else ""
    placements = outcome.plan.placements if outcome.plan is not None else []
    if not placements:
        return None, lacks
    (own,) = placements[0].resources_of.values()
    return next(iter(own.tasks.values())).cpu.reserved_cores, lacks


def test_cluster_heeds_numa_blocks_when_it_is_told_to() -> None:
    assert _placed(SchedulerConfig()) == ([0, 1, 2], "")
    assert _placed(SchedulerConfig(numa_enabled=True)) == (None, "numa")


# --- with devices -------------------------------------------------------------------------------


def gpu_node(*buses: str) -> Node:
    """Cores 0 to 3 on NUMA node 0, 4 to 7 on NUMA node 1; a card on each bus, `0a` on node 1."""
    node = node_of(0, 0, 0, 0, 1, 1, 1, 1)
    cards = [NodeDeviceInstance(id=f"g-{bus}", locality={"PciBusID": bus}) for bus in buses]
    node.node_resources.devices = [NodeDevice("acme", "gpu", "one", cards)]
    assert node.node_resources.processors is not None
    topology = node.node_resources.processors["Topology"]
    assert isinstance(topology, dict)
    topology["BusAssociativity"] = {"01": 0, "02": 0, "0a": 1}
    return node


def gpu_task(affinity: str, cores: int = 2, gpus: int = 1) -> Task:
    numa = NUMA(affinity=affinity, devices=["acme/gpu"])
    devices = [RequestedDevice(name="acme/gpu", count=gpus)]
    return make_task(resources=Resources(cores=cores, memory_mb=64, numa=numa, devices=devices))


def given_on(node: Node, task: Task, *, heeded: bool = True) -> tuple[list[int], list[str]] | str:
    """(cores, instances), or what the node has too little of."""
    cluster = ListCluster(NOW_NS)
    cluster.config = SchedulerConfig(numa_enabled=heeded)
    cluster.nodes[node.id] = node
    job = make_job(id="train", task_groups=[make_group(count=1, tasks=[task])])
    cluster.jobs[job.namespace, job.id, job.version] = job
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="job-register")
    outcome = schedule(evaluation, cluster, NOW_NS, 1, SequentialIds())
    failed = outcome.evaluation.failed_tg_allocs
    if failed:
        (metric,) = failed.values()
        return next(iter(metric.dimension_exhausted or {}))
    assert outcome.plan is not None
    resources = outcome.plan.placements[0].resources_of[0].tasks[task.name]
    (device,) = resources.devices or ()
    return resources.cpu.reserved_cores or [], device.device_ids


def test_cores_are_given_where_the_device_is() -> None:
    for affinity in (PREFER, REQUIRE):
        assert given_on(gpu_node("0a"), gpu_task(affinity)) == ([4, 5], ["g-0a"])
        assert given_on(gpu_node("01"), gpu_task(affinity)) == ([0, 1], ["g-01"])
        assert given_on(gpu_node("0a", "01", "02"), gpu_task(affinity, gpus=2)) == (
            [0, 1],
            ["g-01", "g-02"],
        )


def test_devices_of_two_numa_nodes_are_given_unless_one_node_is_required() -> None:
    far_apart = gpu_node("01", "0a")
    assert given_on(far_apart, gpu_task(REQUIRE, gpus=2)) == "numa"
    assert given_on(far_apart, gpu_task(PREFER, gpus=2)) == ([0, 1], ["g-01", "g-0a"])
    assert given_on(gpu_node("unknown"), gpu_task(REQUIRE)) == "numa"
    assert given_on(far_apart, gpu_task(REQUIRE, gpus=2), heeded=False) == (
        [0, 1],
        ["g-01", "g-0a"],
    )


def test_preference_that_needs_several_numa_nodes_takes_near_ones() -> None:
    node = node_of(0, 0, 1, 1, 2, 2)
    assert node.node_resources.processors is not None
    topology = node.node_resources.processors["Topology"]
    assert isinstance(topology, dict)
    topology |= {"Nodes": [0, 1, 2], "Distances": [[10, 30, 20], [30, 10, 30], [20, 30, 10]]}
    assert ids(node, [], 4, PREFER) == [0, 1, 4, 5]


def test_task_without_a_wish_takes_what_is_left_of_nearly_full_numa_nodes() -> None:
    assert ids(node_of(0, 0, 0, 1, 1), used(3), 1, "none") == [4]
    assert ids(node_of(0, 0, 0, 1, 1), used(3), 2, "") == [0, 1], "where numa is not heeded"
