"""One member's replicated state on real files: writing, following, recovering, refusing."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchgit.clock import FakeClock, SystemClock
from orchgit.errors import (
    ConflictError,
    InvariantError,
    RefusedError,
    TimedOutError,
    UnavailableError,
)
from orchgit.ids import RandomIds, SequentialIds
from orchgit.model.plan import PlanResult
from orchgit.raft_log.disk import Disk
from orchgit.replication.commands.entry import Noop
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.replication.snapshots import snapshot_index, write_snapshot
from orchgit.state.store import Store
from tests.support.factories import make_evaluation, make_job, make_node, make_placements
from tests.support.state import running_state


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def register(name: str, **fields: Any) -> RegisterJob:
    return RegisterJob(upsert=JobUpsert(job=make_job(id=name), **fields))


async def job_ids(state: ReplicatedState) -> list[str]:
    with state.store.snapshot() as snapshot:
        return [job.id for job in snapshot.jobs.all()]


def test_acknowledged_write_is_readable_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path, ids=SequentialIds("0000c1d0")) as state:
            assert state.cluster.is_leader
            applied = await state.propose(register("a"))
            assert applied.result.job_modify_index == applied.index
            with state.store.snapshot() as snapshot:
                assert snapshot.index >= applied.index
                assert snapshot.jobs.get("default", "a") is not None
                assert snapshot.meta.cluster_id() == "0000c1d0-0000-4000-8000-000000000001"

    run(scenario())


def test_refused_entry_raises_and_later_entries_are_applied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await state.propose(register("a"))
            with pytest.raises(ConflictError, match="job 'a'"):
                await state.propose(register("a", expected_modify_index=0))
            await state.propose(register("b"))
            assert await job_ids(state) == ["a", "b"]

    run(scenario())


def test_entries_have_the_time_of_the_clock(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock(now_ns=77_000_000_000)
        async with running_state(tmp_path, clock=clock) as state:
            node = make_node()
            await state.propose(RegisterNode(node=node))
            with state.store.snapshot() as snapshot:
                stored = snapshot.nodes.get(node.id)
            assert stored is not None
            assert stored.status_updated_at == 77

    run(scenario())


def test_concurrent_writes_share_a_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            before = state.log_syncs
            await asyncio.gather(*(state.propose(Noop()) for _ in range(500)))
            assert state.log_syncs - before < 100
            assert state.log_synced_bytes > 0

    run(scenario())


def test_every_proposal_of_many_clients_wakes_the_raft_thread(tmp_path: Path) -> None:
    """A lone member sleeps for a minute when nobody wakes it, longer than a proposal waits."""

    async def scenario() -> None:
        async with running_state(tmp_path) as state:

            async def client() -> None:
                for _ in range(40):
                    await state.propose(Noop(), timeout_s=20)

            await asyncio.gather(*(client() for _ in range(64)))

    run(scenario())


def test_state_stops_at_once_while_proposals_wait(tmp_path: Path) -> None:
    """The raft thread sleeps for a minute; whoever stops it must not have to wait for that."""

    async def scenario() -> None:
        for _ in range(60):
            async with asyncio.timeout(40):  # a busy machine may take longer for all of them
                async with running_state(tmp_path) as state:
                    writes = [asyncio.ensure_future(state.propose(Noop())) for _ in range(8)]
                    await writes[0]
                await asyncio.gather(*writes, return_exceptions=True)

    run(scenario())


def test_subscriber_receives_every_batch_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            feed = state.subscribe()
            job = make_job()
            evaluations = [make_evaluation(job) for _ in range(20)]
            await state.propose(RegisterJob(upsert=JobUpsert(job=job)))
            await asyncio.gather(
                *(state.propose(UpsertEvaluations(evaluations=[one])) for one in evaluations)
            )
            feed.close()
            batches = [batch async for batch in feed]
            assert [one.index for one in batches] == sorted({one.index for one in batches})
            stored = [one.id for batch in batches for one in batch.evaluations]
            assert stored == [one.id for one in evaluations]
            events = [event for batch in batches for event in batch.events]
            assert [event.topic for event in events] == ["Job", *["Evaluation"] * 20]
            assert events[0].payload["Job"].id == job.id  # type: ignore[index]
            assert [event.index for event in events] == sorted(event.index for event in events)
            assert f"default/{job.id}" in batches[0].changed["jobs"]

    run(scenario())


def test_slow_subscriber_receives_merged_batches(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            feed = state.subscribe()
            job = make_job()
            for _ in range(1100):
                await state.propose(UpsertEvaluations(evaluations=[make_evaluation(job)]))
            feed.close()
            batches: list[AppliedBatch] = [batch async for batch in feed]
            assert len(batches) == 1024
            assert sum(len(batch.evaluations) for batch in batches) == 1100

    run(scenario())


def test_events_of_placements_are_read_on_demand(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            job, node = make_job(), make_node()
            await state.propose(RegisterNode(node=node))
            await state.propose(RegisterJob(upsert=JobUpsert(job=job)))
            feed = state.subscribe()
            placements = make_placements(job, [node], 3)
            await state.propose(
                ApplyPlan(
                    namespace="default",
                    job_id=job.id,
                    job_version=0,
                    eval_id="",
                    result=PlanResult(placements=[placements]),
                )
            )
            feed.close()
            events = [event async for batch in feed for event in batch.events]
            assert [event.key for event in events] == placements.alloc_ids
            assert {event.type for event in events} == {"PlanResult"}
            assert job.id in events[0].filter_keys
            assert events[0].payload["Allocation"].node_id == node.id  # type: ignore[index]

    run(scenario())


def test_restarted_state_continues_at_its_last_index(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await state.propose(register("a"))
            await asyncio.gather(*(state.propose(Noop()) for _ in range(50)))
            index, term = state.store.watch.applied_index, state.cluster.term
            with state.store.snapshot() as snapshot:
                assert snapshot.index == index
        async with running_state(tmp_path) as state:
            assert await job_ids(state) == ["a"]
            assert state.store.watch.applied_index == index + 1, "one entry for the new term"
            assert state.cluster.term == term + 1
            assert (await state.propose(register("b"))).index == index + 2

    run(scenario())


def _fill(state: ReplicatedState, count: int) -> Any:
    return asyncio.gather(*(state.propose(register(f"job-{n:04}")) for n in range(count)))


def _as_after_power_loss(directory: Path) -> None:
    """The marker of another boot of the machine."""
    (directory / "state" / "opened").write_text("another-boot")


@pytest.mark.parametrize("snapshot_log_bytes", [128 << 20, 20_000], ids=["log", "snapshot"])
def test_store_that_may_have_lost_writes_is_rebuilt(
    tmp_path: Path, snapshot_log_bytes: int
) -> None:
    async def scenario() -> None:
        options = {"snapshot_log_bytes": snapshot_log_bytes}
        async with running_state(tmp_path, **options) as state:
            await _fill(state, 100)
        store = tmp_path / "state" / "state.db"
        with sqlite3.connect(store) as connection:
            connection.execute("DELETE FROM jobs WHERE id > 'job-0050'")
        _as_after_power_loss(tmp_path)
        async with running_state(tmp_path, **options) as state:
            assert await job_ids(state) == [f"job-{n:04}" for n in range(100)]

    run(scenario())


@pytest.mark.parametrize("damage", ["zeros", "text", "short"])
def test_damaged_store_is_rebuilt(tmp_path: Path, damage: str) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await _fill(state, 50)
        store = tmp_path / "state" / "state.db"
        data = bytearray(store.read_bytes())
        if damage == "zeros":
            data[8192:65536] = bytes(65536 - 8192)
        elif damage == "text":
            data[:100] = b"x" * 100
        else:
            del data[len(data) // 2 :]
        store.write_bytes(data)
        async with running_state(tmp_path) as state:
            assert len(await job_ids(state)) == 50

    run(scenario())


def test_log_is_truncated_behind_a_snapshot_and_the_rest_is_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = {"snapshot_log_bytes": 20_000, "segment_bytes": 20_000}
        async with running_state(tmp_path, **options) as state:
            await _fill(state, 300)
            while len(list((tmp_path / "raft").glob("*.segment"))) > 1:
                await state.writer.barrier()
        (tmp_path / "state" / "state.db").unlink()
        async with running_state(tmp_path, **options) as state:
            assert len(await job_ids(state)) == 300

    run(scenario())


def test_snapshot_describes_its_content(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await _fill(state, 10)
            index = write_snapshot(state.store, tmp_path / "copy.db")
            assert index == snapshot_index(tmp_path / "copy.db") == state.store.watch.applied_index
            await _fill(state, 20)
        with sqlite3.connect(tmp_path / "copy.db") as copy:
            assert copy.execute("SELECT count(*) FROM jobs").fetchone() == (10,)
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    run(scenario())


def test_open_reader_does_not_delay_a_clean_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await _fill(state, 20)
            reader = Store.open_reader(state.store.path)
            snapshot = reader.snapshot()
            await _fill(state, 25)
        assert (tmp_path / "state" / "opened").read_text() == "clean"
        assert len(snapshot.jobs.all()) == 20
        snapshot.close()
        reader.close()
        async with running_state(tmp_path) as state:
            assert len(await job_ids(state)) == 25

    run(scenario())


def test_log_that_ends_before_the_state_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_state(tmp_path) as state:
            await _fill(state, 5)
        shutil.rmtree(tmp_path / "raft")
        with pytest.raises(InvariantError, match="the log holds 1 to 0"):
            async with running_state(tmp_path):
                pass

    run(scenario())


def test_leadership_feed_reports_gained_and_lost_leadership(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = ReplicationConfig(tmp_path, "s", bind="127.0.0.1:7777")
        state = ReplicatedState(config, SystemClock(), RandomIds())
        told = []
        feed = state.leadership.subscribe()

        async def listen() -> None:
            told.extend([leads async for leads in feed])

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await state.start()
        assert state.cluster.leader_address == "127.0.0.1:7777"
        await state.leadership.gained()
        await state.stop()
        await listening
        assert told == [False, True]
        assert not state.cluster.is_leader
        with pytest.raises(UnavailableError, match="stopping"):
            await state.propose(Noop())

    run(scenario())


def test_proposal_without_an_answer_in_time_raises_timed_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = HoldingDisk()
        async with running_state(tmp_path, disk=disk) as state:
            refusal = "cannot tell whether RegisterJob was applied"
            with disk.held_syncs(), pytest.raises(TimedOutError, match=refusal):
                await state.propose(register("a"), timeout_s=0)
            await state.writer.barrier()
            assert await job_ids(state) == ["a"]

    run(scenario())


class HoldingDisk(Disk):
    """Syncs wait inside `held_syncs`: no entry can be committed there."""

    def __init__(self) -> None:
        self._may_sync = threading.Event()
        self._may_sync.set()

    @contextmanager
    def held_syncs(self) -> Iterator[None]:
        self._may_sync.clear()
        try:
            yield
        finally:
            self._may_sync.set()

    def sync(self, fd: int) -> None:
        self._may_sync.wait()
        super().sync(fd)


def test_failing_disk_stops_writes_and_allows_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FailingDisk()
        config = ReplicationConfig(tmp_path, "s", disk=disk)
        state = ReplicatedState(config, SystemClock(), RandomIds())
        await state.start()
        await state.propose(register("a"))
        disk.fails = True
        with pytest.raises(UnavailableError, match="No space left"):
            await state.propose(register("b"))
        await state.failure.happened()
        assert isinstance(state.failure.error, OSError)
        with pytest.raises(UnavailableError, match="look at the disk"):
            await state.propose(register("c"))
        assert await job_ids(state) == ["a"]
        await state.stop()

    run(scenario())


class FailingDisk(Disk):
    """Syncs fail once `fails` is set."""

    fails = False

    def sync(self, fd: int) -> None:
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(fd)


def test_peers_without_certificates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="without certificates"):
        ReplicatedState(
            ReplicationConfig(tmp_path, "s", bind="127.0.0.1:1", peers=("other:1",)),
            SystemClock(),
            RandomIds(),
        )
