"""Collects placements into the plan's columns."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.plan import Placements, Plan
from orchgit.model.resources import AllocatedResources
from orchgit.scheduler.ranking.offers import Offer
from orchgit.scheduler.reconcile.changes import Placement


class PlanBuilder:
    """One `Placements` per group, job version and deployment."""

    def __init__(self, plan: Plan, evaluation: Evaluation, ids: IdSource) -> None:
        self.plan = plan
        self._evaluation = evaluation
        self._ids = ids.series()
        self._columns: dict[tuple[str, int, str], Placements] = {}

    def add(
        self,
        job: Job,
        placement: Placement,
        node: Node,
        offer: Offer,
        shared: AllocatedResources,
        deployment_id: str,
        metrics: AllocMetric | None,
    ) -> tuple[Placements, int]:
        """The columns and the row of the new allocation."""
        key = (placement.group.name, job.version, deployment_id)
        columns = self._columns.get(key) or self._new_columns(job, key, shared)
        row = len(columns.alloc_ids)
        columns.alloc_ids.append(next(self._ids))
        columns.name_indexes.append(placement.name_index)
        columns.node_ids.append(node.id)
        columns.node_names.append(node.name)
        if offer.ports or columns.ports is not None:
            if columns.ports is None:
                columns.ports = [[] for _ in range(row)]
            columns.ports.append(offer.ports)
        if offer.resources is not None:
            columns.resources_of[row] = offer.resources
        if metrics is not None:
            if columns.metrics is None:
                columns.metrics = metrics
            else:
                columns.metrics_of[row] = metrics
        if placement.previous is not None:
            columns.previous_of[row] = placement.previous.id
        if placement.canary:
            columns.canary_rows.append(row)
        return columns, row

    def _new_columns(
        self, job: Job, key: tuple[str, int, str], shared: AllocatedResources
    ) -> Placements:
        origin = job.origin
        columns = Placements(
            namespace=job.namespace,
            job_id=job.id,
            job_version=job.version,
            job_type=job.type,
            task_group=key[0],
            eval_id=self._evaluation.id,
            deployment_id=key[2],
            commit_id=origin.commit_id if origin is not None else "",
            rollout_id=origin.rollout_id if origin is not None else "",
            resources=shared,
        )
        self._columns[key] = columns
        self.plan.placements.append(columns)
        return columns
