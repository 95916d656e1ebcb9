"""Each table by itself: a connection and the entry at work, no transaction and no log."""

from __future__ import annotations

import sqlite3

import pytest

from orchgit.model.node import Namespace
from orchgit.model.source import GitRef
from orchgit.model.variable import StoredVariable
from orchgit.state.entry import EntryContext
from orchgit.state.job_status_updates import JobStatusUpdates
from orchgit.state.snapshot import StateReads
from orchgit.state.tables.allocations import AllocationWrites
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.git_refs import GitRefWrites
from orchgit.state.tables.job_submissions import JobSubmissionWrites
from orchgit.state.tables.job_summaries import JobSummaryWrites
from orchgit.state.tables.job_versions import JobVersionWrites
from orchgit.state.tables.jobs import JobWrites
from orchgit.state.tables.namespaces import NamespaceWrites
from orchgit.state.tables.periodic_launches import PeriodicLaunchWrites
from orchgit.state.tables.variables import VariableWrites
from orchgit.state.transaction import WriteTxn
from orchgit.state.upgrade import migrate
from orchgit.state.writer_cache import WriterCache
from tests.support.factories import (
    NOW_NS,
    make_evaluation,
    make_job,
    make_node,
    make_placements,
)


@pytest.fixture
def entry() -> EntryContext:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    entry = EntryContext(connection, WriterCache())
    entry.begin(5, NOW_NS)
    return entry


@pytest.fixture
def summaries(entry: EntryContext) -> JobSummaryWrites:
    return JobSummaryWrites(entry)


@pytest.fixture
def jobs(entry: EntryContext, summaries: JobSummaryWrites) -> JobWrites:
    return JobWrites(
        entry,
        JobVersionWrites(entry),
        JobSubmissionWrites(entry.connection),
        summaries,
        PeriodicLaunchWrites(entry),
    )


def changed_tables(entry: EntryContext) -> list[str]:
    return [table for table, _ in entry.changes]


def test_snapshots_and_transactions_have_the_same_tables() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    reads = vars(StateReads(connection))
    txn = WriteTxn(connection, WriterCache())
    for name, table in reads.items():
        assert name == "connection" or isinstance(getattr(txn, name), type(table)), name


def test_inserted_job_is_not_replaced_by_another_insert(
    entry: EntryContext, jobs: JobWrites
) -> None:
    first, second = make_job(id="web", priority=50), make_job(id="web", priority=60)
    first.create_index = second.create_index = entry.index
    assert jobs.insert(first)
    assert not jobs.insert(second)
    stored = jobs.get(first.namespace, "web")
    assert stored is not None
    assert stored.priority == 50
    jobs.put(second)
    assert [job.priority for job in jobs.all()] == [60]


def test_deleted_job_leaves_no_row_of_its_own_tables(
    entry: EntryContext, jobs: JobWrites, summaries: JobSummaryWrites
) -> None:
    job = make_job(id="web")
    jobs.put(job)
    summaries.add_groups(job.namespace, "web", ["web"])
    PeriodicLaunchWrites(entry).put(job.namespace, "web", NOW_NS)
    jobs.delete(job.namespace, "web")
    assert jobs.get(job.namespace, "web") is None
    assert summaries.get(job.namespace, "web") is None
    assert PeriodicLaunchWrites(entry).get(job.namespace, "web") is None
    assert JobVersionWrites(entry).stored_of_job(job.namespace, "web") == []


def test_dropped_version_stays_while_an_allocation_refers_to_it(
    entry: EntryContext, jobs: JobWrites, summaries: JobSummaryWrites
) -> None:
    versions, allocations = JobVersionWrites(entry), AllocationWrites(entry, summaries)
    job = make_job(id="web")
    job.create_index = entry.index
    jobs.put(job)
    placements = make_placements(job, [make_node()])
    allocations.insert_placed(placements)
    versions.drop(job, job.version)
    assert versions.of_job(job.namespace, "web") == []
    assert versions.get(job.namespace, "web", job.version) is not None
    allocations.delete_all(placements.alloc_ids)
    versions.delete_unreferenced(job.namespace, "web")
    assert versions.get(job.namespace, "web", job.version) is None


def test_counts_of_a_summary_are_written_by_flush(summaries: JobSummaryWrites) -> None:
    summaries.add_groups("default", "web", ["api"])
    key = ("default", "web", "api")
    summaries.count(key, "pending", True, 3)
    summaries.count(key, "pending", True, -1)
    summaries.count(key, "running", True, 1)
    summaries.set_queued("default", "web", {"api": 4})
    assert summaries.changed_jobs() == [("default", "web")]
    assert summaries.count_live("default", "web") == 0
    summaries.flush()
    assert summaries.count_live("default", "web") == 3
    summary = summaries.get("default", "web")
    assert summary is not None
    counts = summary.summary["api"]
    assert (counts.starting, counts.running, counts.queued) == (2, 1, 4)


def test_deleted_allocation_stays_counted_under_its_client_status(
    summaries: JobSummaryWrites,
) -> None:
    summaries.add_groups("default", "web", ["api"])
    key = ("default", "web", "api")
    summaries.count(key, "running", True, 1)
    summaries.uncount_deleted(key)
    summaries.flush()
    summary = summaries.get("default", "web")
    assert summary is not None
    assert summary.summary["api"].running == 1
    assert summaries.count_live("default", "web") == 0


def test_stored_evaluation_keeps_its_create_index(entry: EntryContext) -> None:
    evaluations, evaluation = EvaluationWrites(entry), make_evaluation(make_job())
    evaluations.put_all([evaluation])
    for cached in (True, False):
        entry.begin(entry.index + 1, NOW_NS)
        if not cached:
            entry.cache.clear()
        again = make_evaluation(make_job(), id=evaluation.id)
        evaluations.put_all([again])
        assert again.create_index == 5


@pytest.mark.parametrize(
    ("status", "implied"), [("pending", "pending"), ("blocked", "pending"), ("complete", "dead")]
)
def test_status_of_a_job_without_allocations_follows_its_evaluations(
    entry: EntryContext, jobs: JobWrites, status: str, implied: str
) -> None:
    evaluations, job = EvaluationWrites(entry), make_job(id="web", status="running")
    statuses = JobStatusUpdates(entry, jobs, evaluations)
    jobs.put(job)
    evaluations.put_all([make_evaluation(job, status=status)])
    statuses.touch(job.namespace, job.id)
    statuses.end_entry()
    stored = jobs.get(job.namespace, job.id)
    assert stored is not None
    assert stored.status == implied


def test_job_whose_evaluations_were_purged_is_dead(entry: EntryContext, jobs: JobWrites) -> None:
    statuses, job = JobStatusUpdates(entry, jobs, EvaluationWrites(entry)), make_job(id="web")
    jobs.put(job)
    statuses.touch(job.namespace, job.id, evaluations_purged=True)
    statuses.end_entry()
    stored = jobs.get(job.namespace, job.id)
    assert stored is not None
    assert stored.status == "dead"


def test_deleted_namespace_leaves_the_cache(entry: EntryContext) -> None:
    namespaces = NamespaceWrites(entry)
    namespaces.put_all([Namespace("team")])
    assert namespaces.has("team")
    namespaces.delete_all(["team"])
    assert not namespaces.has("team")


def test_renewed_lock_wakes_no_reader_of_the_variable(entry: EntryContext) -> None:
    variables = VariableWrites(entry)
    variable = StoredVariable(namespace="default", path="a/b", key_id="k")
    variables.put(variable, lock_changes=False)
    assert changed_tables(entry) == ["variables"]
    variables.put_renewed_lock(variable)
    assert changed_tables(entry)[1:] == ["variable_locks"]


def test_refs_are_listed_by_repository(entry: EntryContext) -> None:
    refs = GitRefWrites(entry)
    refs.put(GitRef("demo", "refs/heads/b", "2"))
    refs.put(GitRef("demo", "refs/heads/a", "1"))
    refs.put(GitRef("other", "refs/heads/a", "3"))
    assert refs.of_source("demo") == {"refs/heads/a": "1", "refs/heads/b": "2"}
    refs.delete("other", "refs/heads/a")
    assert refs.repositories() == ["demo"]
    assert entry.changes[-1] == ("git_refs", ["other"])
