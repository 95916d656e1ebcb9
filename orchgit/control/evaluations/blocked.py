"""Evaluations that could not place everything, and what has to change before they try again.

Pure. An evaluation is kept by what blocks it:
- captured: it knows for each computed class it saw whether the class could ever do;
- escaped: its constraints look at single nodes, so any change may help;
- node: a system job's, waiting for one node;
- quota: waiting for its namespace's quota.

A change between an evaluation's snapshot and its arrival here is not lost: every unblock leaves its
index, and an evaluation that is older than the index of a change that could help it is let go at
once. Per job one blocked evaluation is kept, the newest; the others are cancelable.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from orchgit.control.evaluations.broker import JobKey, job_key
from orchgit.model.evaluation import EvalTrigger, Evaluation

NODE_TYPES = frozenset(("system", "sysbatch"))


@dataclass
class BlockedStats:
    blocked: int = 0
    escaped: int = 0
    by_quota: int = 0
    cancelable: int = 0


class BlockedEvals:
    """Every method that may let evaluations go returns them, for the broker."""

    def __init__(self) -> None:
        self._evals: dict[str, Evaluation] = {}
        self._of_job: dict[JobKey, str] = {}
        self._of_node: dict[str, dict[JobKey, str]] = {}
        """Those that wait for one node, by that node."""
        self._nodes_of: dict[JobKey, dict[str, None]] = {}
        """The nodes that evaluations of the job wait for."""
        self._cancelable: dict[str, Evaluation] = {}
        self._class_index: dict[str, int] = {}
        self._node_index: dict[str, int] = {}
        self._quota_index: dict[str, int] = {}

    def block(self, evaluation: Evaluation) -> list[Evaluation]:
        """Keep an evaluation; or give it back when the change it waits for came already."""
        if evaluation.id in self._evals:
            self._evals[evaluation.id] = evaluation
        elif not self._take_place(evaluation):
            return []
        if self._missed_unblock(evaluation):
            self._drop(evaluation.id)
            return [evaluation]
        return []

    def unblock_class(self, computed_class: str, index: int) -> list[Evaluation]:
        """Capacity appeared on a node of this class."""
        self._class_index[computed_class] = index
        return self._release(
            [
                evaluation
                for evaluation in self._evals.values()
                if not _waits_for_node(evaluation)
                and not evaluation.quota_limit_reached
                and _class_may_help(evaluation, computed_class)
            ]
        )

    def unblock_node(self, node_id: str, index: int) -> list[Evaluation]:
        """Something changed on this node: system evaluations that wait for it try again."""
        self._node_index[node_id] = index
        return self._release([self._evals[one] for one in self._of_node.get(node_id, {}).values()])

    def unblock_quota(self, quota: str, index: int) -> list[Evaluation]:
        """The quota grew or usage under it fell."""
        self._quota_index[quota] = index
        return self._release(
            [kept for kept in self._evals.values() if kept.quota_limit_reached == quota]
        )

    def unblock_failed(self) -> list[Evaluation]:
        """Those blocked only because their plans kept being rejected; called from time to time."""
        return self._release(
            [kept for kept in self._evals.values() if kept.triggered_by == EvalTrigger.MAX_PLANS]
        )

    def untrack(self, key: JobKey) -> None:
        """A later evaluation of this job placed everything: the blocked ones are needless."""
        of_nodes = [self._of_node[node_id][key] for node_id in self._nodes_of.get(key, ())]
        own = self._of_job.get(key)
        for eval_id in [own, *of_nodes] if own else of_nodes:
            self._cancelable[eval_id] = self._drop(eval_id)

    def discard(self, eval_id: str) -> None:
        """The evaluation ended otherwise (canceled, deleted)."""
        self._cancelable.pop(eval_id, None)
        if eval_id in self._evals:
            self._drop(eval_id)

    @property
    def has_cancelable(self) -> bool:
        return bool(self._cancelable)

    def take_cancelable(self, limit: int) -> list[Evaluation]:
        ids = list(itertools.islice(self._cancelable, limit))
        return [self._cancelable.pop(eval_id) for eval_id in ids]

    def return_cancelable(self, evaluations: list[Evaluation]) -> None:
        """They could not be recorded as canceled now; take them again later."""
        self._cancelable.update((evaluation.id, evaluation) for evaluation in evaluations)

    def prune(self, before_index: int) -> None:
        """Forget unblock indexes that no snapshot in use can be older than."""
        for table in (self._class_index, self._node_index, self._quota_index):
            for key in [key for key, index in table.items() if index < before_index]:
                del table[key]

    def stats(self) -> BlockedStats:
        kept = self._evals.values()
        return BlockedStats(
            blocked=len(self._evals),
            escaped=sum(evaluation.escaped_computed_class for evaluation in kept),
            by_quota=sum(bool(evaluation.quota_limit_reached) for evaluation in kept),
            cancelable=len(self._cancelable),
        )

    # -- inside --------------------------------------------------------------------------------

    def _take_place(self, evaluation: Evaluation) -> bool:
        """Put it where its job's (or node's) one blocked evaluation is; False: a newer is there."""
        key = job_key(evaluation)
        held = self._holder_of(evaluation)
        if held is not None:
            if held.create_index > evaluation.create_index:
                self._cancelable[evaluation.id] = evaluation
                return False
            self._cancelable[held.id] = self._drop(held.id)
        self._evals[evaluation.id] = evaluation
        if _waits_for_node(evaluation):
            self._of_node.setdefault(evaluation.node_id, {})[key] = evaluation.id
            self._nodes_of.setdefault(key, {})[evaluation.node_id] = None
        else:
            self._of_job[key] = evaluation.id
        return True

    def _holder_of(self, evaluation: Evaluation) -> Evaluation | None:
        key = job_key(evaluation)
        if _waits_for_node(evaluation):
            held = self._of_node.get(evaluation.node_id, {}).get(key)
        else:
            held = self._of_job.get(key)
        return self._evals[held] if held else None

    def _missed_unblock(self, evaluation: Evaluation) -> bool:
        seen = evaluation.snapshot_index
        if evaluation.quota_limit_reached:
            return self._quota_index.get(evaluation.quota_limit_reached, 0) > seen
        if _waits_for_node(evaluation):
            return self._node_index.get(evaluation.node_id, 0) > seen
        return any(
            index > seen and _class_may_help(evaluation, computed_class)
            for computed_class, index in self._class_index.items()
        )

    def _release(self, evaluations: list[Evaluation]) -> list[Evaluation]:
        for evaluation in evaluations:
            self._drop(evaluation.id)
        return evaluations

    def _drop(self, eval_id: str) -> Evaluation:
        evaluation = self._evals.pop(eval_id)
        key = job_key(evaluation)
        if self._of_job.get(key) == eval_id:
            del self._of_job[key]
        of_node = self._of_node.get(evaluation.node_id, {})
        if of_node.get(key) == eval_id:
            del of_node[key]
            del self._nodes_of[key][evaluation.node_id]
            if not of_node:
                del self._of_node[evaluation.node_id]
            if not self._nodes_of[key]:
                del self._nodes_of[key]
        return evaluation


def _waits_for_node(evaluation: Evaluation) -> bool:
    return bool(evaluation.node_id) and evaluation.type in NODE_TYPES


def _class_may_help(evaluation: Evaluation, computed_class: str) -> bool:
    """A class the evaluation never saw may help; one it found ineligible cannot."""
    if evaluation.escaped_computed_class:
        return True
    return (evaluation.class_eligibility or {}).get(computed_class, True)
