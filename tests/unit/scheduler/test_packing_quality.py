"""How near bin packing comes to the best there is: few nodes, all possibilities tried.

Many small jobs arrive one by one and are placed as they come; the optimum knows all of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from orchgit.control.plans.check import examine_plan
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import Evaluation
from orchgit.model.resources import Resources
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_batch_job, make_group, make_task
from tests.support.scheduling import make_network_node

CLUSTERS = 200
CPU, MEMORY = 4000, 8192
Size = tuple[int, int]


def _sizes(chance: random.Random) -> list[Size]:
    """Some jobs of a few kinds, the way real ones have round numbers."""
    kinds = [
        (chance.choice((250, 500, 1000, 1500, 2000)), chance.choice((256, 512, 1024, 2048, 4096)))
        for _ in range(chance.randint(1, 4))
    ]
    return [chance.choice(kinds) for _ in range(chance.randint(4, 11))]


def _nodes_used(sizes: Sequence[Size], seed: int) -> int:
    """How many nodes have something when the jobs were placed one after the other."""
    cluster = ListCluster(NOW_NS)
    for number in range(len(sizes)):
        node = make_network_node(number, cpu_shares=CPU, memory_mb=MEMORY)
        cluster.nodes[node.id] = node
    ids = SequentialIds()
    for number, (cpu, memory_mb) in enumerate(sizes):
        task = make_task(resources=Resources(cpu=cpu, memory_mb=memory_mb))
        job = make_batch_job(id=f"job-{number}", task_groups=[make_group(count=1, tasks=[task])])
        cluster.jobs[job.namespace, job.id, job.version] = job
        evaluation = Evaluation(
            id=f"e{number}", type=job.type, job_id=job.id, triggered_by="job-register"
        )
        outcome = schedule(evaluation, cluster, NOW_NS, seed + number, ids)
        assert outcome.plan is not None
        cluster.apply(examine_plan(outcome.plan, cluster).result)
    assert len(cluster.allocs) == len(sizes), "there is a node for each of them"
    return len({allocation.node_id for allocation in cluster.allocs.values()})


def _fewest_nodes(sizes: Sequence[Size]) -> int:
    """By trying every way to share them out, largest first."""
    ordered = sorted(sizes, reverse=True)
    best = len(ordered)

    def place(position: int, nodes: list[Size]) -> None:
        nonlocal best
        if len(nodes) >= best:
            return
        if position == len(ordered):
            best = len(nodes)
            return
        cpu, memory_mb = ordered[position]
        for used in sorted(set(nodes)):
            if used[0] + cpu <= CPU and used[1] + memory_mb <= MEMORY:
                rest = list(nodes)
                rest.remove(used)
                place(position + 1, [*rest, (used[0] + cpu, used[1] + memory_mb)])
        place(position + 1, [*nodes, (cpu, memory_mb)])

    place(0, [])
    return best


def test_optimum_is_found_for_known_cases() -> None:
    """The first is full to the last MHz, and taking the largest that fits misses it."""
    fitting = [(1800, 1), (1700, 1), (1500, 1), (1300, 1), (1000, 1), (700, 1)]
    assert _fewest_nodes(fitting) == 2
    assert _fewest_nodes([*fitting, (1, 1)]) == 3
    assert _fewest_nodes([(1, 5000), (1, 5000), (1, 3192)]) == 2
    assert _fewest_nodes([(1, 5000), (1, 5000), (1, 3193)]) == 3


def test_bin_packing_uses_as_few_nodes_as_possible() -> None:
    excess = []
    for seed in range(CLUSTERS):
        sizes = _sizes(random.Random(seed))
        excess.append(_nodes_used(sizes, seed) - _fewest_nodes(sizes))
    assert min(excess) >= 0, "nothing beats trying everything"
    assert max(excess) <= 1
    assert excess.count(0) >= 0.95 * CLUSTERS, f"optimal in {excess.count(0)} of {CLUSTERS}"
