"""Schedules system and sysbatch jobs: one allocation on every node that qualifies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.scheduler.feasibility.checks import ALL_POOLS
from orchgit.scheduler.finish import Unplaced, complete
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.placement.candidates import node_at
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.plan_changes import new_plan, write_changes
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.reconcile.changes import (
    LOST,
    NODE_TAINTED,
    NOT_NEEDED,
    Disconnect,
    JobChanges,
    Stop,
)
from orchgit.scheduler.reconcile.classify import tainted_nodes
from orchgit.scheduler.reconcile.steady import of_registration
from orchgit.scheduler.reconcile.system import GroupDiff, SystemContext, diff_system
from orchgit.scheduler.reconcile.system_deployment import SystemDeployment
from orchgit.scheduler.reconcile.unconfirmed_stops import lose_unconfirmed_stops
from orchgit.scheduler.system_placement import SystemPlacement
from orchgit.scheduler.update_decision import JobVersions, UpdateDecision


def schedule_system(inputs: SchedulingInputs) -> SchedulingOutcome:
    view, key = inputs.view, inputs.job_key
    job = view.job(*key)
    allocations = of_registration(view.allocations_by_job(*key), job)
    is_sysbatch = inputs.evaluation.type == JobType.SYSBATCH
    versions = JobVersions(view, job)
    stacks = None
    if job is not None and not job.stop:
        stacks = Stacks(view, job, Proposed(view, key, allocations), allocations, inputs.seed)
    decision = UpdateDecision(job, versions, stacks, ended_are_updated=True)
    latest = None if is_sysbatch else view.latest_deployment(*key)
    deployment = SystemDeployment(job, latest, inputs.evaluation, inputs.ids, inputs.now_ns)
    context = SystemContext(
        job=job,
        is_sysbatch=is_sysbatch,
        tainted=tainted_nodes(view, allocations),
        candidates=_candidates(stacks),
        waiting=_waiting_nodes(view, job, allocations) if stacks is not None else set(),
        group_of=versions.group_of,
        update_kind=decision.kind,
        is_current=decision.is_current,
        now_ns=inputs.now_ns,
    )
    diffs = diff_system(context, allocations)
    changes = JobChanges()
    for name, diff in diffs.items():
        _note(changes, name, diff, decision)
        if not context.candidates and changes.desired[name] == DesiredUpdates():
            del changes.desired[name]
    plan = new_plan(inputs, job)
    write_changes(plan, changes, stacks)
    unplaced = Unplaced()
    placement = None
    if stacks is not None:
        placement = SystemPlacement(inputs, stacks, plan, changes, deployment, unplaced)
        deployment.allowed = placement.know_deployments(context.candidates.values())
        placement.run(diffs, allocations, versions.group_of)
    lose_unconfirmed_stops(plan, allocations, context.tainted)
    deployment.write(plan)
    outcome = complete(inputs, plan, changes.desired, unplaced, deployment_id=deployment.latest_id)
    if placement is not None:
        outcome.blocked = placement.blocked_evaluation()
    return outcome


def _candidates(stacks: Stacks | None) -> dict[str, Node]:
    """Ready nodes in the job's pool and datacenters, by id."""
    if stacks is None:
        return {}
    rows = np.flatnonzero(stacks.candidate_mask).tolist()
    return {node.id: node for node in (node_at(stacks.columns, row) for row in rows)}


def _waiting_nodes(
    view: ClusterView, job: Job | None, allocations: Sequence[Allocation]
) -> set[str]:
    """Nodes of the job's allocations that are in its pool and not ready."""
    nodes = {a.node_id: view.node(a.node_id) for a in allocations}
    return {
        node_id
        for node_id, node in nodes.items()
        if job is not None
        and node is not None
        and not node.is_ready
        and job.node_pool in (ALL_POOLS, node.node_pool)
    }


def _note(changes: JobChanges, name: str, diff: GroupDiff, decision: UpdateDecision) -> None:
    """Takes over what needs no decision about nodes."""
    changes.stops += [Stop(a, NOT_NEEDED) for a in diff.stop]
    changes.stops += [Stop(a, NODE_TAINTED) for a in diff.migrate]
    changes.stops += [Stop(a, LOST, ClientStatus.LOST) for a in diff.lost]
    changes.disconnects += [Disconnect(a, "") for a in diff.disconnecting]
    replaced = {a.id for a in (*diff.update, *diff.stop)}
    changes.reconnects += [a for a in diff.reconnecting if a.id not in replaced]
    current = {a.id for a in diff.reconnecting if decision.is_current(a)}
    changes.in_place += [a for a in diff.in_place if not a.is_terminal and a.id not in current]
    changes.desired[name] = DesiredUpdates(
        ignore=len(diff.ignore),
        migrate=len(diff.migrate),
        stop=len(diff.stop),
        in_place_update=len(diff.in_place),
        destructive_update=len(diff.update),
        disconnect=len(diff.disconnecting),
        reconnect=len(diff.reconnecting),
    )
