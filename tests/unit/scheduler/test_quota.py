"""A namespace's quota: what does not fit in it waits for it, and says so."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.quota import QuotaRoom
from orchgit.model.resources import Resources
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_job, make_system_job, make_task
from tests.support.scheduling import make_network_node


def cluster_of(nodes: int = 3) -> ListCluster:
    cluster = ListCluster(NOW_NS)
    for number in range(nodes):
        node = make_network_node(number)
        cluster.nodes[node.id] = node
    return cluster


def service(count: int, version: int = 0) -> Job:
    task = make_task(resources=Resources(cpu=100, memory_mb=64), env={"VERSION": str(version)})
    job = make_job(id="j", task_groups=[make_group(count=count, tasks=[task])])
    return replace(job, version=version, job_modify_index=version + 1)


def evaluate(cluster: ListCluster, job: Job) -> SchedulingOutcome:
    cluster.jobs[job.namespace, job.id, job.version] = job
    evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="job-register")
    return schedule(evaluation, cluster, NOW_NS, 1, SequentialIds())


def placed(outcome: SchedulingOutcome) -> int:
    return sum(map(len, outcome.plan.placements)) if outcome.plan is not None else 0


def test_allocation_beyond_the_quota_waits_for_quota() -> None:
    cluster = cluster_of()
    cluster.quotas["default"] = QuotaRoom("team", {"cpu": 250})
    outcome = evaluate(cluster, service(4))
    assert placed(outcome) == 2
    metric = outcome.evaluation.failed_tg_allocs["web"]
    assert metric.quota_exhausted == ["cpu exhausted (100 needed > 50 left)"]
    assert (metric.nodes_exhausted, metric.coalesced_failures) == (0, 1)
    assert outcome.evaluation.queued_allocations == {"web": 2}
    assert outcome.blocked.quota_limit_reached == "team"


def test_blocked_one_is_let_go_by_its_quota_and_by_nothing_else() -> None:
    cluster = cluster_of()
    cluster.quotas["default"] = QuotaRoom("team", {"memory": 63})
    waiting = evaluate(cluster, service(1)).blocked
    blocked = BlockedEvals()
    assert blocked.block(waiting) == []
    assert blocked.unblock_class("any", waiting.snapshot_index + 1) == []
    assert blocked.unblock_quota("team", waiting.snapshot_index + 1) == [waiting]


def test_replaced_allocation_gives_its_quota_back() -> None:
    cluster = cluster_of()
    first = evaluate(cluster, service(2))
    cluster.apply(first.plan)  # type: ignore[arg-type]
    cluster.quotas["default"] = QuotaRoom("team", {"cpu": 0})
    outcome = evaluate(cluster, service(2, version=1))
    assert placed(outcome) == 2
    assert outcome.blocked is None


def test_namespace_without_a_quota_has_no_limit() -> None:
    cluster = cluster_of()
    cluster.quotas["other"] = QuotaRoom("team", {"cpu": 0})
    assert placed(evaluate(cluster, service(4))) == 4


def test_system_job_takes_the_nodes_that_its_quota_allows() -> None:
    cluster = cluster_of()
    task = make_task(resources=Resources(cpu=100, memory_mb=64))
    job = make_system_job(id="s", task_groups=[make_group(count=1, tasks=[task])])
    cluster.quotas["default"] = QuotaRoom("team", {"cpu": 150})
    outcome = evaluate(cluster, job)
    assert placed(outcome) == 1
    metric = outcome.evaluation.failed_tg_allocs["web"]
    assert metric.quota_exhausted == ["cpu exhausted (100 needed > 50 left)"]
    assert outcome.blocked.quota_limit_reached == "team"
