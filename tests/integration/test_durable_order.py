"""What has to be on disk before something else happens is there before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.raft.messages import RequestVote, VoteReply
from orchgit.raft.ports import Vote
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.vote import VoteFile
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_job
from tests.support.raft_hub import Hub


class TracingDisk(Disk):
    """`done`: what was done, and with which file."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self._names: dict[int, str] = {}

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self._names[fd] = path.name
        return fd

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.done.append(("sync", self._names[fd]))

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.done.append(("replace", target.name))

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.done.append(("remove", path.name))

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self.done.append(("sync_dir", path.name))


def test_log_is_truncated_only_behind_a_durable_snapshot(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TracingDisk()
        sizes: dict[str, Any] = {"snapshot_log_bytes": 20_000, "segment_bytes": 10_000}
        config = ReplicationConfig(tmp_path, "s", disk=disk, **sizes)
        state = ReplicatedState(config, SystemClock(), RandomIds())
        await state.start()
        removed: list[tuple[str, str]] = []
        number = 0
        while not removed:
            await state.propose(RegisterJob(upsert=JobUpsert(job=make_job(id=f"job-{number}"))))
            number += 1
            removed = [one for one in disk.done if one[0] == "remove" and "segment" in one[1]]
        before = disk.done[: disk.done.index(removed[0])]
        await state.stop()
        wanted = [("sync", "snapshot.new"), ("replace", "snapshot.db"), ("sync_dir", "state")]
        assert _in_order(before, wanted), before[-20:]

    asyncio.run(scenario())


def _in_order(done: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    rest = iter(done)
    return all(any(one == step for one in rest) for step in wanted)


def test_vote_is_on_disk_before_it_is_sent(tmp_path: Path) -> None:
    hub = Hub(tmp_path, ["one", "two", "three"], TracingDisk)
    spoken: list[str] = []
    for server in hub.servers.values():
        disk = server.disk
        send = server.transport.send

        def watched(
            receiver: str, message: Any, server: Any = server, disk: Any = disk, send: Any = send
        ) -> bool:
            gives = isinstance(message, VoteReply) and message.granted
            if gives or isinstance(message, RequestVote):
                kept = VoteFile(DISK, tmp_path / server.name / "vote").value
                assert kept == Vote(message.term, receiver if gives else server.name)
                steps = [("sync", "vote"), ("sync", "vote")]
                assert disk.done[-2:] == steps
                spoken.append(type(message).__name__)
            return bool(send(receiver, message))

        server.transport.send = watched  # type: ignore[method-assign]
    hub.servers["two"].stand_for_election()
    hub.settle()
    assert hub.leader().name == "two"
    assert {"RequestVote", "VoteReply"} == set(spoken)
    hub.close()
