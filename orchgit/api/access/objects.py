"""Finds the namespaces of objects that a request names by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from orchgit.api.access.requirements import ObjectKind
from orchgit.services.gitops.rollouts import find_rollout
from orchgit.state.snapshot import Snapshot


class StateObjects:
    """The objects of the newest state."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def namespace_of(self, kind: ObjectKind, object_id: str) -> str | None:
        with self._snapshot() as snapshot:
            return _FINDERS[kind](snapshot, object_id)

    def driver_of(self, alloc_id: str, task: str) -> str:
        with self._snapshot() as snapshot:
            allocation = snapshot.allocations.get(alloc_id)
            job = snapshot.job_versions.of_allocation(allocation) if allocation else None
            group = job.group(allocation.task_group) if job and allocation else None
        tasks = group.tasks if group is not None else ()
        named = [
            each.driver for each in tasks if each.name == task or (not task and len(tasks) < 2)
        ]
        return named[0] if named else ""


class _InNamespace(Protocol):
    namespace: str


def _namespace(found: _InNamespace | None) -> str | None:
    return None if found is None else found.namespace


def _of_rollout(snapshot: Snapshot, text: str) -> str | None:
    """Returns the namespace of a rollout's source; "" where that was removed, which only a rule for
    every namespace matches."""
    rollout = find_rollout(snapshot, text)
    if rollout is None:
        return None
    source = snapshot.sources.get(rollout.source)
    return source.namespace if source is not None else ""


_FINDERS: dict[ObjectKind, Callable[[Snapshot, str], str | None]] = {
    ObjectKind.ALLOCATION: lambda snapshot, text: _namespace(snapshot.allocations.get(text)),
    ObjectKind.DEPLOYMENT: lambda snapshot, text: _namespace(snapshot.deployments.get(text)),
    ObjectKind.EVALUATION: lambda snapshot, text: _namespace(snapshot.evaluations.get(text)),
    ObjectKind.HOST_VOLUME: lambda snapshot, text: _namespace(snapshot.host_volumes.get(text)),
    ObjectKind.SOURCE: lambda snapshot, text: _namespace(snapshot.sources.get(text)),
    ObjectKind.ROLLOUT: _of_rollout,
}
