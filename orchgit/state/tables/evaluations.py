"""Evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from orchgit.model.evaluation import EvalStatus, Evaluation
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
_OPEN = frozenset((EvalStatus.PENDING, EvalStatus.BLOCKED))


class EvaluationWrites(EvaluationReads, Writes):
    opened: defaultdict[tuple[str, str], set[str]]
    """(namespace, job) -> its evaluations that this entry left open."""

    def put_evaluations(self, evaluations: Sequence[Evaluation]) -> None:
        """Their create index becomes that of the stored one, or this entry's; all else is the
        caller's. Most that are not remembered are new: whether they are is seen when they are
        inserted, without asking first."""
        remembered = self.remembered.created
        known = {one.id: remembered[one.id] for one in evaluations if one.id in remembered}
        new = [one for one in evaluations if one.id not in known]
        if new and not self._inserted(new):
            known |= self._created([one.id for one in new])
        if known:
            self._update([one for one in evaluations if one.id in known], known)
        remembered.keep_all([(one.id, one.create_index) for one in evaluations])
        self._note_evaluations(evaluations)

    def _inserted(self, new: Sequence[Evaluation]) -> bool:
        """False if some of them were there, and are left as they were."""
        for one in new:
            one.create_index = self.index
        return EVALUATIONS.insert(self.connection, new) == len(new)

    def _created(self, eval_ids: Sequence[str]) -> dict[str, int]:
        created: dict[str, int] = {}
        for ids in chunks(eval_ids, _AT_ONCE):
            rows = self._rows(f"{_CREATED}({', '.join('?' * len(ids))})", ids)
            created.update(cast(list[tuple[str, int]], rows))
        return created

    def _update(self, evaluations: Sequence[Evaluation], created: Mapping[str, int]) -> None:
        for one in evaluations:
            one.create_index = created[one.id]
        EVALUATIONS.put(self.connection, evaluations)

    def _note_evaluations(self, evaluations: Sequence[Evaluation]) -> None:
        for one in evaluations:
            opened = self.opened[one.namespace, one.job_id]
            if one.status in _OPEN:
                opened.add(one.id)
            else:
                opened.discard(one.id)
        self._changed("evaluations", [one.id for one in evaluations])
        jobs = [job_key(one.namespace, one.job_id) for one in evaluations]
        self._changed("evaluations_by_job", jobs)

    def touch_evaluation(self, eval_id: str) -> None:
        """Its plan was committed: who schedules it again must see this index."""
        evaluation = self.evaluation(eval_id)
        if evaluation is not None:
            evaluation.modify_index = self.index
            self.put_evaluations([evaluation])

    def delete_evaluations(self, eval_ids: Sequence[str]) -> None:
        EVALUATIONS.delete(self.connection, eval_ids)
        for eval_id in eval_ids:
            self.remembered.created.pop(eval_id, None)
        self.opened.clear()
        self._changed("evaluations", eval_ids)
