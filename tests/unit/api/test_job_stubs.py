"""Encoded stubs are what encoding the jobs anew would give, whatever was done to the jobs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchgit.api.job_stubs import JobStubs
from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.stubs import job_stub
from orchgit.model.job import ParameterizedJobConfig
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob, SetJobStability
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from tests.support.factories import make_batch_job, make_job
from tests.support.state import apply, open_store
from tests.unit.replication.conftest import Cluster
from tests.unit.replication.test_determinism import COMMANDS, OFTEN, as_log
from tests.unit.replication.test_restoring import archive_of, sent


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = open_store(tmp_path)
    yield Cluster(store)
    store.close()


def listed(stubs: JobStubs, snapshot: Snapshot, with_meta: bool = False) -> list[bytes]:
    found = stubs.of(snapshot, snapshot.jobs.last_changes(), with_meta)
    return [bytes(each) for each in found]


def encoded_anew(snapshot: Snapshot, with_meta: bool = False) -> list[bytes]:
    return [
        nomad_json.encode(
            job_stub(job, snapshot.job_summaries.get(job.namespace, job.id), with_meta)
        )
        for job in snapshot.jobs.all()
    ]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(COMMANDS, OFTEN), max_size=30))
def test_stubs_are_those_of_the_jobs_after_every_entry(commands: list[Command]) -> None:
    stubs = JobStubs()
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(Path(directory) / "state.db")
        for index, payload in enumerate(as_log(commands), start=1):
            txn = store.begin()
            apply_entry(txn, index, payload, Effects())
            txn.commit(index)
            with store.snapshot() as snapshot:
                assert listed(stubs, snapshot) == encoded_anew(snapshot)
                assert listed(stubs, snapshot, with_meta=True) == encoded_anew(snapshot, True)
        store.close()


def test_stub_follows_allocations_children_and_a_new_registration(cluster: Cluster) -> None:
    stubs, node = JobStubs(), cluster.node()

    def check() -> list[bytes]:
        with cluster.see() as snapshot:
            found = listed(stubs, snapshot)
            assert found == encoded_anew(snapshot)
        return found

    job = make_job(id="web")
    cluster.register(job)
    parent = make_batch_job(id="parent", parameterized_job=ParameterizedJobConfig())
    cluster.register(parent)
    before = check()
    cluster.report(node, *cluster.place(job, node))
    assert check() != before
    before = check()
    cluster.register(make_batch_job(id="parent/child", parent_id="parent", dispatched=True))
    assert check()[0] != before[0]
    cluster.register(make_job(id="web", priority=70))
    assert msgspec.json.decode(check()[-1])["Priority"] == 70


def test_stub_follows_what_changes_beside_the_job_itself(cluster: Cluster) -> None:
    """A version that becomes stable has a new ModifyIndex; a summary changes without its job."""
    stubs, node = JobStubs(), cluster.node()
    job = make_job(id="web", count=2)
    cluster.register(job)
    alloc_ids = cluster.place(job, node, 2)
    cluster.report(node, *alloc_ids)
    with cluster.see() as snapshot:
        listed(stubs, snapshot)
    cluster.do(SetJobStability(namespace=job.namespace, job_id="web", version=0, stable=True))
    with cluster.see() as snapshot:
        assert listed(stubs, snapshot) == encoded_anew(snapshot)
    cluster.report(node, alloc_ids[0], status="failed")
    with cluster.see() as snapshot:
        assert listed(stubs, snapshot) == encoded_anew(snapshot)


def test_restored_job_with_the_same_indexes_is_encoded_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = open_store(tmp_path / "other")
    for store, priority in ((cluster.store, 10), (other, 20)):
        job = make_job(id="web", priority=priority)
        apply(store, RegisterJob(upsert=JobUpsert(job=job)))
    stubs = JobStubs()
    with cluster.see() as snapshot:
        listed(stubs, snapshot)
    apply(cluster.store, *sent(archive_of(other, tmp_path / "other")))
    other.close()
    with cluster.see() as snapshot:
        (stub,) = listed(stubs, snapshot)
    assert msgspec.json.decode(stub)["Priority"] == 20


def test_unchanged_job_is_not_encoded_again(cluster: Cluster) -> None:
    cluster.register(make_job(id="one"))
    cluster.register(make_job(id="two"))
    stubs = JobStubs()
    keys = [("default", "one"), ("default", "two")]
    with cluster.see() as snapshot:
        first = stubs.of(snapshot, snapshot.jobs.last_changes_of(keys), False)
    cluster.register(make_job(id="one", priority=70))
    with cluster.see() as snapshot:
        second = stubs.of(snapshot, snapshot.jobs.last_changes_of(keys), False)
    assert second[1] is first[1]
    assert second[0] is not first[0]


def test_stubs_of_one_list_are_in_the_asked_order_without_unknown_jobs(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.register(make_job(id=name))
    with cluster.see() as snapshot:
        keys = [("default", name) for name in ("c", "gone", "a")]
        found = JobStubs().of(snapshot, snapshot.jobs.last_changes_of(keys), False)
    assert [msgspec.json.decode(each)["ID"] for each in found] == ["c", "a"]


def test_full_cache_answers_as_an_empty_one(cluster: Cluster) -> None:
    for number in range(20):
        cluster.register(make_job(id=f"job-{number}"))
    stubs = JobStubs(max_bytes=3000)
    with cluster.see() as snapshot:
        for _ in range(3):
            assert listed(stubs, snapshot) == encoded_anew(snapshot)
    assert 0 < stubs.size_bytes <= 3000
