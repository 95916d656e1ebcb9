"""Evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from orchgit.model.evaluation import Evaluation
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.chunks import chunks
from orchgit.state.tables.base import Reads, Writes

EVALUATIONS = BodyTable(
    "evaluations",
    Evaluation,
    "id namespace job_id status type deployment_id create_index modify_index",
)


class EvaluationReads(Reads):
    def evaluation(self, eval_id: str) -> Evaluation | None:
        return EVALUATIONS.get(self.connection, eval_id)

    def evaluations(self, namespace: str | None = None, prefix: str = "") -> list[Evaluation]:
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        return EVALUATIONS.find(self.connection, where, values)

    def evaluations_by_job(self, namespace: str, job_id: str) -> list[Evaluation]:
        where = "namespace = ? AND job_id = ?"
        return EVALUATIONS.find(self.connection, where, (namespace, job_id))

    def evaluations_by_status(self, *statuses: str) -> list[Evaluation]:
        """In the order in which they were created."""
        where = f"status IN ({', '.join('?' * len(statuses))})"
        return EVALUATIONS.find(self.connection, where, statuses, "create_index, id")

    def blocked_evaluations(self, namespace: str, job_id: str) -> list[Evaluation]:
        where = "namespace = ? AND job_id = ? AND status = 'blocked'"
        return EVALUATIONS.find(self.connection, where, (namespace, job_id))


_CREATED = "SELECT id, create_index FROM evaluations WHERE id IN "
_AT_ONCE = 500


class EvaluationWrites(EvaluationReads, Writes):
    def evaluations_created(self, eval_ids: Sequence[str]) -> dict[str, int]:
        """Evaluation -> its create index, for those of them that there are."""
        created: dict[str, int] = {}
        for ids in chunks(eval_ids, _AT_ONCE):
            rows = self._rows(f"{_CREATED}({', '.join('?' * len(ids))})", ids)
            created.update(cast(list[tuple[str, int]], rows))
        return created

    def put_evaluations(self, evaluations: Sequence[Evaluation]) -> None:
        """Their indexes are the caller's."""
        EVALUATIONS.put(self.connection, evaluations)
        self._changed("evaluations", [evaluation.id for evaluation in evaluations])
        jobs = {job_key(evaluation.namespace, evaluation.job_id) for evaluation in evaluations}
        self._changed("evaluations_by_job", jobs)

    def touch_evaluation(self, eval_id: str) -> None:
        """Its plan was committed: who schedules it again must see this index."""
        evaluation = self.evaluation(eval_id)
        if evaluation is not None:
            evaluation.modify_index = self.index
            self.put_evaluations([evaluation])

    def delete_evaluations(self, eval_ids: Sequence[str]) -> None:
        EVALUATIONS.delete(self.connection, eval_ids)
        self._changed("evaluations", eval_ids)
