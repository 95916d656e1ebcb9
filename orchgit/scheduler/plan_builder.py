"""Collects placements into the plan's columns."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.node import Node
from orchgit.model.plan import Placements, Plan
from orchgit.scheduler.placement.attempt import Attempt
from orchgit.scheduler.ranking.offers import Offer


class PlanBuilder:
    """One `Placements` per group, job version and deployment."""

    def __init__(self, plan: Plan, evaluation: Evaluation, ids: IdSource) -> None:
        self.plan = plan
        self._evaluation = evaluation
        self._ids = ids.series()
        self._columns: dict[tuple[str, int, str], Placements] = {}

    def add(
        self, attempt: Attempt, node: Node, offer: Offer, metrics: AllocMetric | None
    ) -> tuple[Placements, int]:
        """Returns the columns and the row of the new allocation."""
        placement, job = attempt.placement, attempt.stack.job
        key = (placement.group.name, job.version, attempt.deployment_id)
        columns = self._columns.get(key) or self._new_columns(attempt, key)
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

    def _new_columns(self, attempt: Attempt, key: tuple[str, int, str]) -> Placements:
        job = attempt.stack.job
        origin = job.origin
        columns = Placements(
            namespace=job.namespace,
            job_id=job.id,
            job_version=job.version,
            job_type=job.type,
            task_group=attempt.placement.group.name,
            eval_id=self._evaluation.id,
            deployment_id=attempt.deployment_id,
            commit_id=origin.commit_id if origin is not None else "",
            rollout_id=origin.rollout_id if origin is not None else "",
            resources=attempt.stack.ask.resources,
        )
        self._columns[key] = columns
        self.plan.placements.append(columns)
        return columns
