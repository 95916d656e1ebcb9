"""Brings applied log entries to the broker: new evaluations in, ended ones out, blocked ones freed.

The only reader of the applied feed that changes the broker and the blocked evaluations. It starts
from a snapshot and continues with the batches after it, so it misses nothing and polls nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import structlog

from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.control.evaluations.broker import job_key
from orchgit.control.evaluations.queue import EvalQueue
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.replication.events import AppliedBatch
from orchgit.state.chunks import chunks
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

_log = structlog.get_logger(component="control")

_AT_ONCE = 500
"""Evaluations put in during one turn of the event loop."""


class EvalIntake:
    """`take` is called with every applied batch, in order."""

    def __init__(self, store: Store, queue: EvalQueue, blocked: BlockedEvals) -> None:
        self._store = store
        self._queue = queue
        self._blocked = blocked
        self._quota_of: dict[str, str] = {}

    async def restore(self, snapshot: Snapshot) -> None:
        """Fill the broker from the state, at the start of a term: reads beside the event loop, and
        puts in a few at a time."""
        stored = await asyncio.to_thread(_stored, snapshot)
        self._quota_of = stored.quota_of
        for node_id, index in stored.node_indexes.items():
            self._blocked.unblock_node(node_id, index)
        for computed_class, index in stored.class_indexes.items():
            self._blocked.unblock_class(computed_class, index)
        for quota in {each.quota_limit_reached for each in stored.blocked} - {""}:
            self._blocked.unblock_quota(quota, snapshot.index)
        for some in chunks([*stored.blocked, *stored.pending], _AT_ONCE):
            self._route(some)
            await asyncio.sleep(0)

    def take(self, batch: AppliedBatch) -> None:
        # Of one that is named more than once its newest form counts.
        self._route({each.id: each for each in batch.evaluations}.values())
        nodes = set(batch.changed.get("nodes", ()))
        # Plans free nothing by themselves: what they stop runs until its agent says that it ended.
        nodes |= batch.effects.freed_nodes
        nodes |= self._nodes_of_volumes(batch.changed.get("host_volumes", ()))
        self._capacity_changed(nodes, batch.index)
        self._quotas_changed(batch)
        if self._blocked.has_cancelable:
            self._queue.needless.set()

    def unblock_failed(self) -> None:
        """Let those try again whose plans kept being rejected; called from time to time."""
        self._queue.enqueue(self._blocked.unblock_failed())

    def _quotas_changed(self, batch: AppliedBatch) -> None:
        """Quotas were set, namespaces got others, or allocations ended that took of one: who waited
        for that tries again."""
        changed = set(batch.changed.get("quotas", ()))
        ended = batch.changed.get("allocations", ()) if self._quota_of else ()
        if not (changed or ended or "namespaces" in batch.changed):
            return
        with self._store.snapshot() as snapshot:
            if "namespaces" in batch.changed:
                before, self._quota_of = self._quota_of, _quotas_of_namespaces(snapshot)
                pairs = {*before.items(), *self._quota_of.items()}
                changed |= {quota for _, quota in pairs}
            for namespace in snapshot.namespace_usage.namespaces_of_ended(ended):
                if namespace in self._quota_of:
                    changed.add(self._quota_of[namespace])
        for quota in changed:
            self._queue.enqueue(self._blocked.unblock_quota(quota, batch.index))

    def _route(self, evaluations: Iterable[Evaluation]) -> None:
        ready = []
        for evaluation in evaluations:
            if evaluation.status == EvalStatus.PENDING:
                ready.append(evaluation)
            elif evaluation.status == EvalStatus.BLOCKED:
                ready.extend(self._blocked.block(evaluation))
            else:
                self._ended(evaluation)
        self._queue.enqueue(ready)

    def _ended(self, evaluation: Evaluation) -> None:
        self._blocked.discard(evaluation.id)
        self._queue.discard(evaluation.id)
        placed_all = not evaluation.failed_tg_allocs
        if evaluation.status == EvalStatus.COMPLETE and placed_all:
            self._blocked.untrack(job_key(evaluation))

    def _nodes_of_volumes(self, volume_ids: Collection[str]) -> set[str]:
        """A volume is ready only after its node has told of it."""
        if not volume_ids:
            return set()
        with self._store.snapshot() as snapshot:
            volumes = [snapshot.host_volumes.get(volume_id) for volume_id in volume_ids]
        return {volume.node_id for volume in volumes if volume is not None}

    def _capacity_changed(self, node_ids: set[str], index: int) -> None:
        """Nodes came, changed, or have less to do: who waited for that tries again."""
        if not node_ids:
            return
        ready: list[Evaluation] = []
        with self._store.snapshot() as snapshot:
            classes = snapshot.nodes.classes_of_ready(node_ids)
        for computed_class in set(classes.values()):
            ready.extend(self._blocked.unblock_class(computed_class, index))
        for node_id in classes:
            ready.extend(self._blocked.unblock_node(node_id, index))
        self._queue.enqueue(ready)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a new leader finds. `class_indexes` and `node_indexes`: what came, changed or ended
    since the oldest blocked evaluation looked, and who waited may not have been told: the leader
    that would have may be gone."""

    quota_of: dict[str, str]
    blocked: list[Evaluation]
    pending: list[Evaluation]
    class_indexes: dict[str, int]
    node_indexes: dict[str, int]


def _stored(snapshot: Snapshot) -> _Stored:
    blocked = snapshot.evaluations.of_status(EvalStatus.BLOCKED)
    by_class: dict[str, int] = {}
    by_node: dict[str, int] = {}
    if blocked:
        since = min(evaluation.snapshot_index for evaluation in blocked)
        freed = snapshot.allocations.nodes_freed_since(since)
        volumes_changed = snapshot.host_volumes.newest_of_nodes()
        for node_id, computed_class, changed in snapshot.nodes.all_ready():
            index = max(changed, freed.get(node_id, 0), volumes_changed.get(node_id, 0))
            if index > since:
                by_class[computed_class] = max(index, by_class.get(computed_class, 0))
                by_node[node_id] = index
    return _Stored(
        _quotas_of_namespaces(snapshot),
        blocked,
        snapshot.evaluations.of_status(EvalStatus.PENDING),
        by_class,
        by_node,
    )


def _quotas_of_namespaces(snapshot: Snapshot) -> dict[str, str]:
    """Returns namespace -> the name of its quota, of those that have one."""
    return {each.name: each.quota for each in snapshot.namespaces.all() if each.quota}
