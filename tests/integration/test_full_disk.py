"""A full disk: writes are refused with the reason, reads go on, and so does writing when there is
room again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchgit.clock import SystemClock
from orchgit.errors import DiskFullError, UnavailableError
from orchgit.ids import RandomIds
from orchgit.raft.messages import Append
from orchgit.raft.ports import Vote
from orchgit.raft.state import Role
from orchgit.raft_log.disk import DISK
from orchgit.raft_log.disk_space import JOURNAL
from orchgit.raft_log.vote import VoteFile
from orchgit.raft_node.proposal import Applied, Proposal
from orchgit.replication.commands.entry import Noop
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.replication.snapshots import snapshot_index, write_snapshot
from tests.support.factories import make_job
from tests.support.fillable_disk import FillableDisk
from tests.support.polling import until
from tests.support.raft_hub import Hub
from tests.support.state import check_invariants

SMALL = 64 << 10


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def register(name: str, size: int = 100) -> RegisterJob:
    return RegisterJob(upsert=JobUpsert(job=make_job(id=name, meta={"text": "x" * size})))


def job_ids(state: ReplicatedState) -> list[str]:
    with state.store.snapshot() as snapshot:
        return [job.id for job in snapshot.jobs.all()]


def writer_of(state: ReplicatedState) -> sqlite3.Connection:
    """Returns the connection that writes the store; nothing may be waiting to be applied."""
    transaction = state.store.begin()
    transaction.rollback()
    return transaction.connection


def allow_no_growth(writer: sqlite3.Connection) -> None:
    """Lets the store fail to grow as on a full disk."""
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")


@contextlib.asynccontextmanager
async def running(directory: Path, **options: Any) -> AsyncIterator[ReplicatedState]:
    config = ReplicationConfig(directory, "server-1", **options)
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    try:
        yield state
        assert state.failure.error is None
        with state.store.snapshot() as snapshot:
            check_invariants(snapshot)
    finally:
        await state.stop()


async def filled(state: ReplicatedState, size: int = 5000) -> tuple[list[str], str]:
    """Register jobs until the disk is full: those that were acknowledged, and the refusal."""
    done: list[str] = []
    while True:
        name = f"job-{len(done):05}"
        try:
            await state.propose(register(name, size))
        except DiskFullError as error:
            return done, str(error)
        done.append(name)


async def written(state: ReplicatedState, name: str) -> None:
    """It goes on by itself: nothing is done here but trying again."""
    await until(lambda: state.propose(register(name)), retried=(DiskFullError,))


def test_full_log_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FillableDisk()
        async with running(tmp_path, disk=disk, segment_bytes=SMALL) as state:
            await state.propose(register("before"))
            disk.is_full = True
            done, refusal = await filled(state)
            assert refusal == (
                f"cannot write: the disk of {tmp_path}/raft is full (0 MB free); make room there, "
                "and writing goes on by itself"
            )
            refused = await asyncio.gather(
                *(state.propose(Noop()) for _ in range(50)), return_exceptions=True
            )
            assert {type(one) for one in refused} == {DiskFullError}
            assert job_ids(state) == ["before", *done]
            assert await state.reads.read_index() >= 0
            assert state.cluster.is_leader
            disk.is_full = False
            await written(state, "later")
            expected = sorted(["before", *done, "later"])
        async with running(tmp_path, segment_bytes=SMALL) as state:
            assert sorted(job_ids(state)) == expected

    run(scenario())


def test_server_on_a_full_disk_starts_and_answers_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FillableDisk()
        async with running(tmp_path, segment_bytes=SMALL) as state:
            await state.propose(register("a"))
        disk.is_full = True
        async with running(tmp_path, disk=disk, segment_bytes=SMALL) as state:
            assert job_ids(state) == ["a"]
            assert not state.cluster.is_leader
            with pytest.raises(UnavailableError):
                await state.propose(Noop())
            disk.is_full = False
            await state.leadership.gained()
            await state.propose(register("b"))
            assert job_ids(state) == ["a", "b"]

    run(scenario())


def test_new_server_on_a_full_disk_fails_with_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FillableDisk()
        disk.is_full = True
        with pytest.raises(UnavailableError, match=r"full"):
            async with running(tmp_path, disk=disk):
                pass

    run(scenario())


def test_committed_entries_wait_while_the_state_cannot_grow(tmp_path: Path) -> None:
    """What is committed is in the log; it is applied when there is room, each entry once."""

    async def scenario() -> None:
        async with running(tmp_path) as state:
            await state.propose(register("before"))
            writer = writer_of(state)
            allow_no_growth(writer)
            waiting = [
                asyncio.create_task(state.propose(register(f"job-{n:02}", 9000))) for n in range(20)
            ]
            await until(lambda: not state.space.suffices_all)
            with pytest.raises(DiskFullError, match=f"{tmp_path}/state is full"):
                await state.propose(Noop())
            assert "before" in job_ids(state)
            writer.execute("PRAGMA max_page_count = 1000000")
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            taken = [f"job-{n:02}" for n, one in enumerate(answers) if isinstance(one, Applied)]
            refused = [one for one in answers if isinstance(one, DiskFullError)]
            assert len(taken) + len(refused) == 20
            await written(state, "later")
            assert job_ids(state) == ["before", *taken, "later"]

    run(scenario())


def test_server_stops_while_the_state_cannot_grow(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as state:
            allow_no_growth(writer_of(state))
            waiting = asyncio.create_task(state.propose(register("a", 200_000)))
            await until(lambda: not state.space.suffices_all)
        with pytest.raises(UnavailableError, match="cannot tell whether"):
            await waiting
        async with running(tmp_path) as state:
            assert job_ids(state) == ["a"], "committed, so applied at the next start"

    run(scenario())


def test_snapshot_without_room_is_postponed(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FillableDisk()
        async with running(tmp_path, disk=disk) as state:
            await state.propose(register("a"))
            path = tmp_path / "copy.db"
            index = write_snapshot(state.store, path, disk)
            await state.propose(register("b"))
            disk.is_full = True
            with pytest.raises(DiskFullError):
                write_snapshot(state.store, path, disk)
            assert snapshot_index(path) == index
            assert not path.with_suffix(".new").exists()
            disk.is_full = False
            assert write_snapshot(state.store, path, disk) == index + 1

    run(scenario())


def test_writes_stay_refused_after_a_disk_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FillableDisk()
        config = ReplicationConfig(tmp_path, "server-1", disk=disk)
        state = ReplicatedState(config, SystemClock(), RandomIds())
        await state.start()
        await state.propose(register("a"))
        disk.is_broken = True
        with pytest.raises(UnavailableError, match="Input/output error"):
            await state.propose(register("b"))
        await state.failure.happened()
        disk.is_broken = False
        with pytest.raises(UnavailableError, match="look at the disk"):
            await state.propose(register("c"))
        assert job_ids(state) == ["a"]
        await state.stop()

    run(scenario())


# -- a cluster -------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, ["one", "two", "three"], FillableDisk)
    yield hub
    hub.close()


def fill(hub: Hub, name: str) -> FillableDisk:
    """Its log has no room from now on."""
    disk = hub.servers[name].disk
    assert isinstance(disk, FillableDisk)
    disk.is_full = True
    return disk


async def submitted(hub: Hub, name: str, payload: bytes, forward: bool = False) -> Any:
    proposal = Proposal()
    hub.servers[name].node.submit(payload, proposal, forward)
    return proposal.future


def test_follower_without_room_delays_no_write_and_catches_up(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        disk = fill(hub, "three")
        for number in range(5):
            await submitted(hub, "one", b"%d" % number)
            hub.settle()
        assert hub.servers["two"].applied == [b"0", b"1", b"2", b"3", b"4"]
        assert hub.servers["three"].applied == []
        progress = {one.address: one for one in hub.leader().node.status.peer_progress()}
        synced_index = hub.servers["three"].journal.synced_index
        assert progress["three"].match_index == synced_index
        disk.is_full = False
        hub.now_s += 1.0
        hub.settle()
        hub.now_s += 0.2
        hub.settle()
        assert hub.servers["three"].applied == hub.servers["two"].applied

    run(scenario())


def test_leader_without_room_refuses_writes_and_keeps_its_followers(hub: Hub) -> None:
    """Heartbeats go on; a command that a follower forwards is refused with the reason too."""

    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        disk = fill(hub, "one")
        first = await submitted(hub, "one", b"refused")
        forwarded = await submitted(hub, "two", b"refused as well", forward=True)
        hub.settle()
        for _ in range(20):
            hub.now_s += 0.1
            hub.settle(1)
        await asyncio.sleep(0)
        for future in (first, forwarded):
            assert isinstance(future.exception(), DiskFullError), future
        assert hub.leader().name == "one"
        assert hub.servers["two"].node.status.leader_address == "one"
        disk.is_full = False
        hub.now_s += 0.5
        hub.settle()
        await submitted(hub, "one", b"taken")
        hub.settle()
        assert [one.applied for one in hub.servers.values()] == [[b"taken"]] * 3

    run(scenario())


def test_member_without_room_votes(hub: Hub) -> None:
    """Its vote has a place of its own on the disk, and decides here."""

    async def scenario() -> None:
        fill(hub, "two")
        hub.cut_off.add("three")
        hub.servers["one"].stand_for_election()
        hub.settle()
        assert hub.leader().name == "one"
        kept = VoteFile(DISK, hub.directory / "two" / "vote").value
        assert kept == Vote(hub.leader().node.status.term, "one")

    run(scenario())


def test_leader_without_room_transfers_leadership_and_follows(hub: Hub) -> None:
    """It learns of the next leader at once, and does not stand when that one is gone."""

    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        fill(hub, "one")
        refused = await submitted(hub, "one", b"refused")
        hub.settle()
        begun: list[object] = []
        hub.servers["one"].node.transfer("two", begun.append)
        hub.settle()
        await asyncio.sleep(0)
        assert begun == [None]
        assert isinstance(refused.exception(), DiskFullError)
        assert hub.leader().name == "two"
        assert hub.servers["one"].node.status.leader_address == "two"
        hub.cut_off.add("two")
        hub.pass_time(1.0)
        hub.servers["one"].node.core.election.deadline_s = hub.now_s
        hub.settle()
        assert hub.servers["one"].node.core.state.role is Role.FOLLOWER, "it could not lead"
        hub.servers["three"].stand_for_election()
        hub.settle()
        assert hub.leader().name == "three"

    run(scenario())


def test_member_that_cannot_store_its_vote_does_not_vote(hub: Hub) -> None:
    """On file systems where nothing is written in place."""

    async def scenario() -> None:
        disks = [fill(hub, name) for name in ("two", "three")]
        for disk in disks:
            disk.copies_on_write = True
        hub.servers["one"].stand_for_election()
        hub.settle()
        assert not any(one.node.status.is_leader for one in hub.servers.values())
        assert {hub.servers[name].journal.vote.term for name in ("two", "three")} == {0}
        for disk in disks:
            disk.is_full = False
        hub.servers["one"].stand_for_election()
        hub.settle()
        assert hub.leader().name == "one"

    run(scenario())


def test_entry_that_was_not_written_is_neither_sent_nor_counted(hub: Hub) -> None:
    async def scenario() -> None:
        hub.servers["one"].stand_for_election()
        hub.settle()
        leader = hub.leader()
        fill(hub, "one")
        sent: list[Append] = []
        send = leader.transport.send

        def watched(receiver: str, message: Any) -> None:
            if isinstance(message, Append):
                sent.append(message)
            send(receiver, message)

        leader.transport.send = watched  # type: ignore[method-assign]
        before = leader.journal.last_index
        await submitted(hub, "one", b"x")
        hub.settle()
        assert sent
        assert not any(message.entries for message in sent)
        assert leader.journal.last_index == leader.node.core.state.log.commit_index == before
        assert leader.space.is_lacked_by(JOURNAL)

    run(scenario())


# -- a real one ------------------------------------------------------------------------------------


@pytest.fixture
def small_mount(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB, where mounting is allowed."""
    path = tmp_path / "mount"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_full_file_system_refuses_writes_until_there_is_room(small_mount: Path) -> None:
    """Another tenant takes all but nothing: log, state and snapshots have to cope at once."""

    async def scenario() -> None:
        ballast = small_mount / "ballast"
        data = small_mount / "data"
        options = {"segment_bytes": 1 << 20, "snapshot_log_bytes": 2 << 20}
        async with running(data, **options) as state:
            await state.propose(register("before"))
            with contextlib.suppress(OSError), ballast.open("wb", 0) as file:
                while True:
                    file.write(bytes(1 << 16))
            done, refusal = await filled(state, 20_000)
            assert " is full (" in refusal
            assert set(job_ids(state)) >= {"before", *done}
            ballast.unlink()
            await written(state, "later")
            assert set(job_ids(state)) >= {"before", *done, "later"}
        async with running(data, **options) as state:
            assert set(job_ids(state)) >= {"before", *done, "later"}

    run(scenario())
