"""Decisions that the recorded cases leave out: limits of a node, commits, versions of agents."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchgit.ids import SequentialIds
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.group import DisconnectStrategy, ReschedulePolicy, UpdateStrategy
from orchgit.model.job import Job, JobOrigin
from orchgit.model.node import ClientHostVolume, Node
from orchgit.model.plan import PlanResult
from orchgit.model.volume import HostVolume, VolumeCapability, VolumeRequest
from orchgit.scheduler.outcome import Attempts, SchedulingOutcome, gave_up
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group
from tests.support.factories import make_job as plain_job
from tests.support.scheduling import make_network_node


def _cluster(*nodes: Node) -> ListCluster:
    cluster = ListCluster(NOW_NS)
    for node in nodes:
        cluster.nodes[node.id] = node
    return cluster


def _register(cluster: ListCluster, job: Job) -> Job:
    index = cluster.index
    job = replace(job, create_index=1, modify_index=index, job_modify_index=index)
    cluster.jobs[job.namespace, job.id, job.version] = job
    cluster.changed()
    return job


def _run(cluster: ListCluster, job: Job, trigger: str = "job-register") -> SchedulingOutcome:
    evaluation = Evaluation(
        id=f"e{cluster.index}", type=job.type, job_id=job.id, triggered_by=trigger
    )
    outcome = schedule(evaluation, cluster, cluster.now_ns, 1, SequentialIds(f"{cluster.index:08}"))
    if outcome.plan is not None:
        plan = outcome.plan
        cluster.apply(
            PlanResult(
                stops=plan.stops,
                placements=plan.placements,
                updates=plan.updates,
                preemptions=plan.preemptions,
                claims=plan.claims,
                deployment=plan.deployment,
                deployment_updates=plan.deployment_updates,
            )
        )
    return outcome


def test_node_lets_in_no_more_allocations_than_it_says() -> None:
    node = make_network_node(0)
    node.node_max_allocs = 2
    cluster = _cluster(node)
    job = _register(cluster, plain_job(count=5))
    outcome = _run(cluster, job)
    assert outcome.evaluation.queued_allocations == {"web": 3}
    metric = (outcome.evaluation.failed_tg_allocs or {})["web"]
    assert metric.dimension_exhausted == {"max allocation exceeded": 1}


def test_new_allocations_carry_the_commit_of_their_job_version() -> None:
    cluster = _cluster(make_network_node(0))
    origin = JobOrigin(source="demo", rollout_id="r1", commit_id="c0ffee")
    job = _register(cluster, plain_job(origin=origin, update=UpdateStrategy()))
    plan = _run(cluster, job).plan
    assert plan is not None
    assert plan.deployment is not None
    assert (plan.placements[0].commit_id, plan.placements[0].rollout_id) == ("c0ffee", "r1")
    assert (plan.deployment.commit_id, plan.deployment.rollout_id) == ("c0ffee", "r1")


def _volume_node(number: int) -> Node:
    node = make_network_node(number)
    node.host_volumes = {"data": ClientHostVolume(name="data", id=f"vol-{number}")}
    return node


def _volume_cluster() -> ListCluster:
    cluster = _cluster(_volume_node(0), _volume_node(1))
    for number in range(2):
        cluster.volumes[f"vol-{number}"] = HostVolume(
            id=f"vol-{number}",
            name="data",
            node_id=f"node-{number:03d}",
            state="ready",
            requested_capabilities=[VolumeCapability("single-node-writer", "file-system")],
        )
    return cluster


def test_sticky_group_stays_with_its_volume_and_the_claim_names_the_commit() -> None:
    cluster = _volume_cluster()
    request = VolumeRequest(name="data", type="host", source="data", sticky=True)
    group = make_group(volumes={"data": request})
    first = _register(
        cluster, plain_job(id="db", task_groups=[group], origin=JobOrigin(commit_id="c1"))
    )
    _run(cluster, first)
    [claim] = cluster.claims.values()
    [before] = cluster.allocations_by_job("default", "db")
    for version in range(1, 4):
        task = replace(group.tasks[0], env={"VERSION": str(version)})
        changed = replace(
            first,
            version=version,
            origin=JobOrigin(commit_id=f"c{version + 1}"),
            task_groups=[replace(group, tasks=[task])],
        )
        plan = _run(cluster, _register(cluster, changed)).plan
        assert plan is not None
        assert plan.placements[0].node_ids == [before.node_id]
        assert [c.claim_id for c in plan.claims] == [claim.id]
        assert [c.commit_id for c in plan.claims] == [f"c{version + 1}"]


def test_sticky_group_waits_for_its_node() -> None:
    cluster = _volume_cluster()
    request = VolumeRequest(name="data", type="host", source="data", sticky=True)
    job = _register(
        cluster, plain_job(id="db", task_groups=[make_group(volumes={"data": request})])
    )
    _run(cluster, job)
    [allocation] = cluster.allocations_by_job("default", "db")
    home = cluster.nodes[allocation.node_id]
    cluster.nodes[home.id] = replace(home, status="down")
    cluster.changed()
    outcome = _run(cluster, job, "node-update")
    assert outcome.blocked is not None
    assert outcome.evaluation.queued_allocations == {"web": 1}


def test_agents_too_old_for_deployments_keep_system_jobs_without_one() -> None:
    old = make_network_node(0)
    old.attributes["nomad.version"] = "1.10.4"
    cluster = _cluster(old, make_network_node(1))
    job = _register(cluster, plain_job(type="system", update=UpdateStrategy()))
    plan = _run(cluster, job).plan
    assert plan is not None
    assert plan.deployment is None
    assert len(plan.placements[0]) == 2


def test_system_group_of_none_is_stopped_everywhere() -> None:
    cluster = _cluster(make_network_node(0), make_network_node(1))
    job = _register(cluster, plain_job(type="system"))
    _run(cluster, job)
    none = replace(job, version=1, task_groups=[replace(job.task_groups[0], count=0)])
    plan = _run(cluster, _register(cluster, none)).plan
    assert plan is not None
    assert len(plan.stops) == 2
    assert plan.placements == []


def test_unknown_allocation_that_was_replaced_is_left_for_its_nodes_return() -> None:
    cluster = _cluster(*[make_network_node(number) for number in range(3)])
    group = make_group(
        disconnect=DisconnectStrategy(lost_after_ns=3_600_000_000_000),
        reschedule_policy=ReschedulePolicy(delay_ns=0, delay_function="constant"),
    )
    job = _register(cluster, plain_job(task_groups=[group]))
    _run(cluster, job)
    [original] = cluster.allocs.values()
    cluster.allocs[original.id] = replace(original, client_status="running")
    cluster.nodes[original.node_id] = replace(
        cluster.nodes[original.node_id], status="disconnected"
    )
    cluster.changed()
    _run(cluster, job, "node-update")
    again = _run(cluster, job, "node-update")
    assert again.plan is None
    live = [a for a in cluster.allocs.values() if not a.is_terminal]
    assert sorted(a.client_status for a in live) == ["pending", "unknown"]


def test_refused_evaluation_is_tried_five_times_then_blocks() -> None:
    cluster = _cluster(make_network_node(0))
    job = _register(cluster, plain_job(count=2))
    evaluation = Evaluation(id="e1", type="service", job_id=job.id, triggered_by="job-register")
    attempts = Attempts("service")
    outcome = SchedulingOutcome(evaluation)
    while attempts.remain:
        outcome = schedule(evaluation, cluster, NOW_NS, 1, SequentialIds())
        attempts.record(None)
    ended = gave_up(evaluation, outcome, attempts.limit, SequentialIds())
    assert ended.evaluation.status == EvalStatus.FAILED
    assert ended.evaluation.queued_allocations == {"web": 2}
    assert ended.blocked is not None
    assert ended.blocked.triggered_by == "max-plan-attempts"


def test_progress_starts_the_count_of_attempts_anew() -> None:
    attempts = Attempts("batch")
    attempts.record(None)
    cluster = _cluster(make_network_node(0))
    plan = _run(cluster, _register(cluster, plain_job())).plan
    assert plan is not None
    attempts.record(PlanResult(placements=plan.placements, refresh_index=5))
    assert attempts.remain


@pytest.mark.parametrize(("namespace", "placed"), [("default", 1), ("team", 0)])
def test_host_volume_serves_jobs_of_its_own_namespace(namespace: str, placed: int) -> None:
    cluster = _volume_cluster()
    for volume in cluster.volumes.values():
        volume.namespace = namespace
    request = VolumeRequest(name="data", type="host", source="data")
    group = make_group(volumes={"data": request})
    outcome = _run(cluster, _register(cluster, plain_job(id="db", task_groups=[group])))
    assert len(cluster.allocations_by_job("default", "db")) == placed
    assert (outcome.blocked is None) == bool(placed)
