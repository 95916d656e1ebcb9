"""What the agent remembers, and that it is on disk when it says so."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from agent.drivers.base import TaskHandle
from agent.local_state.store import HeldToken, LocalAllocRecord, LocalState, TaskRecord
from agent.tasks.task_state import TaskEventType, apply, event
from orchgit.errors import UnavailableError
from orchgit.model.allocation import TaskState
from orchgit.model.volume import HostVolume
from tests.support.factories import make_allocation, make_job


def test_stored_state_is_read_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "client/state.db"
    job = make_job()
    alloc = make_allocation(job)
    local = LocalAllocRecord(received_ns=5, healthy=True)
    state = apply(TaskState(), event(TaskEventType.STARTED, 7))
    handle = TaskHandle(driver="raw_exec", key="k", started_ns=7, pid=3, state={"a": "b"})
    record = TaskRecord(state=state, attempt=2, handle=handle, restart_count=1)
    volume = HostVolume(id="v", name="data", host_path="/x")

    async def write() -> None:
        store = LocalState(path)
        store.put_facts({"node_id": "n"})
        store.put_allocation(alloc, job, local)
        await store.start_task(alloc.id, "web", record)
        await store.put_volume(volume)
        store.close()

    asyncio.run(write())
    again = LocalState(path)
    assert again.facts() == {"node_id": "n"}
    (stored,) = again.allocations()
    assert (stored.alloc, stored.job, stored.local) == (alloc, job, local)
    assert stored.tasks == {"web": record}
    assert again.volumes() == [volume]
    again.close()


def test_removed_allocation_takes_its_unused_job_along(tmp_path: Path) -> None:
    job = make_job()
    first, second = make_allocation(job), make_allocation(job)
    store = LocalState(tmp_path / "state.db")
    for alloc in (first, second):
        store.put_allocation(alloc, job, LocalAllocRecord())
        store.put_task(alloc.id, "web", TaskRecord())
    store.remove_allocation(first.id)
    asyncio.run(store.flush())
    (left,) = store.allocations()
    assert (left.alloc.id, list(left.tasks)) == (second.id, ["web"])
    store.remove_allocation(second.id)
    asyncio.run(store.flush())
    with sqlite3.connect(tmp_path / "state.db") as raw:
        assert raw.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
    raw.close()
    store.close()


def test_versions_of_a_job_are_kept_apart(tmp_path: Path) -> None:
    old = make_job()
    new = msgspec.structs.replace(old, version=1, priority=90)
    store = LocalState(tmp_path / "state.db")
    pairs = [(make_allocation(job), job) for job in (old, new)]
    for alloc, job in pairs:
        store.put_allocation(alloc, job, LocalAllocRecord())
    asyncio.run(store.flush())
    assert sorted(entry.job.priority for entry in store.allocations()) == [50, 90]
    store.close()


def test_start_that_is_awaited_is_seen_by_others_at_once(tmp_path: Path) -> None:
    async def whole() -> None:
        store = LocalState(tmp_path / "state.db")
        await asyncio.gather(*(store.start_task("a", f"t{n}", TaskRecord()) for n in range(50)))
        reader = sqlite3.connect(tmp_path / "state.db")
        assert reader.execute("SELECT count(*) FROM tasks").fetchone() == (50,)
        reader.close()
        store.close()

    asyncio.run(whole())


def test_failed_write_raises_for_its_caller(tmp_path: Path) -> None:
    async def whole() -> None:
        store = LocalState(tmp_path / "state.db")
        with sqlite3.connect(tmp_path / "state.db") as raw:
            raw.execute("DROP TABLE tasks")
        raw.close()
        with pytest.raises(UnavailableError, match="cannot write the agent's state"):
            await store.start_task("a", "t", TaskRecord())
        await store.flush()
        store.close()
        with pytest.raises(UnavailableError, match="the agent is stopping"):
            store.put_task("a", "t", TaskRecord())

    asyncio.run(whole())


def test_newer_format_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(UnavailableError, match="format 99"):
        LocalState(tmp_path / "state.db")


def test_only_the_agents_user_may_read_it(tmp_path: Path) -> None:
    LocalState(tmp_path / "state.db").close()
    assert (tmp_path / "state.db").stat().st_mode & 0o077 == 0


def test_tokens_of_a_task_are_stored_in_files_that_only_the_agent_reads(tmp_path: Path) -> None:
    store = LocalState(tmp_path / "client" / "state.db")
    alloc, job = make_allocation(), make_job()
    store.put_allocation(alloc, job, LocalAllocRecord())
    record = TaskRecord(tokens={"ci": HeldToken("secret-token", 7), "db": HeldToken("x", None)})
    asyncio.run(store.start_task(alloc.id, "web", record))
    modes = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "client").iterdir()}
    store.close()
    assert set(modes.values()) == {0o600}, modes
    again = LocalState(tmp_path / "client" / "state.db")
    [stored] = again.allocations()
    again.close()
    assert stored.tasks["web"].tokens == record.tokens
    assert "secret-token" not in repr(stored)
