"""Committed plans: placements, stops, updates, preemptions, claims, deployment counts."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.allocation import AllocDeploymentStatus, DesiredTransition
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatusUpdate
from orchgit.model.job import Job, JobOrigin
from orchgit.model.node import Node
from orchgit.model.plan import (
    AllocPreemption,
    AllocStop,
    AllocUpdate,
    PlanResult,
    VolumeClaimRequest,
)
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.replication.commands.deployments import (
    PromoteDeployment,
    SetDeploymentHealth,
    UpdateDeploymentStatus,
)
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.plans import ApplyPlan, ApplyPlanResult
from tests.support.factories import (
    NOW_NS,
    make_deployment,
    make_evaluation,
    make_job,
    make_placements,
    make_resources,
)
from tests.unit.replication.conftest import Cluster

DEADLINE = timedelta(seconds=600)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.node()


@pytest.fixture
def job(cluster: Cluster) -> Job:
    job = make_job(count=3)
    cluster.register(job)
    return job


def deploy(cluster: Cluster, job: Job, node: Node, count: int, canary: bool = False) -> Deployment:
    """A plan that makes a deployment and its first placements."""
    state = DeploymentState(
        desired_total=count,
        desired_canaries=count if canary else 0,
        progress_deadline_ns=600_000_000_000,
    )
    deployment = make_deployment(job, task_groups={"web": state})
    placements = make_placements(
        job,
        [node],
        count,
        deployment_id=deployment.id,
        canary_rows=list(range(count)) if canary else [],
    )
    cluster.plan(job, deployment=deployment, placements=[placements])
    return deployment


def allocs(cluster: Cluster, deployment: Deployment) -> list[str]:
    with cluster.see() as snapshot:
        return [one.id for one in snapshot.allocations.of_deployment(deployment.id)]


def test_placements_count_as_starting_and_the_job_runs(
    cluster: Cluster, job: Job, node: Node
) -> None:
    ids = cluster.place(job, node, 3)
    with cluster.see() as snapshot:
        summary = snapshot.job_summaries.get("default", job.id)
        assert [one.id for one in snapshot.allocations.of_node(node.id)] == sorted(ids)
    assert summary is not None
    assert summary.summary["web"].starting == 3
    assert cluster.job(job).status == "running"


def test_queued_allocations_of_a_plan_are_counted_with_its_placements(
    cluster: Cluster, job: Job, node: Node
) -> None:
    closing = make_evaluation(job, status="complete", queued_allocations={"web": 2})
    command = ApplyPlan(
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        eval_id=closing.id,
        result=PlanResult(placements=[make_placements(job, [node], 1)]),
        evaluations=[closing],
    )
    cluster.do(command)
    with cluster.see() as snapshot:
        summary = snapshot.job_summaries.get("default", job.id)
        index = snapshot.index
    assert summary is not None
    assert (summary.summary["web"].queued, summary.summary["web"].starting) == (2, 1)
    assert summary.modify_index == index


def test_reports_change_the_counts_of_the_summary(cluster: Cluster, job: Job, node: Node) -> None:
    one, two, three = cluster.place(job, node, 3)
    cluster.report(node, one, two)
    cluster.report(node, two, status="failed")
    cluster.report(node, three, status="complete")
    with cluster.see() as snapshot:
        summary = snapshot.job_summaries.get("default", job.id)
    assert summary is not None
    group = summary.summary["web"]
    assert (group.starting, group.running, group.failed, group.complete) == (0, 1, 1, 1)


def test_repeated_report_changes_nothing(cluster: Cluster, job: Job, node: Node) -> None:
    (alloc_id,) = cluster.place(job, node)
    cluster.report(node, alloc_id)
    before = cluster.alloc(alloc_id)
    cluster.report(node, alloc_id)
    assert cluster.alloc(alloc_id) == before
    assert before.modify_index > before.alloc_modify_index, "the servers' side did not change"


def test_report_on_an_allocation_of_another_node_is_skipped(
    cluster: Cluster, job: Job, node: Node
) -> None:
    (alloc_id,) = cluster.place(job, node)
    cluster.report(cluster.node(), alloc_id, status="failed")
    assert cluster.alloc(alloc_id).client_status == "pending"


def test_report_of_an_unknown_node_is_refused(cluster: Cluster, node: Node) -> None:
    stranger = msgspec.structs.replace(node, id="stranger")
    with pytest.raises(NotFoundError, match="stranger"):
        cluster.report(stranger)


def test_stop_sets_the_statuses_that_the_plan_names(cluster: Cluster, job: Job, node: Node) -> None:
    (alloc_id,) = cluster.place(job, node)
    stop = AllocStop(alloc_id, node.id, desired_description="not needed", client_status="lost")
    cluster.plan(job, stops=[stop])
    alloc = cluster.alloc(alloc_id)
    assert (alloc.desired_status, alloc.client_status) == ("stop", "lost")
    assert alloc.desired_description == "not needed"
    assert alloc.alloc_modify_index == alloc.modify_index > alloc.create_index
    assert cluster.job(job).status == "dead"
    with cluster.see() as snapshot:
        assert snapshot.allocations.of_node(node.id, terminal=False) == []
        assert len(snapshot.allocations.of_node(node.id, terminal=True)) == 1


def test_replacement_is_linked_both_ways(cluster: Cluster, job: Job, node: Node) -> None:
    (old,) = cluster.place(job, node)
    placements = make_placements(job, [node], 1, previous_of={0: old})
    cluster.plan(job, placements=[placements], stops=[AllocStop(old, node.id)])
    (new,) = placements.alloc_ids
    assert cluster.alloc(old).next_allocation == new
    assert cluster.alloc(old).desired_status == "stop"
    assert cluster.alloc(new).previous_allocation == old


def test_preempted_allocation_names_the_allocation_that_preempted_it(
    cluster: Cluster, job: Job, node: Node
) -> None:
    (victim,) = cluster.place(job, node)
    cluster.plan(job, preemptions=[AllocPreemption(victim, node.id, "winner")])
    alloc = cluster.alloc(victim)
    assert (alloc.desired_status, alloc.preempted_by_allocation) == ("evict", "winner")


def test_in_place_update_changes_only_the_fields_it_names(
    cluster: Cluster, job: Job, node: Node
) -> None:
    (alloc_id,) = cluster.place(job, node)
    cluster.report(node, alloc_id)
    big = make_resources(cpu=250)
    update = AllocUpdate(alloc_id, node.id, job_version=0, allocated_resources=big)
    cluster.plan(job, updates=[update])
    alloc = cluster.alloc(alloc_id)
    assert alloc.allocated_resources == big
    assert alloc.client_status == "running"
    with cluster.see() as snapshot:
        sql = "SELECT cpu_shares FROM allocations WHERE id = ?"
        assert snapshot.connection.execute(sql, (alloc_id,)).fetchone() == (250,)


def test_disconnects_are_recorded_in_order(cluster: Cluster, job: Job, node: Node) -> None:
    (alloc_id,) = cluster.place(job, node)
    for value in ("unknown", "running"):
        update = AllocUpdate(alloc_id, client_status=value, record_client_status=value)
        cluster.plan(job, updates=[update])
    states = cluster.alloc(alloc_id).alloc_states
    assert states is not None
    assert [state.value for state in states] == ["unknown", "running"]


@pytest.mark.parametrize(
    ("kind", "version", "found"),
    [
        (ApplyPlanResult, None, "first"),
        (ApplyPlanResult, 0, "later"),
        (ApplyPlan, None, "later"),
        (ApplyPlan, 0, "later"),
    ],
)
def test_update_without_a_job_version_leaves_the_evaluation_but_in_entries_of_earlier_servers(
    kind: type[ApplyPlan],
    version: int | None,
    found: str,
    cluster: Cluster,
    job: Job,
    node: Node,
) -> None:
    (alloc_id,) = cluster.place(job, node, eval_id="first")
    update = AllocUpdate(alloc_id, node.id, job_version=version, followup_eval_id="wait")
    plan = {"namespace": job.namespace, "job_id": job.id, "job_version": 0}
    cluster.do(kind(**plan, eval_id="later", result=PlanResult(updates=[update])))
    alloc = cluster.alloc(alloc_id)
    assert (alloc.eval_id, alloc.followup_eval_id) == (found, "wait")


def test_allocations_carry_the_commit_of_their_version(cluster: Cluster, node: Node) -> None:
    job = make_job(origin=JobOrigin(source="demo", commit_id="c0ffee", rollout_id="r1"))
    cluster.register(job)
    deployment = deploy(cluster, job, node, 1)
    alloc = cluster.alloc(allocs(cluster, deployment)[0])
    stored = cluster.deployment(deployment)
    assert (alloc.commit_id, alloc.rollout_id) == ("c0ffee", "r1")
    assert (stored.commit_id, stored.rollout_id) == ("c0ffee", "r1")


def test_nothing_is_placed_for_a_job_that_was_purged_meanwhile(
    cluster: Cluster, job: Job, node: Node
) -> None:
    (old,) = cluster.place(job, node)
    cluster.do(DeregisterJob(deletion=JobDeletion("default", job.id, purge=True)))
    with pytest.raises(ConflictError, match="is gone"):
        cluster.plan(job, placements=[make_placements(job, [node], 1)])
    cluster.plan(job, stops=[AllocStop(old, node.id, client_status="lost")])
    assert cluster.alloc(old).client_status == "lost"


def test_evaluation_moves_with_its_plan(cluster: Cluster, job: Job, node: Node) -> None:
    evaluation = make_evaluation(job)
    cluster.do(UpsertEvaluations(evaluations=[evaluation]))
    before = evaluation.id
    placements = make_placements(job, [node], 1, eval_id=before)
    cluster.do(
        ApplyPlan(
            namespace="default",
            job_id=job.id,
            job_version=0,
            eval_id=before,
            result=PlanResult(placements=[placements]),
        )
    )
    with cluster.see() as snapshot:
        stored = snapshot.evaluations.get(before)
        assert stored is not None
        assert stored.modify_index == snapshot.index
        assert len(snapshot.allocations.of_eval(before)) == 1


# -- deployments ---------------------------------------------------------------------------------


def test_placements_start_the_progress_deadline(cluster: Cluster, job: Job, node: Node) -> None:
    deployment = deploy(cluster, job, node, 2)
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.placed_allocs, state.healthy_allocs) == (2, 0)
    assert state.require_progress_by == datetime_of_ns(NOW_NS) + DEADLINE


def test_each_newly_healthy_allocation_extends_the_progress_deadline(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 2)
    one, two = allocs(cluster, deployment)
    at_ns = NOW_NS + 30_000_000_000
    cluster.report(node, one, deployment_healthy=True, deployment_healthy_at_ns=at_ns)
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.healthy_allocs, state.unhealthy_allocs) == (1, 0)
    assert state.require_progress_by == datetime_of_ns(at_ns) + DEADLINE
    cluster.report(node, one, deployment_healthy=True, deployment_healthy_at_ns=at_ns + 5)
    cluster.report(node, two, deployment_healthy=False)
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.healthy_allocs, state.unhealthy_allocs) == (1, 1)
    assert state.require_progress_by == datetime_of_ns(at_ns) + DEADLINE
    health = cluster.alloc(one).deployment_status
    assert health is not None
    assert (health.healthy, health.timestamp) == (True, datetime_of_ns(at_ns))


def test_healthy_allocation_that_turns_unhealthy_is_counted_once(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 1)
    (one,) = allocs(cluster, deployment)
    cluster.report(node, one, deployment_healthy=True)
    cluster.report(node, one, deployment_healthy=False)
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.healthy_allocs, state.unhealthy_allocs) == (0, 1)


def test_updated_allocation_counts_for_its_new_deployment(
    cluster: Cluster, job: Job, node: Node
) -> None:
    (alloc_id,) = cluster.place(job, node)
    deployment = make_deployment(job)
    healthy = AllocDeploymentStatus(healthy=True, timestamp=datetime_of_ns(NOW_NS))
    update = AllocUpdate(alloc_id, deployment_id=deployment.id, deployment_status=healthy)
    cluster.plan(job, deployment=deployment, updates=[update])
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.placed_allocs, state.healthy_allocs) == (1, 1)


def test_health_known_before_counts_in_the_new_deployment_too(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 1)
    (alloc_id,) = allocs(cluster, deployment)
    cluster.report(node, alloc_id, deployment_healthy=True)
    later = make_deployment(job)
    update = AllocUpdate(alloc_id, deployment_id=later.id)
    cluster.plan(job, deployment=later, updates=[update])
    state = cluster.deployment(later).task_groups["web"]
    assert (state.placed_allocs, state.healthy_allocs) == (1, 1)


def test_later_placements_do_not_move_the_deadline(cluster: Cluster, job: Job, node: Node) -> None:
    deployment = deploy(cluster, job, node, 1)
    placements = make_placements(job, [node], 1, deployment_id=deployment.id)
    cluster.do(
        ApplyPlan(
            now_ns=NOW_NS + 60_000_000_000,
            namespace="default",
            job_id=job.id,
            job_version=0,
            eval_id="",
            result=PlanResult(placements=[placements]),
        )
    )
    state = cluster.deployment(deployment).task_groups["web"]
    assert state.placed_allocs == 2
    assert state.require_progress_by == datetime_of_ns(NOW_NS) + DEADLINE


def test_deployment_that_a_later_plan_changes_keeps_its_counts(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 2)
    changed = msgspec.structs.replace(
        deployment, task_groups={"web": DeploymentState(desired_total=5)}
    )
    cluster.plan(job, deployment=changed)
    state = cluster.deployment(deployment).task_groups["web"]
    assert (state.desired_total, state.placed_allocs) == (5, 2)


def test_successful_deployment_makes_its_job_version_stable(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 1)
    update = DeploymentStatusUpdate(deployment.id, "successful", "well done")
    cluster.do(UpdateDeploymentStatus(update=update))
    assert cluster.job(job).stable
    assert cluster.deployment(deployment).status == "successful"
    with pytest.raises(ConflictError, match="it has ended"):
        cluster.do(UpdateDeploymentStatus(update=update))


def test_failed_deployment_may_register_an_earlier_version_again(
    cluster: Cluster, job: Job, node: Node
) -> None:
    first = cluster.job(job)
    second = msgspec.structs.replace(job, priority=80)
    cluster.register(second)
    deployment = deploy(cluster, cluster.job(job), node, 1)
    evaluation = make_evaluation(job, triggered_by="deployment-watcher")
    cluster.do(
        UpdateDeploymentStatus(
            update=DeploymentStatusUpdate(deployment.id, "failed", "rolling back"),
            job=first,
            evaluation=evaluation,
        )
    )
    current = cluster.job(job)
    assert (current.version, current.priority) == (2, 50)
    with cluster.see() as snapshot:
        stored = snapshot.evaluations.get(evaluation.id)
    assert stored is not None
    assert stored.job_modify_index == current.job_modify_index


def test_canaries_are_listed_and_promoted_when_healthy(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 2, canary=True)
    ids = allocs(cluster, deployment)
    state = cluster.deployment(deployment).task_groups["web"]
    assert sorted(state.placed_canaries or ()) == ids
    cluster.report(node, ids[0], deployment_healthy=True)
    with pytest.raises(RefusedError, match="1/2 healthy canaries"):
        cluster.do(PromoteDeployment(deployment_id=deployment.id))
    cluster.report(node, ids[1], deployment_healthy=True)
    cluster.do(PromoteDeployment(deployment_id=deployment.id))
    assert cluster.deployment(deployment).task_groups["web"].promoted
    status = cluster.alloc(ids[0]).deployment_status
    assert status is not None
    assert (status.canary, status.healthy) == (False, True)


def test_deployment_without_canaries_cannot_be_promoted(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 1)
    with pytest.raises(RefusedError, match="no canaries"):
        cluster.do(PromoteDeployment(deployment_id=deployment.id))
    with pytest.raises(RefusedError, match="group 'db' is not part"):
        cluster.do(PromoteDeployment(deployment_id=deployment.id, groups=["db"]))


def test_health_set_by_hand_may_fail_the_deployment(cluster: Cluster, job: Job, node: Node) -> None:
    deployment = deploy(cluster, job, node, 1)
    (alloc_id,) = allocs(cluster, deployment)
    cluster.do(
        SetDeploymentHealth(
            deployment_id=deployment.id,
            unhealthy_alloc_ids=[alloc_id],
            update=DeploymentStatusUpdate(deployment.id, "failed", "unhealthy"),
        )
    )
    stored = cluster.deployment(deployment)
    assert (stored.status, stored.task_groups["web"].unhealthy_allocs) == ("failed", 1)
    with pytest.raises(ConflictError, match="ended"):
        cluster.do(SetDeploymentHealth(deployment_id=deployment.id))


def test_health_of_an_allocation_of_another_deployment_refuses_the_whole_entry(
    cluster: Cluster, job: Job, node: Node
) -> None:
    deployment = deploy(cluster, job, node, 1)
    (alloc_id,) = allocs(cluster, deployment)
    with pytest.raises(RefusedError, match="'stranger'"):
        cluster.do(
            SetDeploymentHealth(
                deployment_id=deployment.id, healthy_alloc_ids=[alloc_id, "stranger"]
            )
        )
    assert cluster.deployment(deployment).task_groups["web"].healthy_allocs == 0


# -- claims --------------------------------------------------------------------------------------


def claim(job: Job, alloc_id: str, claim_id: str) -> VolumeClaimRequest:
    return VolumeClaimRequest(claim_id, "default", job.id, "web", alloc_id, "volume", "data", "c1")


def test_first_committed_allocation_makes_the_claim(cluster: Cluster, job: Job, node: Node) -> None:
    placements = make_placements(job, [node], 1)
    (alloc_id,) = placements.alloc_ids
    cluster.plan(job, placements=[placements], claims=[claim(job, alloc_id, "first")])
    with cluster.see() as snapshot:
        (made,) = snapshot.volume_claims.all("default", job.id)
    assert (made.id, made.alloc_id, made.commit_id) == ("first", alloc_id, "c1")
    replacement = make_placements(job, [node], 1, previous_of={0: alloc_id})
    cluster.plan(job, stops=[AllocStop(alloc_id, node.id)], placements=[replacement])
    cluster.plan(job, claims=[claim(job, replacement.alloc_ids[0], "second")])
    with cluster.see() as snapshot:
        (taken,) = snapshot.volume_claims.all("default", job.id)
    assert (taken.id, taken.alloc_id) == ("first", replacement.alloc_ids[0])
    assert (taken.create_index, taken.commit_id) == (made.create_index, "c1")


def test_two_live_allocations_have_two_claims(cluster: Cluster, job: Job, node: Node) -> None:
    one, two = cluster.place(job, node, 2)
    cluster.plan(job, claims=[claim(job, one, "first"), claim(job, two, "second")])
    with cluster.see() as snapshot:
        claims = snapshot.volume_claims.all("default", job.id)
    assert {one.id: one.alloc_id for one in claims} == {"first": one, "second": two}


# -- transitions, evaluations --------------------------------------------------------------------


def test_transitions_are_merged(cluster: Cluster, job: Job, node: Node) -> None:
    (alloc_id,) = cluster.place(job, node)
    for wanted in (DesiredTransition(migrate=True), DesiredTransition(reschedule=True)):
        cluster.do(UpdateAllocTransitions(transitions={alloc_id: wanted}))
    assert cluster.alloc(alloc_id).desired_transition == DesiredTransition(True, True)
    with pytest.raises(NotFoundError, match="nobody"):
        cluster.do(UpdateAllocTransitions(transitions={"nobody": DesiredTransition()}))


def test_evaluation_that_placed_all_cancels_the_blocked_ones(cluster: Cluster, job: Job) -> None:
    blocked = make_evaluation(job, status="blocked")
    other = make_evaluation(make_job(), status="blocked")
    done = make_evaluation(job, status="complete", queued_allocations={"web": 2})
    cluster.do(UpsertEvaluations(evaluations=[blocked, other]))
    cluster.do(UpsertEvaluations(evaluations=[done]))
    with cluster.see() as snapshot:
        statuses = {one.id: one.status for one in snapshot.evaluations.all()}
        summary = snapshot.job_summaries.get("default", job.id)
    assert statuses == {blocked.id: "canceled", other.id: "blocked", done.id: "complete"}
    assert summary is not None
    assert summary.summary["web"].queued == 2
