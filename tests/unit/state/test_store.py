"""Snapshots: isolation, minimum indexes, readers of other processes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchgit.errors import TimedOutError
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.state.store import Store
from tests.support.factories import make_job
from tests.support.state import apply, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close()


def test_snapshot_does_not_see_what_is_applied_after_it(store: Store) -> None:
    with store.snapshot() as before:
        apply(store, RegisterJob(upsert=JobUpsert(job=make_job(id="later"))))
        assert before.jobs.get("default", "later") is None
        assert before.index == 0
    with store.snapshot() as after:
        assert after.jobs.get("default", "later") is not None
        assert after.index == 1


def test_snapshot_cannot_write(store: Store) -> None:
    with store.snapshot() as snapshot, pytest.raises(sqlite3.OperationalError, match="readonly"):
        snapshot.connection.execute("DELETE FROM jobs")


def test_new_store_has_the_built_in_namespace_and_pools(store: Store) -> None:
    with store.snapshot() as snapshot:
        assert [one.name for one in snapshot.namespaces.all()] == ["default"]
        assert [one.name for one in snapshot.node_pools.all()] == ["all", "default"]
        assert snapshot.table_indexes.newest("namespaces") == 1
        assert snapshot.table_indexes.newest("jobs") == 1, "an index is never 0"


def test_waiting_for_an_index_ends_when_it_is_applied(store: Store) -> None:
    async def scenario() -> int:
        waiting = asyncio.ensure_future(store.watch.wait_applied(2, 5.0))
        await asyncio.sleep(0)
        for _ in range(2):
            assert not waiting.done()
            apply(store, RegisterJob(upsert=JobUpsert(job=make_job())))
        assert await waiting
        with store.snapshot() as snapshot:
            return snapshot.index

    assert asyncio.run(scenario()) == 2


def test_another_process_reads_what_was_committed(store: Store) -> None:
    reader = Store.open_reader(store.path)
    apply(store, RegisterJob(upsert=JobUpsert(job=make_job(id="seen"))))
    assert asyncio.run(reader.reach(1, 1.0)) == 1
    with reader.snapshot() as snapshot:
        assert snapshot.index == 1
        assert snapshot.jobs.get("default", "seen") is not None
    with pytest.raises(TimedOutError, match=r"index 2: .* applied 1"):
        asyncio.run(reader.reach(2, 0.0))
    reader.close()


def test_state_is_the_same_after_reopening(store: Store, tmp_path: Path) -> None:
    apply(store, RegisterJob(upsert=JobUpsert(job=make_job(id="kept"))))
    again = open_store(tmp_path)
    assert again.watch.applied_index == 1
    assert again.watch.index(["jobs"]) == 1
    with again.snapshot() as snapshot:
        assert snapshot.jobs.get("default", "kept") is not None
    again.close()


def test_each_latest_read_sees_the_newest_state_and_holds_no_transaction(store: Store) -> None:
    assert store.latest().jobs.get("default", "later") is None
    apply(store, RegisterJob(upsert=JobUpsert(job=make_job(id="later"))))
    assert store.latest().jobs.get("default", "later") is not None
    connection = store.latest().connection
    assert not connection.in_transaction, "it would keep the log from being reused"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM jobs")
