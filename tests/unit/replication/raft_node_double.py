"""A raft node that answers what a test sets, for the parts of the replicated state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from orchgit.raft.configuration import Member, MemberChange
from orchgit.raft_node.node import RaftNode
from orchgit.raft_node.proposal import Proposal
from orchgit.replication.cluster import Cluster
from orchgit.replication.leadership import Leadership
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.replication.running_node import RunningNode
from tests.support.virtual_time import VirtualTimeLoop


class RaftNodeDouble:
    """`answer` is what the raft thread answers to a call; None for a read: this member does not
    lead. `changes` are the changes of members that were asked for; nobody answers them."""

    def __init__(self, **status: Any) -> None:
        self.status = SimpleNamespace(
            **{
                "members": (Member("a:1", True), Member("b:1", True)),
                "leader_and_term": ("a:1", 3),
                "term": 3,
                "commit_index": 7,
                "last_log_index": 9,
                "last_contact_s": 0.0,
                "is_leader": True,
                "is_removed": True,
                "is_catching_up": True,
                "waits_for_admission": True,
                "confirmed_s": 0.0,
            }
            | status
        )
        self.answer: Any = None
        self.answers = True
        self.changes: list[MemberChange] = []
        self.submitted: list[bytes] = []

    def running(self) -> RunningNode:
        running = RunningNode()
        running.start(cast(RaftNode, self))
        return running

    def read(self, done: Callable[[Any], None]) -> None:
        if self.answers:
            done(self.answer)

    def transfer(self, target: str, answer: Callable[[Any], None]) -> None:
        self.read(answer)

    def bootstrap(self, answer: Callable[[Any], None]) -> None:
        self.read(answer)

    def admit(self, term: int, index: int, answer: Callable[[Any], None]) -> None:
        self.read(answer)

    def change_members(self, change: MemberChange, proposal: Proposal) -> None:
        self.changes.append(change)

    def submit(self, command: bytes, proposal: Proposal, forward: bool = False) -> None:
        self.submitted.append(command)
        proposal.answer(5, "done")


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario)


def cluster_of(node: RunningNode, leadership: Leadership | None = None) -> Cluster:
    config = ReplicationConfig(Path("unused"), "s", bind="a:1")
    return Cluster(config, node, leadership or Leadership())
