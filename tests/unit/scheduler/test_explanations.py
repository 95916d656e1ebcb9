"""What placements tell of the nodes that were not chosen."""

from __future__ import annotations

from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation
from orchgit.model.constraint import Constraint
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.node import Node
from orchgit.model.plan import Placements
from orchgit.model.resources import Resources
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_job, make_resources, make_task
from tests.support.scheduling import make_network_node


def _nodes(count: int) -> list[Node]:
    """Nodes of class `big`, each a little larger than the one before."""
    nodes = [make_network_node(number, cpu_shares=4000 + 100 * number) for number in range(count)]
    for node in nodes:
        node.node_class = "big"
        node.computed_class = "c-big"
        node.meta = {"disk": "ssd"}
    return nodes


def _group(count: int = 1, **settings: object) -> TaskGroup:
    task = make_task(resources=Resources(cpu=1000, memory_mb=64))
    return make_group(count=count, update=None, tasks=[task], **settings)


def _schedule(group: TaskGroup, nodes: list[Node], *allocations: Allocation) -> SchedulingOutcome:
    cluster = ListCluster(NOW_NS)
    job = make_job(id="web", task_groups=[group])
    cluster.jobs[job.namespace, job.id, job.version] = job
    cluster.nodes = {node.id: node for node in nodes}
    cluster.allocs = {allocation.id: allocation for allocation in allocations}
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="job-register")
    return schedule(evaluation, cluster, NOW_NS, 1, SequentialIds())


def _placements(outcome: SchedulingOutcome) -> Placements:
    assert outcome.plan is not None
    (placements,) = outcome.plan.placements
    return placements


def _metric(outcome: SchedulingOutcome, row: int = 0) -> AllocMetric:
    placements = _placements(outcome)
    metric = placements.metrics_of.get(row) or placements.metrics
    assert metric is not None
    return metric


def test_placement_tells_what_was_filtered_and_what_was_full() -> None:
    nodes = _nodes(4)
    nodes[0].meta, nodes[0].computed_class = {"disk": "hdd"}, "c-hdd"
    nodes[1].node_resources.cpu.cpu_shares = 10
    nodes[2].node_resources.memory.memory_mb = 10
    ssd = Constraint(l_target="${meta.disk}", operand="=", r_target="ssd")
    metric = _metric(_schedule(_group(constraints=[ssd]), nodes))
    assert metric.nodes_evaluated == metric.nodes_in_pool == 4
    assert (metric.nodes_filtered, metric.nodes_exhausted) == (1, 2)
    assert metric.constraint_filtered == {"${meta.disk} = ssd": 1}
    assert metric.class_filtered == {"big": 1}
    assert metric.dimension_exhausted == {"cpu": 1, "memory": 1}
    assert metric.class_exhausted == {"big": 2}
    (score,) = metric.score_meta_data or ()
    assert score.node_id == nodes[3].id


def test_each_placement_of_a_group_tells_the_same_of_what_is_filtered() -> None:
    nodes = _nodes(3)
    nodes[0].meta, nodes[0].computed_class = {"disk": "hdd"}, "c-hdd"
    ssd = Constraint(l_target="${meta.disk}", operand="=", r_target="ssd")
    outcome = _schedule(_group(3, constraints=[ssd]), nodes)
    for row in range(3):
        assert _metric(outcome, row).constraint_filtered == {"${meta.disk} = ssd": 1}


def test_nodes_that_are_taken_already_are_no_candidates_with_a_score() -> None:
    outcome = _schedule(_group(3, constraints=[Constraint(operand="distinct_hosts")]), _nodes(3))
    placements = _placements(outcome)
    for row in range(3):
        metric = _metric(outcome, row)
        taken = set(placements.node_ids[:row])
        assert taken.isdisjoint(score.node_id for score in metric.score_meta_data or ())
        assert (metric.constraint_filtered or {}).get("distinct_hosts", 0) == row


def test_best_five_are_told_with_all_their_scores() -> None:
    nodes = _nodes(8)
    metric = _metric(_schedule(_group(), nodes))
    scores = [score.norm_score for score in metric.score_meta_data or ()]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    for score in metric.score_meta_data or ():
        assert score.scores["normalized-score"] == score.norm_score
        assert {"binpack", "job-anti-affinity", "node-affinity"} <= score.scores.keys()


def test_explanation_names_the_task_that_no_node_has_room_for() -> None:
    nodes = _nodes(2)
    held = [
        Allocation(
            id=f"a{number}",
            name=f"other.g[{number}]",
            job_id="other",
            task_group="g",
            node_id=node.id,
            client_status="running",
            allocated_resources=make_resources(cpu=3900),
        )
        for number, node in enumerate(nodes)
    ]
    failed = _schedule(_group(2), nodes, *held).evaluation.failed_tg_allocs or {}
    (metric,) = failed.values()
    assert metric.dimension_exhausted == {"cpu": 2}
    assert metric.coalesced_failures == 1
    (lacking,) = (metric.resources_exhausted or {}).values()
    assert lacking["CPU"] == 2000
