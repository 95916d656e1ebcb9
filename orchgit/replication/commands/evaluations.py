"""Evaluations made outside of plans, and the garbage collection of evaluations and allocations."""

from __future__ import annotations

from orchgit.model.evaluation import Evaluation
from orchgit.replication.commands.entry import Entry


class UpsertEvaluations(Entry, tag="upsert-evaluations", kw_only=True):
    evaluations: list[Evaluation]


class DeleteEvaluations(Entry, tag="delete-evaluations", kw_only=True):
    """Garbage collection of evaluations and allocations."""

    eval_ids: list[str] = []
    alloc_ids: list[str] = []


EvaluationCommand = UpsertEvaluations | DeleteEvaluations
