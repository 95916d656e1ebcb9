"""Reads a recorded scheduling case into a cluster, and plays the planner against the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.plan import Placements, Plan, PlanResult
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.scheduler.outcome import Attempts, SchedulingOutcome, gave_up
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster


def load_cluster(case: dict[str, Any]) -> ListCluster:
    """The state of a case."""
    cluster = ListCluster(case.get("now", 0))
    for node in msgspec.convert(case.get("nodes", []), list[Node]):
        cluster.nodes[node.id] = node
    for job in msgspec.convert(case.get("jobs", []), list[Job]):
        cluster.jobs[job.namespace, job.id, job.version] = job
    cluster.purged = {tuple(key.split("/", 1)) for key in case.get("purged_jobs", [])}  # type: ignore[misc]
    for allocation in msgspec.convert(case.get("allocs", []), list[Allocation]):
        cluster.allocs[allocation.id] = allocation
    for deployment in msgspec.convert(case.get("deployments", []), list[Deployment]):
        cluster.deployment_table[deployment.id] = deployment
    volumes = case.get("volumes") or {}
    for volume in msgspec.convert(volumes.get("host", []), list[HostVolume]):
        cluster.volumes[volume.id] = volume
    for csi in volumes.get("csi", []):
        cluster.csi[csi["Namespace"], csi["ID"]] = csi
    for claim in msgspec.convert(case.get("claims", []), list[TaskGroupVolumeClaim]):
        cluster.claims[claim.id] = claim
    for pool in msgspec.convert(case.get("node_pools", []), list[NodePool]):
        cluster.pools[pool.name] = pool
    cluster.config = msgspec.convert(case.get("scheduler_config", {}), SchedulerConfig)
    return cluster


@dataclass
class Played:
    """What happened: every submitted plan, and the last outcome."""

    before: ListCluster
    after: ListCluster
    outcome: SchedulingOutcome
    plans: list[Plan] = field(default_factory=list)
    followups: list[Evaluation] = field(default_factory=list)


def play(case: dict[str, Any], seed: int) -> Played:
    """Process the case's evaluation until it ends, with the case's planner."""
    cluster = load_cluster(case)
    evaluation = msgspec.convert(case["eval"], Evaluation)
    attempts = Attempts(evaluation.type)
    ids = SequentialIds("99999999")
    planner = case.get("planner") or {}
    played = Played(load_cluster(case), cluster, SchedulingOutcome(evaluation))
    while True:
        outcome = schedule(evaluation, cluster, now_ns=case["now"], seed=seed, ids=ids)
        played.outcome = outcome
        played.followups += outcome.followups
        if outcome.plan is None:
            return played
        played.plans.append(outcome.plan)
        result = _answer(outcome.plan, planner, len(played.plans))
        cluster.apply(result)
        if not result.refresh_index:
            return played
        attempts.record(result)
        if not attempts.remain:
            played.outcome = gave_up(evaluation, outcome, attempts.limit, ids)
            return played


def _answer(plan: Plan, planner: dict[str, Any], number: int) -> PlanResult:
    if planner.get("mode") == "reject_all":
        return PlanResult(refresh_index=1)
    refused: set[str] = set()
    if planner.get("mode") == "reject_nodes_once" and number == 1:
        refused = set(planner["nodes"])
    return PlanResult(
        stops=[stop for stop in plan.stops if stop.node_id not in refused],
        placements=[_without(columns, refused) for columns in plan.placements],
        updates=[update for update in plan.updates if update.node_id not in refused],
        preemptions=[p for p in plan.preemptions if p.node_id not in refused],
        claims=plan.claims,
        deployment=plan.deployment,
        deployment_updates=plan.deployment_updates,
        rejected_nodes=sorted(refused),
        refresh_index=1 if refused else 0,
    )


def _without(columns: Placements, refused: set[str]) -> Placements:
    keep = [row for row, node in enumerate(columns.node_ids) if node not in refused]
    return replace(
        columns,
        alloc_ids=[columns.alloc_ids[row] for row in keep],
        name_indexes=[columns.name_indexes[row] for row in keep],
        node_ids=[columns.node_ids[row] for row in keep],
        node_names=[columns.node_names[row] for row in keep],
        ports=None if columns.ports is None else [columns.ports[row] for row in keep],
        metrics_of=_moved(columns.metrics_of, keep),
        resources_of=_moved(columns.resources_of, keep),
        previous_of=_moved(columns.previous_of, keep),
        canary_rows=[new for new, old in enumerate(keep) if old in columns.canary_rows],
        reschedule_of=_moved(columns.reschedule_of, keep),
        preempts_of=_moved(columns.preempts_of, keep),
    )


def _moved(values: dict[int, Any], keep: list[int]) -> dict[int, Any]:
    return {new: values[old] for new, old in enumerate(keep) if old in values}
