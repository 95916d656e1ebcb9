"""The ways to find the best node give the same answers: scan, one queue, a queue per spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.model.constraint import Spread, SpreadTarget
from orchgit.model.job import Job
from orchgit.model.resources import Resources
from orchgit.scheduler.ranking.anti_affinity import AntiAffinity
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.required_resources import RequiredResources
from orchgit.scheduler.ranking.selector import Ranking, Request, Selector
from orchgit.scheduler.ranking.spread import SpreadScore
from orchgit.scheduler.ranking.tie_break import TieBreak
from tests.support.cluster import ListCluster
from tests.support.factories import make_group, make_task
from tests.support.factories import make_job as plain_job
from tests.support.scheduling import make_network_node


def _cluster(sizes: list[tuple[int, int, int]]) -> ListCluster:
    cluster = ListCluster()
    for number, (cpu, used, place) in enumerate(sizes):
        node = make_network_node(number, cpu_shares=cpu)
        node.datacenter = f"dc{place}"
        cluster.nodes[node.id] = node
        cluster.columns.put_node(node)
        cluster.columns.add_usage(node.id, (used, 64, 10))
    return cluster


def _choices(cluster: ListCluster, job: Job, *, queue: bool, spread: bool) -> list[float]:
    """The scores of the nodes chosen one after the other."""
    group = job.task_groups[0]
    proposed = Proposed(cluster, (job.namespace, job.id), [])
    columns = cluster.columns
    anti_affinity = AntiAffinity(proposed.counts[group.name], {}, group.count)
    ranking = Ranking(scan_only=not queue, anti_affinity=anti_affinity)
    if spread:
        ranking.spread = SpreadScore(columns, group.spreads or [], group.count)
    size = len(columns.nodes)
    chooser = Selector(
        proposed,
        RequiredResources(group, oversubscription=False),
        np.ones(size, dtype=np.bool_),
        ranking,
        TieBreak(columns, seed=1),
    )
    scores = []
    for _ in range(group.count):
        before = chooser.scores()
        choice = chooser.select(Request("name"))
        if choice is None:
            break
        scores.append(float(before[choice.row]))
        assert scores[-1] == before.max()
        proposed.place(choice.row, group.name, choice.offer.cpu, chooser.ask.memory, 10)
        chooser.changed(choice.row, group.name, 1)
    return scores


_NODES = st.lists(
    st.tuples(
        st.sampled_from([1000, 2000, 4000]), st.sampled_from([0, 300, 900]), st.integers(1, 3)
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(sizes=_NODES, spread=st.booleans(), targets=st.booleans())
def test_queues_choose_as_well_as_a_scan(
    sizes: list[tuple[int, int, int]], spread: bool, targets: bool
) -> None:
    wanted = [SpreadTarget(value="dc1", percent=60)] if targets else None
    group = make_group(
        count=12,
        tasks=[make_task(resources=Resources(cpu=300, memory_mb=100))],
        spreads=[Spread(attribute="${node.datacenter}", spread_target=wanted)],
    )
    job = plain_job(task_groups=[group])
    scan = _choices(_cluster(sizes), job, queue=False, spread=spread)
    queue = _choices(_cluster(sizes), job, queue=True, spread=spread)
    assert queue == pytest.approx(scan)


def test_many_spread_values_are_placed_evenly() -> None:
    """More values than queues are kept for."""
    group = make_group(
        count=160,
        tasks=[make_task(resources=Resources(cpu=10, memory_mb=10))],
        spreads=[Spread(attribute="${node.unique.id}")],
    )
    cluster = _cluster([(4000, 0, 1)] * 80)
    scores = _choices(cluster, plain_job(task_groups=[group]), queue=True, spread=True)
    assert len(scores) == 160
