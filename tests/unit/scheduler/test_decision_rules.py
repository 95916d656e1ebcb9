"""Random clusters and histories: every decision keeps the rules, and deciding again changes
nothing more."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from orchgit.control.plans.check import examine_plan
from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation, AllocDeploymentStatus
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.random_clusters import JOB_ID, RandomCase, random_case
from tests.support.scheduling_rules import Decision, broken_rules

_CASES = 600
_BATCHES = 12
_ROUNDS = 6


class Player:
    """Evaluates one job again and again, checks each plan, and commits it."""

    def __init__(self, case: RandomCase) -> None:
        self.case = case
        self._ids = SequentialIds()
        self._number = 0

    def decide(self) -> tuple[SchedulingOutcome, list[str]]:
        cluster = self.case.cluster
        self._number += 1
        evaluation = replace(self.case.evaluation, id=f"eval-{self._number}")
        before = self._allocations()
        outcome = schedule(evaluation, cluster, cluster.now_ns, self._number, self._ids)
        broken = []
        if outcome.plan is not None:
            checked = examine_plan(outcome.plan, cluster)
            broken = [f"refused: {reason}" for reason in checked.reasons.values()]
            cluster.apply(checked.result)
        broken += broken_rules(self._decision(before, outcome), cluster)
        return outcome, broken

    def _allocations(self) -> dict[str, Allocation]:
        return {a.id: a for a in self.case.cluster.allocations_by_job("default", JOB_ID)}

    def _decision(self, before: dict[str, Allocation], outcome: SchedulingOutcome) -> Decision:
        cluster, job = self.case.cluster, self.case.job
        latest = cluster.latest_deployment("default", JOB_ID)
        return Decision(
            job=job,
            nodes=cluster.nodes,
            versions={v: j for (_, name, v), j in cluster.jobs.items() if name == JOB_ID},
            latest_deployment=latest.id if latest and job.type in ("service", "system") else "",
            before=before,
            after=self._allocations(),
            outcome=outcome,
        )

    def settle(self) -> list[str]:
        """Decide until nothing changes any more."""
        for _ in range(_ROUNDS):
            outcome, broken = self.decide()
            if broken or outcome.plan is None:
                return broken
        return [f"not settled after {_ROUNDS} evaluations"]


def _happen(cluster: ListCluster, rng: random.Random) -> None:
    """Agents report, an allocation fails, a node changes."""
    for allocation in list(cluster.allocs.values()):
        if allocation.is_client_terminal or not cluster.nodes[allocation.node_id].is_untainted:
            continue
        if allocation.is_server_terminal:
            cluster.allocs[allocation.id] = replace(allocation, client_status="complete")
        elif allocation.client_status in ("pending", "unknown"):
            status = allocation.deployment_status or AllocDeploymentStatus()
            cluster.allocs[allocation.id] = replace(
                allocation,
                client_status="running",
                deployment_status=replace(status, healthy=True),
            )
        elif rng.random() < 0.2:
            cluster.allocs[allocation.id] = replace(
                allocation, client_status="failed", modify_time_ns=cluster.now_ns
            )
    node = rng.choice(list(cluster.nodes.values()))
    status = rng.choice(["ready", "ready", "down", "disconnected"])
    cluster.nodes[node.id] = replace(node, status=status, drain_strategy=None)
    cluster.changed()


@pytest.mark.parametrize("batch", range(_BATCHES))
def test_decisions_about_random_clusters_keep_the_rules(batch: int) -> None:
    found = {}
    for seed in range(batch, _CASES, _BATCHES):
        player = Player(random_case(seed))
        rng = random.Random(seed)
        broken = player.settle()
        for _ in range(3):
            _happen(player.case.cluster, rng)
            broken += player.settle()
        if broken:
            found[seed] = broken
    assert found == {}


def _all_healthy(cluster: ListCluster, deployment_id: str) -> None:
    """Agents report everything that belongs to the deployment as healthy; canaries are promoted."""
    deployment = cluster.deployment_table[deployment_id]
    healthy: Counter[str] = Counter()
    for allocation in list(cluster.allocs.values()):
        if allocation.is_server_terminal and not allocation.is_client_terminal:
            cluster.allocs[allocation.id] = replace(allocation, client_status="complete")
        elif allocation.deployment_id == deployment_id and not allocation.is_terminal:
            healthy[allocation.task_group] += 1
            status = replace(allocation.deployment_status or AllocDeploymentStatus(), healthy=True)
            cluster.allocs[allocation.id] = replace(
                allocation, client_status="running", deployment_status=status
            )
    groups = {
        name: replace(state, healthy_allocs=healthy[name], promoted=state.desired_canaries > 0)
        for name, state in deployment.task_groups.items()
    }
    cluster.deployment_table[deployment_id] = replace(deployment, task_groups=groups)
    cluster.changed()


def _is_of_version(allocation: Allocation, version: int) -> bool:
    return allocation.job_id == JOB_ID and allocation.job_version == version


def test_new_deployment_of_a_system_job_ends_when_all_of_it_is_healthy() -> None:
    ended = 0
    for seed in range(_CASES):
        case = random_case(seed)
        if case.job.type != "system":
            continue
        cluster = case.cluster
        cluster.deployment_table.clear()
        current = [a.id for a in cluster.allocs.values() if _is_of_version(a, case.job.version)]
        for alloc_id in current:
            del cluster.allocs[alloc_id]
        for node in cluster.nodes.values():
            node.status, node.scheduling_eligibility, node.drain_strategy = (
                "ready",
                "eligible",
                None,
            )
        cluster.changed()
        player = Player(case)
        for _ in range(2 * _ROUNDS):
            player.settle()
            for deployment in list(cluster.deployment_table.values()):
                _all_healthy(cluster, deployment.id)
        outcome, _ = player.decide()
        if not outcome.evaluation.failed_tg_allocs:
            statuses = {d.status for d in cluster.deployment_table.values()}
            assert statuses <= {"successful"}, f"seed {seed}: {statuses}"
            ended += bool(statuses)
    assert ended > 10
