"""Clusters that grow and shrink, over real sockets and files, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchgit.clock import SystemClock
from orchgit.errors import InvalidInputError, NotLeaderError, RefusedError
from orchgit.ids import RandomIds
from orchgit.raft.configuration import Member
from orchgit.replication.commands.entry import Noop
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_job
from tests.support.polling import until
from tests.support.ports import free_addresses


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def start(directory: Path, address: str, **options: Any) -> ReplicatedState:
    config = ReplicationConfig(directory / address.replace(":", "-"), address, address, **options)
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    return state


@asynccontextmanager
async def servers(directory: Path, count: int, **options: Any) -> AsyncIterator[list[Any]]:
    """The first one leads a cluster of its own, the others wait to be taken in."""
    addresses = free_addresses(count)
    started = [
        await start(directory, address, bootstrap=address == addresses[0], **options)
        for address in addresses
    ]
    try:
        yield started
    finally:
        for state in started:
            await state.stop()


async def register(state: ReplicatedState, name: str) -> int:
    command = RegisterJob(upsert=JobUpsert(job=make_job(id=name)))
    return (await state.propose(command, forward=True)).index


def jobs(state: ReplicatedState) -> list[str]:
    with state.store.snapshot() as snapshot:
        return sorted(job.id for job in snapshot.jobs.all())


async def take_in(leader: ReplicatedState, *others: ReplicatedState) -> None:
    for other in others:
        await leader.membership.add(other.cluster.address)
        await promote(leader, other)


async def promote(leader: ReplicatedState, other: ReplicatedState) -> None:
    async def promoted() -> bool:
        with contextlib.suppress(RefusedError):
            await leader.membership.promote(other.cluster.address)
            return True
        return False

    await until(promoted)


async def follows(state: ReplicatedState, leader: ReplicatedState) -> None:
    async def caught_up() -> bool:
        return state.store.watch.applied_index >= leader.store.watch.applied_index

    await until(caught_up)


async def leader_of(states: list[ReplicatedState]) -> ReplicatedState:
    async def one() -> ReplicatedState | None:
        return next((state for state in states if state.cluster.is_leader), None)

    found: ReplicatedState = await until(one)
    return found


def test_waiting_server_is_added_and_catches_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 3) as (first, second, third):
            await register(first, "before")
            assert first.cluster.members == (Member(first.cluster.address, True),)
            assert not second.cluster.has_configuration
            assert second.cluster.last_contact_s is None
            with pytest.raises(NotLeaderError):
                await second.membership.add(third.cluster.address)
            await first.membership.add(second.cluster.address)
            assert Member(second.cluster.address, False) in first.cluster.members
            await take_in(first, second, third)
            await register(second, "by-the-second")
            await follows(first, second)
            await follows(third, second)
            assert jobs(second) == jobs(third) == ["before", "by-the-second"]
            assert {one.voter for one in second.cluster.members} == {True}
            assert len(second.cluster.members) == 3
            assert len(first.cluster.peer_progress()) == 2

            async def matches() -> bool:
                found = {one.match_index for one in first.cluster.peer_progress()}
                return found == {first.cluster.last_log_index}

            await until(matches)
            assert all(one.voter for one in first.cluster.peer_progress())
            assert second.cluster.last_contact_s is not None
            assert second.cluster.last_contact_s < 5.0
            assert first.cluster.last_contact_s == 0.0

    run(scenario())


def test_removed_leader_is_replaced_by_the_other_members(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 3) as (first, second, third):
            await take_in(first, second, third)
            await first.membership.remove(first.cluster.address)
            leader = await leader_of([second, third])
            await register(leader, "after")
            assert {one.address for one in leader.cluster.members} == {
                second.cluster.address,
                third.cluster.address,
            }

            async def knows() -> bool:
                return bool(first.cluster.is_removed)

            await until(knows)
            assert not first.cluster.is_leader
            await leader.membership.add(first.cluster.address)
            await follows(first, leader)
            assert jobs(first) == ["after"]
            assert not first.cluster.is_removed

    run(scenario())


def test_members_are_restored_after_a_restart_also_from_a_snapshot(tmp_path: Path) -> None:
    async def scenario() -> None:
        small = {"snapshot_log_bytes": 20_000, "segment_bytes": 20_000}
        async with servers(tmp_path, 2, **small) as states:
            first, second = states
            await take_in(first, second)
            for n in range(100):
                await register(first, f"job-{n}")
            (data,) = {first.config.data_dir}

            async def compacted() -> bool:
                await first.writer.barrier()
                return min(int(p.stem) for p in (data / "raft").glob("*.segment")) > 10

            await until(compacted)
            members = first.cluster.members
            await first.stop()
            (data / "state" / "state.db").unlink()
            states[0] = first = await start(tmp_path, first.cluster.address, **small)
            assert first.cluster.members == members
            await leader_of(states)
            await until(lambda: len(jobs(first)) == 100)

    run(scenario())


def test_bootstrap_succeeds_once_and_only_without_a_cluster(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 2) as (first, second):
            await second.membership.bootstrap()
            assert second.cluster.is_leader
            assert second.cluster.members == (Member(second.cluster.address, True),)
            with pytest.raises(RefusedError, match="belongs to one already"):
                await first.membership.bootstrap()
            with second.store.snapshot() as snapshot:
                assert snapshot.meta.cluster_id()

    run(scenario())


def test_operator_forces_the_members_after_the_loss_of_a_majority(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 3) as states:
            first, second, third = states
            await take_in(first, second, third)
            await register(first, "kept")
            for state in (second, third):
                await state.stop()
            await first.stop()
            raft = first.config.data_dir / "raft"
            (raft / "peers.json").write_text(json.dumps([{"id": "x", "address": "127.0.0.1:9"}]))
            with pytest.raises(InvalidInputError, match="does not name this server"):
                await start(tmp_path, first.cluster.address)
            peers = [{"id": "x", "address": first.cluster.address, "non_voter": False}]
            (raft / "peers.json").write_text(json.dumps(peers))
            states[0] = first = await start(tmp_path, first.cluster.address)
            assert first.cluster.is_leader
            assert (raft / "peers.json.used").exists()
            assert jobs(first) == ["kept"]
            await register(first, "alone")
            await first.stop()
            states[0] = first = await start(tmp_path, first.cluster.address)
            assert first.cluster.members == (Member(first.cluster.address, True),)
            assert jobs(first) == ["alone", "kept"]

    run(scenario())


def test_lone_server_restarts_under_another_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        for address in ("127.0.0.1:0", *free_addresses(2), "127.0.0.1:0"):
            config = ReplicationConfig(tmp_path, "s", address)
            state = ReplicatedState(config, SystemClock(), RandomIds())
            await state.start()
            assert state.cluster.is_leader
            assert state.cluster.members == (Member(address, True),)
            await state.propose(Noop())
            await state.stop()

    run(scenario())


def test_server_on_an_unreachable_address_adds_no_member(tmp_path: Path) -> None:
    async def scenario() -> None:
        for address in ("127.0.0.1:0", "10.0.0.1:4648"):
            state = await start(tmp_path, address)
            with pytest.raises(RefusedError, match="no raft address that others can reach"):
                await state.membership.add("127.0.0.1:4649")
            await state.stop()

    run(scenario())


def test_cluster_member_does_not_start_at_an_unreachable_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 2) as (first, second):
            await take_in(first, second)
            await first.stop()
            config = ReplicationConfig(first.config.data_dir, "s", "127.0.0.1:0")
            state = ReplicatedState(config, SystemClock(), RandomIds())
            with pytest.raises(RefusedError, match="no raft address that they can reach"):
                await state.start()
            again = await start(tmp_path, first.cluster.address)
            await again.stop()

    run(scenario())
