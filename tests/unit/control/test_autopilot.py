"""Autopilot's loop on a made-up cluster whose time and members the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchgit.clock import FakeClock
from orchgit.control.watchers.autopilot import Autopilot, AutopilotLimits
from orchgit.errors import RefusedError
from orchgit.model.operator import AutopilotConfig
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.commands.settings import SetAutopilotConfig
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.store import Store
from tests.support.state import apply, open_store


class MadeUpCluster:
    """What autopilot asks of the replicated state. `silent_since`: servers that do not answer."""

    address = "leader:1"
    term = 3
    last_log_index = 1000

    def __init__(self, store: Store, clock: FakeClock, count: int) -> None:
        self.store = store
        self.clock = clock
        self.voters = {f"{name}:1": True for name in ("leader", *"bcdefg"[: count - 1])}
        self.silent_since: dict[str, float] = {}
        self.behind: dict[str, int] = {}
        self.changes: list[tuple[str, str]] = []
        self.refusing = False
        for address in self.voters:
            record = ServerRecord(address, id=address[0], name=address[:-2], region="global")
            apply(store, PutServer(server=record))

    @property
    def cluster(self) -> MadeUpCluster:
        return self

    @property
    def membership(self) -> MadeUpCluster:
        return self

    @property
    def members(self) -> list[Any]:
        return [SimpleNamespace(address=one, voter=vote) for one, vote in self.voters.items()]

    def peer_progress(self) -> list[Any]:
        now_s = self.clock.monotonic_s()
        return [
            SimpleNamespace(
                address=one,
                voter=vote,
                match_index=self.last_log_index - self.behind.get(one, 0),
                last_contact_s=now_s - self.silent_since.get(one, now_s),
            )
            for one, vote in self.voters.items()
            if one != self.address
        ]

    async def promote(self, address: str) -> None:
        if self.refusing:
            raise RefusedError("cannot give it a vote: it is behind")
        self.changes.append(("promote", address))
        self.voters[address] = True

    async def remove(self, address: str) -> None:
        self.changes.append(("remove", address))
        del self.voters[address]

    async def propose(self, command: Command) -> None:
        apply(self.store, command)

    def records(self) -> dict[str, str]:
        with self.store.snapshot() as snapshot:
            return {record.address: record.status for record in snapshot.servers.all()}


def run(
    directory: Path,
    count: int,
    work: Callable[[MadeUpCluster, FakeClock, Autopilot], Awaitable[None]],
    **limits: int,
) -> None:
    async def inside() -> None:
        clock, store = FakeClock(), open_store(directory)
        cluster = MadeUpCluster(store, clock, count)
        state = cast(ReplicatedState, cluster)
        autopilot = Autopilot(state, clock, AutopilotLimits(**limits))
        loop = asyncio.create_task(autopilot.run())
        try:
            await work(cluster, clock, autopilot)
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            store.close()

    asyncio.run(inside())


def test_learner_gets_a_vote_after_the_stabilization_time(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        cluster.voters["new:1"] = False
        await clock.advance(9.9)
        assert cluster.changes == []
        await clock.advance(2.0)
        assert cluster.changes == [("promote", "new:1")]

    run(tmp_path, 3, work)


def test_forming_cluster_gives_votes_without_delay(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        cluster.voters |= {"x:1": False, "y:1": False, "z:1": False}
        await clock.advance(1.5)
        assert cluster.changes == [("promote", "x:1"), ("promote", "y:1")]

    run(tmp_path, 1, work, bootstrap_expect=3)


def test_refused_promotion_is_tried_again(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        cluster.voters["new:1"] = False
        cluster.refusing = True
        await clock.advance(15)
        cluster.refusing = False
        await clock.advance(1)
        assert cluster.changes == [("promote", "new:1")]

    run(tmp_path, 3, work)


def test_silent_server_is_recorded_as_failed_and_as_alive_when_it_answers(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        await clock.advance(1)
        cluster.silent_since["b:1"] = clock.monotonic_s()
        await clock.advance(5)
        assert cluster.records() == {"leader:1": "alive", "b:1": "failed", "c:1": "alive"}
        health = autopilot.health()
        assert not health.healthy
        assert health.failure_tolerance == 0
        del cluster.silent_since["b:1"]
        await clock.advance(1)
        assert set(cluster.records().values()) == {"alive"}
        assert autopilot.health().failure_tolerance == 1
        await clock.advance(120)
        assert cluster.changes == []

    run(tmp_path, 3, work)


def test_learner_is_promoted_though_server_states_cannot_be_recorded(tmp_path: Path) -> None:
    """A state cannot be told to all, so nobody is told; votes are given all the same."""

    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        async def refuse(command: Command) -> None:
            raise RefusedError("cannot do this yet: a server would not understand it")

        cluster.propose = refuse  # type: ignore[method-assign]
        cluster.silent_since["b:1"] = 0.0
        cluster.voters["new:1"] = False
        await clock.advance(20)
        assert cluster.changes == [("promote", "new:1")]
        assert cluster.records()["b:1"] == "alive"

    run(tmp_path, 3, work)


def test_dead_server_is_removed_when_its_replacement_has_a_vote(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        cluster.silent_since["b:1"] = 0.0
        await clock.advance(60)
        assert cluster.changes == []
        cluster.voters["new:1"] = False
        await clock.advance(15)
        assert cluster.changes == [("promote", "new:1"), ("remove", "b:1")]
        assert "b:1" not in cluster.records()

    run(tmp_path, 3, work)


@pytest.mark.parametrize("cleans", [True, False])
def test_cleanup_setting_decides_whether_a_dead_server_is_removed(
    tmp_path: Path, cleans: bool
) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        config = AutopilotConfig(cleanup_dead_servers=cleans)
        apply(cluster.store, SetAutopilotConfig(config=config))
        cluster.silent_since["b:1"] = 0.0
        await clock.advance(60)
        assert cluster.changes == ([("remove", "b:1")] if cleans else [])

    run(tmp_path, 5, work)


def test_records_of_removed_servers_are_deleted(tmp_path: Path) -> None:
    async def work(cluster: MadeUpCluster, clock: FakeClock, autopilot: Autopilot) -> None:
        del cluster.voters["c:1"]
        await clock.advance(20)
        assert "c:1" in cluster.records(), "it may be on its way in"
        await clock.advance(20)
        assert set(cluster.records()) == {"leader:1", "b:1"}

    run(tmp_path, 3, work)
