"""One member of a cluster, the test playing the other members, the disk and the clock."""

from __future__ import annotations

import random

from orchgit.raft.configuration import Configuration, ConfigurationEntry
from orchgit.raft.core import RaftConfig, RaftCore
from orchgit.raft.messages import AppendReply, Message, PreVoteReply, VoteReply
from tests.support.raft_disk import MemoryLog, MemorySnapshots


def make_core(
    voters: str = "abc",
    name: str = "a",
    *,
    log: MemoryLog | None = None,
    applied_index: int = 1,
    logged: bool = True,
    waits_for_admission: bool = False,
    core_class: type[RaftCore] = RaftCore,
) -> RaftCore:
    """A member that starts at time 0."""
    first = ConfigurationEntry(0, Configuration.of(voters), logged)
    return core_class(
        RaftConfig(name, first, applied_index, waits_for_admission=waits_for_admission),
        log or MemoryLog(),
        MemorySnapshots(),
        random.Random(1),
        0.0,
    )


def storage_of(core: RaftCore) -> MemoryLog:
    storage = core.state.log.storage
    assert isinstance(storage, MemoryLog)
    return storage


def settle(core: RaftCore) -> list[tuple[str, Message]]:
    """Syncs the log; takes what is sent then, and leaves the answers of reads."""
    storage_of(core).sync()
    core.synced()
    messages, core.state.outbox = core.state.outbox, []
    return messages


def elect(core: RaftCore, now_s: float) -> None:
    """With the vote of b."""
    core.tick(now_s)
    core.step("b", PreVoteReply(core.state.term + 1, True), now_s)
    core.step("b", VoteReply(core.state.term, True), now_s)
    assert core.is_leader
    settle(core)


def lead_two_that_follow() -> RaftCore:
    """Members b and c have everything, and know that it is committed."""
    core = make_core()
    elect(core, 2.0)
    for name in "bc":
        core.step(name, AppendReply(core.state.term, True, 2, 0), 2.1)
    settle(core)
    assert core.notify_s is not None
    core.tick(core.notify_s)
    settle(core)
    return core
