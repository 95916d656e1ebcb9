"""What one evaluation is decided from: equal inputs have equal outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation
from orchgit.scheduler.ports import ClusterView


@dataclass(frozen=True, slots=True)
class SchedulingInputs:
    evaluation: Evaluation
    view: ClusterView
    now_ns: int
    seed: int
    """Decides between equal nodes, and chooses ports."""
    ids: IdSource
    """Names new objects."""

    @property
    def job_key(self) -> tuple[str, str]:
        """(namespace, job id)"""
        return self.evaluation.namespace, self.evaluation.job_id
