"""Recorded cases of the plan applier, against our check of plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from orchgit.control.plans.check import examine_plan
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment, DeploymentStatusUpdate
from orchgit.model.plan import AllocPreemption, AllocStop, AllocUpdate, Placements, Plan, PlanResult
from tests.support.cluster import ListCluster
from tests.support.golden_compare import fits
from tests.support.golden_world import load_cluster

_OUT_OF_TOUCH = ("unknown", "lost")
"""What a plan may say of allocations on nodes that are away, also of those that are so already."""


def plan_problems(case: dict[str, Any]) -> list[str]:
    """Where our check differs from what is recorded."""
    cluster = load_cluster(case)
    cluster.index = max(case["indexes"].values())
    _forget_jobs(case["plan"], cluster)
    plan = _plan(case["plan"], cluster)
    checked = examine_plan(plan, cluster)
    wanted = case["expect"]
    found = _report(checked.result, plan) | {"reasons": checked.reasons}
    if "error" in wanted:
        committed = found["actual_placements"]
        return [f"error: wanted {wanted['error']}, found it committed"] if committed else []
    problems = [
        f"{name}: wanted {wanted[name]}, found {found[name]}"
        for name in found
        if name in wanted and wanted[name] != found[name]
    ]
    return problems + list(_deployment_problems(wanted, checked.result))


def _deployment_problems(wanted: dict[str, Any], result: PlanResult) -> Iterator[str]:
    """The deployment and the changes of deployments that are committed with the plan."""
    deployment = msgspec.to_builtins(result.deployment)
    stated = wanted.get("deployment")
    if bool(stated) != bool(deployment) or (stated and not fits(stated, deployment)):
        yield f"deployment: wanted {stated}, found {deployment}"
    updates = msgspec.to_builtins(result.deployment_updates)
    if len(updates) != len(wanted.get("deployment_updates") or []) or not fits(
        wanted.get("deployment_updates") or [], updates
    ):
        yield f"deployment_updates: found {updates}"


def _forget_jobs(plan: dict[str, Any], cluster: ListCluster) -> None:
    """A placement without its job: the applier does not learn what volumes it wants."""
    for placed in [a for group in plan["NodeAllocation"].values() for a in group]:
        if not placed.get("HasJob"):
            cluster.jobs.pop((placed["Namespace"], placed["JobID"], placed["JobVersion"]), None)


def _plan(raw: dict[str, Any], cluster: ListCluster) -> Plan:
    plan = Plan(
        eval_id=raw["EvalID"],
        namespace=raw["Namespace"],
        job_id=raw["JobID"],
        job_version=raw["JobVersion"],
        priority=raw["Priority"],
        all_at_once=raw["AllAtOnce"],
    )
    for node_id, entries in raw["NodeUpdate"].items():
        for entry in entries:
            plan.stops.append(
                AllocStop(
                    alloc_id=entry["ID"],
                    node_id=node_id,
                    desired_description=entry.get("DesiredDescription", ""),
                    client_status=entry.get("ClientStatus", ""),
                )
            )
    for node_id, entries in raw["NodePreemptions"].items():
        for entry in entries:
            plan.preemptions.append(
                AllocPreemption(
                    alloc_id=entry["ID"],
                    node_id=node_id,
                    preempted_by=entry.get("PreemptedByAllocation", ""),
                )
            )
    for node_id, entries in raw["NodeAllocation"].items():
        for allocation in msgspec.convert(entries, list[Allocation]):
            _add(plan, node_id, allocation, cluster)
    if raw.get("Deployment"):
        plan.deployment = msgspec.convert(raw["Deployment"], Deployment)
    plan.deployment_updates = msgspec.convert(
        raw.get("DeploymentUpdates") or [], list[DeploymentStatusUpdate]
    )
    return plan


def _add(plan: Plan, node_id: str, allocation: Allocation, cluster: ListCluster) -> None:
    known = cluster.allocs.get(allocation.id)
    if known is not None:
        status = allocation.client_status
        plan.updates.append(
            AllocUpdate(
                alloc_id=allocation.id,
                node_id=node_id,
                job_version=allocation.job_version,
                allocated_resources=allocation.allocated_resources,
                client_status=status
                if status in _OUT_OF_TOUCH or status != known.client_status
                else "",
            )
        )
        return
    resources = allocation.allocated_resources
    assert resources is not None
    plan.placements.append(
        Placements(
            namespace=allocation.namespace,
            job_id=allocation.job_id,
            job_version=allocation.job_version,
            task_group=allocation.task_group,
            alloc_ids=[allocation.id],
            name_indexes=[allocation.name_index],
            node_ids=[node_id],
            node_names=[allocation.node_name],
            resources=replace(resources, shared=replace(resources.shared, ports=None)),
            ports=[resources.shared.ports] if resources.shared.ports else None,
        )
    )


def _report(result: PlanResult, plan: Plan) -> dict[str, Any]:
    return {
        "node_update": _by_node([(stop.node_id, stop.alloc_id) for stop in result.stops]),
        "node_allocation": _by_node(
            [(update.node_id, update.alloc_id) for update in result.updates]
            + [
                (node_id, alloc_id)
                for columns in result.placements
                for node_id, alloc_id in zip(columns.node_ids, columns.alloc_ids, strict=True)
            ]
        ),
        "node_preemptions": {p.node_id: [] for p in plan.preemptions}
        | _by_node([(p.node_id, p.alloc_id) for p in result.preemptions]),
        "rejected_nodes": sorted(result.rejected_nodes),
        "refresh": result.refresh_index > 0,
        "refresh_index": result.refresh_index,
        "expected_placements": _count(plan.placements) + len(plan.updates),
        "full_commit": _count(result.placements) + len(result.updates)
        == _count(plan.placements) + len(plan.updates),
        "no_op": not (
            result.stops
            or result.placements
            or result.updates
            or result.preemptions
            or result.deployment
            or result.deployment_updates
        ),
        "actual_placements": _count(result.placements) + len(result.updates),
    }


def _count(placements: list[Placements]) -> int:
    return sum(len(columns) for columns in placements)


def _by_node(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    nodes: dict[str, list[str]] = {}
    for node_id, alloc_id in pairs:
        nodes.setdefault(node_id, []).append(alloc_id)
    return {node_id: sorted(ids) for node_id, ids in nodes.items()}
