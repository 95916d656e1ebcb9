"""Evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import msgspec

from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.chunks import chunks
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

EVALUATIONS = BodyTable(
    "evaluations",
    Evaluation,
    "id namespace job_id status type deployment_id create_index modify_index",
)


class EvaluationReads(TableReads):
    def get(self, eval_id: str) -> Evaluation | None:
        return EVALUATIONS.get(self._connection, eval_id)

    def all(self, namespace: str | None = None, prefix: str = "") -> list[Evaluation]:
        """`prefix` of their ids."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        return EVALUATIONS.find(self._connection, where, values)

    def keys(self, namespace: str | None = None, prefix: str = "") -> list[tuple[int, str]]:
        """Returns (create index, id) in order of creation: enough to choose a page of them."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        sql = f"SELECT create_index, id FROM evaluations WHERE {where or 'TRUE'}"  # noqa: S608
        return cast(list[tuple[int, str]], self._rows(f"{sql} ORDER BY create_index, id", values))

    def of_job(self, namespace: str, job_id: str) -> list[Evaluation]:
        where = "namespace = ? AND job_id = ?"
        return EVALUATIONS.find(self._connection, where, (namespace, job_id))

    def undone_of_job(self, namespace: str, job_id: str) -> list[Evaluation]:
        """Returns the evaluations of the job that are pending or blocked."""
        where = "namespace = ? AND job_id = ? AND status IN ('pending', 'blocked')"
        return EVALUATIONS.find(self._connection, where, (namespace, job_id))

    def blocked_of_job(self, namespace: str, job_id: str) -> list[Evaluation]:
        where = "namespace = ? AND job_id = ? AND status = 'blocked'"
        return EVALUATIONS.find(self._connection, where, (namespace, job_id))

    def of_status(self, *statuses: str) -> list[Evaluation]:
        """Returns the evaluations of any of these statuses, in the order of their creation."""
        where = f"status IN ({', '.join('?' * len(statuses))})"
        return EVALUATIONS.find(self._connection, where, statuses, "create_index, id")

    def ids_of_status(self, status: str) -> set[str]:
        """Returns the ids of the evaluations of this status, without reading them."""
        sql = "SELECT json_group_array(id) FROM evaluations WHERE status = ?"
        return _decode_ids(str(self._rows(sql, (status,))[0][0]))


_decode_ids = msgspec.json.Decoder(set[str]).decode

_CREATE_INDEXES = "SELECT id, create_index FROM evaluations WHERE id IN "
_CHUNK = 500
_OPEN = frozenset((EvalStatus.PENDING, EvalStatus.BLOCKED))


class EvaluationWrites(EvaluationReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry
        self._opened: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """(namespace, job id) -> ids of its evaluations that the entry left pending or blocked."""

    def begin_entry(self) -> None:
        self._opened.clear()

    def has_opened(self, namespace: str, job_id: str) -> bool:
        """Whether the entry left an evaluation of the job pending or blocked."""
        return bool(self._opened.get((namespace, job_id)))

    def put_all(self, evaluations: Sequence[Evaluation]) -> None:
        """Sets their create index to that of the stored evaluation, or to this entry's; the caller
        sets all else. Most that are not cached are new: the insert tells which, without asking
        first."""
        cache = self._entry.cache.evaluation_create_indexes
        stored = {each.id: cache[each.id] for each in evaluations if each.id in cache}
        new = [each for each in evaluations if each.id not in stored]
        if new and not self._insert(new):
            stored |= self._create_indexes([each.id for each in new])
        if stored:
            known = [each for each in evaluations if each.id in stored]
            for each in known:
                each.create_index = stored[each.id]
            EVALUATIONS.put(self._connection, known)
        cache.put_all([(each.id, each.create_index) for each in evaluations])
        for each in evaluations:
            opened = self._opened[each.namespace, each.job_id]
            if each.status in _OPEN:
                opened.add(each.id)
            else:
                opened.discard(each.id)
        self._entry.changed("evaluations", [each.id for each in evaluations])
        jobs = [job_key(each.namespace, each.job_id) for each in evaluations]
        self._entry.changed("evaluations_by_job", jobs)

    def _insert(self, new: Sequence[Evaluation]) -> bool:
        """Returns False if some of them were stored already; those are left as they were."""
        for each in new:
            each.create_index = self._entry.index
        return EVALUATIONS.insert(self._connection, new) == len(new)

    def _create_indexes(self, eval_ids: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for ids in chunks(eval_ids, _CHUNK):
            rows = self._rows(f"{_CREATE_INDEXES}({', '.join('?' * len(ids))})", ids)
            found.update(cast(list[tuple[str, int]], rows))
        return found

    def touch(self, eval_id: str) -> None:
        """Its plan was committed: the worker that schedules it again must see this index."""
        evaluation = self.get(eval_id)
        if evaluation is not None:
            evaluation.modify_index = self._entry.index
            self.put_all([evaluation])

    def delete_all(self, eval_ids: Sequence[str]) -> None:
        EVALUATIONS.delete(self._connection, eval_ids)
        for eval_id in eval_ids:
            self._entry.cache.evaluation_create_indexes.pop(eval_id, None)
        self._opened.clear()
        self._entry.changed("evaluations", eval_ids)
