"""A cluster's state without a log: commands applied directly to a fresh store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.plan import PlanResult
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocs
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.events import AllocNotes, Effects, EvaluationNotes, Note
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from tests.support.factories import make_node, make_placements
from tests.support.state import apply, check_invariants, open_store


class Cluster:
    """Short words for what most tests of handlers do."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.effects = Effects()

    def do(self, *commands: Command) -> Any:
        """Apply; returns the last one's result."""
        return apply(self.store, *commands, effects=self.effects)[-1]

    def see(self) -> Snapshot:
        return self.store.snapshot()

    def register(self, job: Job, **fields: Any) -> Any:
        return self.do(RegisterJob(upsert=JobUpsert(job=job, **fields)))

    def node(self, **fields: Any) -> Node:
        node = make_node(**fields)
        self.do(RegisterNode(node=node))
        return node

    def plan(self, job: Job, **result: Any) -> None:
        self.do(
            ApplyPlan(
                namespace=job.namespace,
                job_id=job.id,
                job_version=job.version,
                eval_id="",
                result=PlanResult(**result),
            )
        )

    def place(self, job: Job, node: Node, count: int = 1, **fields: Any) -> list[str]:
        """Commit `count` placements of the registered job; their ids."""
        with self.see() as snapshot:
            current = snapshot.jobs.get(job.namespace, job.id)
        assert current is not None
        placements = make_placements(current, [node], count, **fields)
        self.plan(current, placements=[placements])
        return placements.alloc_ids

    def report(self, node: Node, *alloc_ids: str, status: str = "running", **fields: Any) -> None:
        updates = [AllocClientUpdate(id_, status, **fields) for id_ in alloc_ids]
        self.do(UpdateAllocs(node_id=node.id, updates=updates))

    def job(self, job: Job) -> Job:
        with self.see() as snapshot:
            found = snapshot.jobs.get(job.namespace, job.id)
        assert found is not None
        return found

    def alloc(self, alloc_id: str) -> Allocation:
        with self.see() as snapshot:
            found = snapshot.allocations.get(alloc_id)
        assert found is not None
        return found

    def deployment(self, deployment: Deployment) -> Deployment:
        with self.see() as snapshot:
            found = snapshot.deployments.get(deployment.id)
        assert found is not None
        return found

    def noted(self) -> list[str]:
        """Types of events so far, each with its subject's type."""
        return [one for note in self.effects.notes for one in _noted(note)]


def _noted(note: Note) -> list[str]:
    if isinstance(note, EvaluationNotes):
        return [f"Evaluation:{note.type}" for _ in note.evaluations]
    topic = "Allocation" if isinstance(note, AllocNotes) else type(note.subject).__name__
    return [f"{topic}:{note.type}"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = open_store(tmp_path)
    yield Cluster(store)
    with store.snapshot() as snapshot:
        check_invariants(snapshot)
    store.close()
