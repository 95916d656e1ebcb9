"""Random clusters and histories: every decision keeps the rules, and deciding again changes
nothing more."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from orchgit.control.plan_check import examine_plan
from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation, AllocDeploymentStatus
from orchgit.scheduler.outcome import Outcome
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

    def decide(self) -> tuple[Outcome, list[str]]:
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

    def _decision(self, before: dict[str, Allocation], outcome: Outcome) -> Decision:
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
        if allocation.is_client_terminal or not cluster.nodes[allocation.node_id].is_calm:
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
