"""A server that caches what it has just written comes to the same state as one that never does."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchgit.errors import NotFoundError
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import Job, PeriodicConfig
from orchgit.model.node import Namespace
from orchgit.model.plan import PlanResult
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source
from orchgit.raft_node.committed import Committed
from orchgit.replication.applier import apply_batch
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.codec import Command, encode
from orchgit.replication.commands.evaluations import DeleteEvaluations, UpsertEvaluations
from orchgit.replication.commands.gitops import ApplyRollout, UpsertSource
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion, JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.commands.settings import DeleteNamespaces, UpsertNamespaces
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state.cache import LIMIT, Cache
from orchgit.state.store import Store
from tests.support.factories import (
    NOW_NS,
    make_evaluation,
    make_job,
    make_node,
    make_placements,
)
from tests.support.state import apply, check_invariants, open_store

NODE = make_node(id="node", secret_id="s")
ALLOCS = [f"alloc-{number}" for number in range(4)]

jobs = st.builds(
    lambda namespace, job_id, kind, priority, stop: make_job(
        namespace=namespace,
        id=job_id,
        type="batch" if kind == "periodic" else kind,
        periodic=PeriodicConfig(spec="* * * * *") if kind == "periodic" else None,
        priority=priority,
        stop=stop,
    ),
    st.sampled_from(["default", "default", "default", "team"]),
    st.sampled_from(["a", "a", "b"]),
    st.sampled_from(["service", "service", "batch", "system", "periodic"]),
    st.integers(1, 3),
    st.sampled_from([False, False, False, True]),
)
numbers = st.integers(0, 2)


def evaluation(job: Job, number: int, **fields: object) -> Evaluation:
    """An evaluation never changes its job."""
    return make_evaluation(job, id=f"{number} of {job.namespace} {job.id}", **fields)


evaluations = st.builds(
    lambda job, number, status, failed: evaluation(
        job,
        number,
        status=status,
        queued_allocations={"web": number},
        failed_tg_allocs={"web": AllocMetric()} if failed else None,
    ),
    jobs,
    numbers,
    st.sampled_from(["pending", "blocked", "complete", "failed"]),
    st.booleans(),
)


def plan(job: Job, number: int, alloc: int) -> ApplyPlan:
    eval_id = evaluation(job, number).id
    placed = make_placements(job, [NODE], alloc_ids=[ALLOCS[alloc]], eval_id=eval_id)
    result = PlanResult(placements=[placed])
    key = {"namespace": job.namespace, "job_id": job.id, "job_version": 0}
    return ApplyPlan(**key, eval_id=eval_id, result=result)


def rollout(upserts: list[Job]) -> ApplyRollout:
    """Refused when one of the namespaces is missing, maybe after others have been written."""
    made = Rollout(id="r", source="demo", commit=Commit(id=""))
    return ApplyRollout(rollout=made, upserts=[JobUpsert(job=job) for job in upserts])


commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        lambda job, number: RegisterJob(
            upsert=JobUpsert(job=job), evaluation=evaluation(job, number)
        ),
        jobs,
        numbers,
    ),
    st.builds(
        lambda job, purge: DeregisterJob(
            deletion=JobDeletion(job.namespace, job.id, purge=purge), evaluation=evaluation(job, 0)
        ),
        jobs,
        st.booleans(),
    ),
    st.builds(UpsertEvaluations, evaluations=st.lists(evaluations, min_size=1, max_size=4)),
    st.builds(
        lambda found: DeleteEvaluations(eval_ids=[one.id for one in found]),
        st.lists(evaluations, max_size=3),
    ),
    st.builds(plan, jobs, numbers, st.integers(0, 3)),
    st.builds(
        lambda alloc, status: UpdateAllocsFromClient(
            node_id=NODE.id, updates=[AllocClientUpdate(alloc, status)]
        ),
        st.sampled_from(ALLOCS),
        st.sampled_from(["running", "failed", "complete"]),
    ),
    st.builds(rollout, st.lists(jobs, max_size=3)),
    st.just(UpsertNamespaces(namespaces=[Namespace("team")])),
    st.just(DeleteNamespaces(names=["team"])),
)


def as_log(given: list[Command]) -> list[bytes]:
    begin: list[Command] = [RegisterNode(node=NODE), UpsertSource(source=Source(name="demo"))]
    log = []
    for second, command in enumerate([*begin, *given]):
        command.now_ns = NOW_NS + second * 1_000_000_000
        log.append(encode(command))
    return log


def rows(store: Store) -> list[object]:
    """Every row of every table, in the order in which they lie there."""
    with store.snapshot() as snapshot:
        names = snapshot.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [
            (name, snapshot.connection.execute(f"SELECT * FROM {name}").fetchall())
            for (name,) in names.fetchall()
        ]


def in_batches(path: Path, log: list[bytes], cuts: set[int]) -> list[object]:
    """Rows of a server that runs all the time."""
    store, batch = Store.open(path), []
    for index, payload in enumerate(log, start=1):
        batch.append(Committed(index, payload))
        if index in cuts or index == len(log):
            apply_batch(store, batch)
            batch = []
    with store.snapshot() as snapshot:
        check_invariants(snapshot)
    found = rows(store)
    store.close()
    return found


def started_for_each(path: Path, log: list[bytes]) -> list[object]:
    """Rows of a server that is started again before every entry: its cache is empty each time."""
    for index, payload in enumerate(log, start=1):
        store = Store.open(path)
        apply_batch(store, [Committed(index, payload)])
        found = rows(store) if index == len(log) else []
        store.close()
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(commands, min_size=20, max_size=40), st.sets(st.integers(1, 42), max_size=15))
def test_cached_values_change_no_row(given: list[Command], cuts: set[int]) -> None:
    log = as_log(given)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        assert in_batches(path / "one.db", log, cuts) == started_for_each(path / "two.db", log)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close()


def registered(job: Job) -> RegisterJob:
    return RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation(job, 0))


def test_deleted_namespace_is_not_found_in_the_cache(store: Store) -> None:
    job = make_job(namespace="team")
    apply(store, UpsertNamespaces(namespaces=[Namespace("team")]), registered(job))
    apply(store, DeregisterJob(deletion=JobDeletion("team", job.id, purge=True)))
    apply(store, DeleteNamespaces(names=["team"]))
    with pytest.raises(NotFoundError, match="no namespace 'team'"):
        apply(store, registered(job))


def test_evaluation_of_a_purged_job_changes_no_job(store: Store) -> None:
    job = make_job()
    apply(store, registered(job))
    apply(store, DeregisterJob(deletion=JobDeletion(job.namespace, job.id, purge=True)))
    with store.snapshot() as snapshot:
        purged_at = snapshot.table_indexes.newest("jobs")
    apply(store, UpsertEvaluations(evaluations=[evaluation(job, 0, status="complete")]))
    with store.snapshot() as snapshot:
        assert snapshot.table_indexes.newest("jobs") == purged_at


def test_second_registration_reads_no_table(store: Store) -> None:
    """The first one fills the cache."""
    apply(store, registered(make_job()))
    job = make_job()
    assert selects(store, registered(job)) == []
    done = evaluation(job, 0, status="complete", failed_tg_allocs={"web": AllocMetric()})
    waits = evaluation(job, 1, status="blocked")
    assert selects(store, UpsertEvaluations(evaluations=[done, waits])) == []


def selects(store: Store, command: Command) -> list[str]:
    """The tables that an entry reads."""
    command.now_ns, said = NOW_NS, []
    index = store.position()[1] + 1
    txn = store.begin()
    txn.connection.set_trace_callback(said.append)
    assert not isinstance(apply_entry(txn, index, encode(command), Effects()), Exception)
    txn.connection.set_trace_callback(None)
    txn.commit(index)
    return [re.findall(r"FROM (\w+)", one)[0] for one in said if one.startswith("SELECT")]


def test_cache_holds_no_more_than_its_limit() -> None:
    cache: Cache[int, int] = Cache()
    for number in range(10_000):
        cache.put(number, number)
    assert cache[9_999] == 9_999
    assert len(cache) <= LIMIT


def test_cached_value_is_read_once() -> None:
    cache: Cache[str, int] = Cache()
    assert cache.load("one", lambda: 1) == cache.load("one", lambda: 2) == 1
