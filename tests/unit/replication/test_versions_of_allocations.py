"""An allocation has its job for as long as it exists, and its stop always reaches its node.

Registrations, reverts, purges, garbage collection and plans come in any order; a plan is committed
when the job that it was made for may be another one, or gone.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.job import Job
from orchgit.model.plan import AllocUpdate, PlanResult
from orchgit.replication.commands.evaluations import DeleteEvaluations
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.rpc.allocation_sets import first_set
from tests.support.factories import make_job, make_placements
from tests.support.state import check_invariants, open_store
from tests.unit.replication.conftest import Cluster


def plan_of(job: Job, result: PlanResult) -> ApplyPlan:
    return ApplyPlan(
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        job_create_index=job.create_index,
        eval_id="",
        result=result,
    )


def purge(cluster: Cluster, job: Job) -> None:
    cluster.do(DeregisterJob(deletion=JobDeletion("default", job.id, purge=True)))


def test_update_planned_before_a_purge_leaves_the_allocation_its_job(cluster: Cluster) -> None:
    """Register, update, revert, purge: the in-place update to the last version comes too late."""
    job, node = make_job(), cluster.node()
    cluster.register(job)
    (alloc_id,) = cluster.place(job, node)
    cluster.register(msgspec.structs.replace(job, priority=60))
    cluster.register(msgspec.structs.replace(job, priority=50))
    planned = cluster.job(job)
    purge(cluster, job)
    update = AllocUpdate(alloc_id=alloc_id, node_id=node.id, job_version=planned.version)
    cluster.do(plan_of(planned, PlanResult(updates=[update])))
    held = cluster.alloc(alloc_id)
    with cluster.see() as snapshot:
        found = snapshot.job_versions.of_allocation(held)
        assert found is not None
        assert (found.version, found.priority) == (0, 50)
        told = first_set(snapshot, node.id, frozenset({alloc_id}))
    assert [one.alloc.desired_status for one in told.changed] == ["stop"]


def test_plan_of_a_purged_job_places_nothing_under_the_next_of_its_name(cluster: Cluster) -> None:
    job, node = make_job(), cluster.node()
    cluster.register(job)
    planned = cluster.job(job)
    placements = make_placements(planned, [node], 1)
    purge(cluster, job)
    cluster.register(msgspec.structs.replace(job, priority=70))
    with pytest.raises(ConflictError, match="is gone"):
        cluster.do(plan_of(planned, PlanResult(placements=[placements])))


def test_allocation_of_a_purged_job_keeps_its_own_job_beside_the_next_one(
    cluster: Cluster,
) -> None:
    job, node = make_job(), cluster.node()
    cluster.register(job)
    (old,) = cluster.place(job, node)
    purge(cluster, job)
    cluster.register(msgspec.structs.replace(job, priority=70))
    (new,) = cluster.place(job, node)
    with cluster.see() as snapshot:
        told = {
            each: snapshot.job_versions.of_allocation(cluster.alloc(each)) for each in (old, new)
        }
    assert [job and job.priority for job in told.values()] == [50, 70]


class Lives(RuleBasedStateMachine):
    """One name, many jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.cluster = Cluster(open_store(self.directory))
        self.node = self.cluster.node(cpu_shares=10**6, memory_mb=10**6, disk_mb=10**6)
        self.base = make_job(count=1)
        self.plans: list[ApplyPlan] = []

    def _current(self) -> Job | None:
        with self.cluster.see() as snapshot:
            return snapshot.jobs.get("default", self.base.id)

    def _held(self) -> list[str]:
        with self.cluster.see() as snapshot:
            return [one.id for one in snapshot.allocations.all()]

    @rule(priority=st.integers(1, 5))
    def register(self, priority: int) -> None:
        self.cluster.register(msgspec.structs.replace(self.base, priority=priority))

    @rule(many=st.integers(7, 9))
    def register_often(self, many: int) -> None:
        """More than are kept."""
        for priority in range(many):
            self.cluster.register(msgspec.structs.replace(self.base, priority=10 + priority))

    @precondition(lambda self: self._current() is not None)
    @rule(purged=st.booleans())
    def deregister(self, purged: bool) -> None:
        deletion = JobDeletion("default", self.base.id, purge=purged)
        self.cluster.do(DeregisterJob(deletion=deletion))

    @precondition(lambda self: self._current() is not None)
    @rule()
    def plan_placement(self) -> None:
        job = self._current()
        assert job is not None
        self.plans.append(
            plan_of(job, PlanResult(placements=[make_placements(job, [self.node], 1)]))
        )

    @precondition(lambda self: self._current() is not None)
    @rule()
    def plan_update(self) -> None:
        job = self._current()
        assert job is not None
        with self.cluster.see() as snapshot:
            live = [one for one in snapshot.allocations.all() if not one.is_terminal]
        updates = [
            AllocUpdate(alloc_id=one.id, node_id=self.node.id, job_version=job.version)
            for one in live
        ]
        self.plans.append(plan_of(job, PlanResult(updates=updates)))

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        plan = self.plans.pop(data.draw(st.integers(0, len(self.plans) - 1)))
        try:
            self.cluster.do(plan)
        except ConflictError:
            return

    @precondition(lambda self: self._held())
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.cluster.report(self.node, data.draw(st.sampled_from(self._held())), status="complete")

    @rule()
    def collect(self) -> None:
        with self.cluster.see() as snapshot:
            over = [one.id for one in snapshot.allocations.all() if one.is_client_terminal]
        try:
            self.cluster.do(DeleteEvaluations(alloc_ids=over))
        except NotFoundError:
            raise AssertionError("garbage collection failed") from None

    @invariant()
    def every_allocation_has_its_job(self) -> None:
        with self.cluster.see() as snapshot:
            check_invariants(snapshot)
            for held in snapshot.allocations.all():
                job = snapshot.job_versions.of_allocation(held)
                assert job is not None
                assert job.version == held.job_version
                assert snapshot.job_versions.nearest_to_allocation(held) == job

    @invariant()
    def every_stop_reaches_its_node(self) -> None:
        with self.cluster.see() as snapshot:
            at_work = frozenset(one.id for one in snapshot.allocations.all())
            told = first_set(snapshot, self.node.id, at_work)
        assert {one.alloc.id for one in told.changed} == at_work
        assert not told.jobless

    def teardown(self) -> None:
        self.cluster.store.close()
        shutil.rmtree(self.directory)


Lives.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLives = Lives.TestCase
