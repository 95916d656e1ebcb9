"""Makes the evaluations for a node that changed."""

from __future__ import annotations

from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.node import Node
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.state.jobs_of_node import jobs_of_node
from orchgit.state.snapshot import Snapshot


def evaluations_for_node(
    context: UseCaseContext, snapshot: Snapshot, node: Node
) -> list[Evaluation]:
    """Returns one evaluation per job that may have something to change on the node."""
    return [
        evaluation_for_job(context, job, EvalTrigger.NODE_UPDATE, node=node)
        for job in jobs_of_node(snapshot, node)
    ]
