"""What is decided does not depend on whether steady allocations were told apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.ids import SequentialIds
from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    AllocState,
    DesiredTransition,
    RescheduleTracker,
    alloc_name,
)
from orchgit.model.constraint import Constraint
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import DisconnectStrategy, UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations
from orchgit.model.node import DrainStrategy
from orchgit.model.volume import VolumeRequest
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.reconcile.steady import read_allocations
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_job, make_resources
from tests.support.scheduling import make_network_node

MOVING = DesiredTransition(migrate=True)
OUT_OF_TOUCH = [AllocState(value="unknown")]
NOT_PLACED = RescheduleTracker(last_reschedule="no placement")


class WholeCluster(ListCluster):
    """Tells no steady allocation apart."""

    def job_allocations(self, job: Job) -> JobAllocations:
        return JobAllocations(self.allocations_by_job(job.namespace, job.id))


def _job(draw: st.DrawFn, kind: str) -> Job:
    update = st.sampled_from([None, UpdateStrategy(max_parallel=1), UpdateStrategy(canary=1)])
    disconnect = st.sampled_from([None, DisconnectStrategy(lost_after_ns=10**12)])
    distinct = [Constraint(operand="distinct_hosts")]
    group = make_group(
        count=draw(st.integers(0, 10)),
        update=draw(update) if kind == "service" else None,
        disconnect=draw(disconnect),
        constraints=draw(st.sampled_from([None, distinct])),
    )
    return make_job(id="web", type=kind, version=1, task_groups=[group], job_modify_index=20)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[ListCluster, ListCluster, Evaluation]:
    """The same cluster twice, once with steady allocations told apart; mostly steady ones."""
    apart, whole = ListCluster(NOW_NS), WholeCluster(NOW_NS)
    job = _job(draw, draw(st.sampled_from(["service", "batch"])))
    nodes = [make_network_node(number) for number in range(5)]
    nodes[1].status = draw(st.sampled_from(["down", "disconnected", "ready"]))
    nodes[2].drain_strategy = draw(st.sampled_from([DrainStrategy(), None]))
    allocations = [
        _allocation(draw, job, number, draw(st.sampled_from(nodes)).id)
        for number in range(draw(st.integers(0, 8)))
    ]
    deployment = _deployment(draw, job, allocations)
    anew = draw(st.booleans())
    for cluster in (apart, whole):
        for version in (0, 1):
            index = 10 * (version + 1)
            group = job.task_groups[0]
            tasks = (
                [replace(group.tasks[0], env={"VERSION": str(version)})] if anew else group.tasks
            )
            groups = [replace(group, tasks=tasks)]
            old = replace(
                job, version=version, modify_index=index, job_modify_index=index, task_groups=groups
            )
            cluster.jobs[job.namespace, job.id, version] = old
        cluster.nodes = {node.id: node for node in nodes}
        cluster.allocs = {allocation.id: allocation for allocation in allocations}
        if deployment is not None and job.type == "service":
            cluster.deployment_table[deployment.id] = deployment
    trigger = draw(st.sampled_from(["node-update", "job-register"]))
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by=trigger)
    return apart, whole, evaluation


def _allocation(draw: st.DrawFn, job: Job, number: int, node_id: str) -> Allocation:
    usual = draw(st.integers(0, 3)) > 0
    status = draw(st.sampled_from(["pending", "failed", "complete", "lost", "unknown"]))
    canary = AllocDeploymentStatus(canary=True)
    return Allocation(
        id=f"a{number}",
        namespace=job.namespace,
        name=alloc_name(
            job.id, job.task_groups[0].name, draw(st.sampled_from([number, number // 2]))
        ),
        node_id=node_id,
        job_id=job.id,
        job_version=draw(st.sampled_from([1, 1, 1, 1, 0])),
        job_type=job.type,
        task_group=job.task_groups[0].name,
        allocated_resources=make_resources(),
        client_status="running" if usual else status,
        desired_status="run" if usual else draw(st.sampled_from(["run", "stop"])),
        desired_transition=draw(st.sampled_from([DesiredTransition()] * 3 + [MOVING])),
        deployment_id="d" if draw(st.booleans()) else "",
        deployment_status=draw(st.sampled_from([None, None, AllocDeploymentStatus(True), canary])),
        alloc_states=draw(st.sampled_from([None, None, None, OUT_OF_TOUCH])),
        next_allocation=draw(st.sampled_from(["", "", "a1"])),
        reschedule_tracker=draw(st.sampled_from([None, None, NOT_PLACED])),
    )


def _deployment(draw: st.DrawFn, job: Job, allocations: list[Allocation]) -> Deployment | None:
    status = draw(st.sampled_from(["", "running", "successful", "failed", "paused"]))
    if not status:
        return None
    canaries = [a.id for a in allocations if a.deployment_status and a.deployment_status.canary]
    state = DeploymentState(
        desired_total=job.task_groups[0].count,
        placed_canaries=canaries or None,
        desired_canaries=len(canaries),
        promoted=draw(st.booleans()),
    )
    return Deployment(
        id="d",
        namespace=job.namespace,
        job_id=job.id,
        job_version=draw(st.integers(0, 1)),
        job_create_index=job.create_index,
        status=status,
        task_groups={job.task_groups[0].name: state},
    )


def _run(cluster: ListCluster, evaluation: Evaluation) -> SchedulingOutcome:
    outcome = schedule(evaluation, cluster, cluster.now_ns, 1, SequentialIds())
    outcome.find_eligible_classes = None
    return outcome


@settings(max_examples=200, deadline=None)
@given(clusters())
def test_outcome_is_the_same(
    both: tuple[ListCluster, ListCluster, Evaluation],
) -> None:
    apart, whole, evaluation = both
    assert _run(apart, evaluation) == _run(whole, evaluation)


def _three_steady(job: Job) -> ListCluster:
    cluster = ListCluster(NOW_NS)
    cluster.jobs[job.namespace, job.id, job.version] = job
    for number in range(3):
        node = make_network_node(number)
        cluster.nodes[node.id] = node
        cluster.allocs[f"a{number}"] = Allocation(
            id=f"a{number}",
            namespace=job.namespace,
            name=alloc_name(job.id, job.task_groups[0].name, number),
            node_id=node.id,
            job_id=job.id,
            job_version=job.version,
            task_group=job.task_groups[0].name,
            allocated_resources=make_resources(),
            client_status="running",
        )
    return cluster


def test_lost_allocation_leaves_the_others_unread() -> None:
    job = make_job(id="web", version=1, task_groups=[make_group(count=3, update=None)])
    cluster = _three_steady(job)
    next(iter(cluster.nodes.values())).status = "down"
    read = read_allocations(cluster, (job.namespace, job.id), job)
    assert [allocation.id for allocation in read.others] == ["a0"]
    assert read.steady[job.task_groups[0].name].name_indexes == [1, 2]


def _are_all_read(job: Job, **first: object) -> bool:
    cluster = _three_steady(job)
    cluster.allocs["a0"] = replace(cluster.allocs["a0"], **first)
    read = read_allocations(cluster, (job.namespace, job.id), job)
    return len(read.others) == 3 and not read.steady


def test_where_steady_ones_can_be_touched_all_are_read() -> None:
    group = make_group(count=3, update=None)
    job = make_job(id="web", version=1, task_groups=[group])
    assert not _are_all_read(job)
    assert _are_all_read(replace(job, stop=True))
    assert _are_all_read(replace(job, task_groups=[replace(group, count=2)]))
    volumes = {"data": VolumeRequest(name="data", type="host", source="data", sticky=True)}
    assert _are_all_read(replace(job, task_groups=[replace(group, volumes=volumes)]))
    assert _are_all_read(job, job_version=0)
    assert _are_all_read(job, alloc_states=OUT_OF_TOUCH)
    ended = {"client_status": "failed", "desired_status": "stop", "job_version": 0}
    assert not _are_all_read(job, **ended)
    assert not _are_all_read(job, reschedule_tracker=NOT_PLACED, **ended)
    assert _are_all_read(job, desired_transition=DesiredTransition(reschedule=True), **ended)


def test_reconnected_allocation_finds_its_replacement_among_steady_allocations() -> None:
    """Its place was taken meanwhile, and another one is missing: the count is not exceeded."""
    group = make_group(
        count=3,
        update=None,
        disconnect=DisconnectStrategy(lost_after_ns=10**12, reconcile="keep_original"),
    )
    job = make_job(id="web", version=1, task_groups=[group])
    cluster = _three_steady(job)
    cluster.allocs["a0"] = replace(
        cluster.allocs["a0"], alloc_states=OUT_OF_TOUCH, next_allocation="a1"
    )
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="node-update")
    plan = _run(cluster, evaluation).plan
    assert plan is not None
    assert [stop.alloc_id for stop in plan.stops] == ["a1"]
