"""Many that ask for jobs at the same time: one query, and each its own answer."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.state.job_loader import JobLoader
from orchgit.state.store import Store
from tests.support.factories import make_job
from tests.support.state import apply, open_store

ODD = 'it\'s "odd"/ü☃\\'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    for job_id in ("one", "two", ODD):
        apply(store, RegisterJob(upsert=JobUpsert(job=make_job(id=job_id))))
    yield store
    store.close()


def test_requests_of_one_turn_share_a_query(store: Store) -> None:
    async def run() -> None:
        lookups, statements = JobLoader(), []
        store.latest().connection.set_trace_callback(statements.append)
        ids = ["one", "missing", "two", "one", ODD, "on"]
        found = await asyncio.gather(*(lookups.get(store, "default", each) for each in ids))
        assert [each and each.id for each in found] == ["one", None, "two", "one", ODD, None]
        assert await lookups.get(store, "other", "one") is None
        assert sum("json_each" in statement for statement in statements) == 2

    asyncio.run(run())


def test_loaded_job_equals_a_single_read(store: Store) -> None:
    changed = make_job(id="one", priority=77)
    apply(store, RegisterJob(upsert=JobUpsert(job=changed)))

    async def run() -> None:
        found = await JobLoader().get(store, "default", "one")
        with store.snapshot() as snapshot:
            assert found == snapshot.jobs.get("default", "one")
        assert found is not None
        assert (found.priority, found.version) == (77, 1)

    asyncio.run(run())


def test_cancelled_request_leaves_the_others_their_answers(store: Store) -> None:
    async def run() -> None:
        lookups = JobLoader()
        asking = [asyncio.create_task(lookups.get(store, "default", "one")) for _ in range(2)]
        await asyncio.sleep(0)
        asking[0].cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError)
        assert getattr(ended[1], "id", "") == "one"

    asyncio.run(run())


def test_failed_query_reaches_every_requester(store: Store) -> None:
    async def run() -> None:
        lookups = JobLoader()
        store.latest().connection.close()
        asking = (lookups.get(store, "default", each) for each in ("one", "two"))
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(each) for each in ended} == {sqlite3.ProgrammingError}

    asyncio.run(run())
