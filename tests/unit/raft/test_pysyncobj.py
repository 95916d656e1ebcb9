"""pysyncobj 0.3.17 as shipped: each fault that made us write the consensus ourselves, shown on the
library's own code, next to what our core does with the same input. Of the library only the poller
is used; if one of these fails after an upgrade, read `docs/decisions/0007-raft-core.md` again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pysyncobj
import pysyncobj.journal
import pytest
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.poller import PollPoller
from pysyncobj.transport import Transport

import orchgit
from orchgit.raft.core import RaftCore
from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    PreVoteReply,
)
from tests.support.parsed_source import parsed_source
from tests.support.raft_core import elect, make_core, settle, storage_of
from tests.support.raft_disk import MemoryLog

A, B, C = Node("a"), Node("b"), Node("c")
NO_OP = b"\x01"


class Recorder(Transport):  # type: ignore[misc]
    """Keeps what the library sends; the test hands it what it receives."""

    def __init__(self) -> None:
        super().__init__(None, None, [B, C])
        self.sent: list[tuple[str, dict[str, Any]]] = []

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        self.sent.append((node.id, message))
        return True

    def connect(self, node: Node) -> None:
        self._onNodeConnected(node)

    def receive(self, sender: Node, message: dict[str, Any]) -> None:
        self._onMessageReceived(sender, message)

    def destroy(self) -> None:
        """Nothing is open."""


class Shipped:
    """One member of the library's, named a, with two others that the test plays."""

    def __init__(self) -> None:
        self.transport = Recorder()
        conf = SyncObjConf(
            autoTick=False,
            raftMinTimeout=4e-9,
            raftMaxTimeout=5e-9,
            appendEntriesPeriod=1e-9,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=1000,
        )
        self.member = SyncObj(A, [B, C], conf=conf, transport=self.transport)
        self.transport.connect(B)
        self.transport.connect(C)

    def receive(self, sender: Node, **message: Any) -> None:
        self.transport.receive(sender, message)

    def append(self, term: int, prev: tuple[int, int], *entries: tuple[bytes, int, int]) -> None:
        self.receive(B, type="append_entries", term=term, commit_index=1, entries=list(entries),
                     prevLogIdx=prev[0], prevLogTerm=prev[1])  # fmt: skip

    def lead(self) -> None:
        """A tick finds that the time to hear of a leader, which is 0, is over; B votes."""
        self.member.doTick()
        self.receive(B, type="response_vote", term=self.member.raftCurrentTerm)
        assert self.status("leader") == A

    def status(self, key: str) -> Any:
        return self.member.getStatus()[key]


@pytest.fixture
def shipped() -> Iterator[Shipped]:
    shipped = Shipped()
    yield shipped
    shipped.member.destroy()


def our_leader(now_s: float = 2.0) -> RaftCore:
    core = make_core()
    elect(core, now_s)
    return core


# -- truncation without a conflict ---------------------------------------------------------------


def test_shipped_a_late_heartbeat_takes_entries_back(shipped: Shipped) -> None:
    shipped.append(1, (1, 0), (NO_OP, 2, 1), (NO_OP, 3, 1))
    assert shipped.status("log_len") == 3
    shipped.append(1, (1, 0))
    assert shipped.status("log_len") == 1, (
        "acknowledged entries 2 and 3 were cut by an empty message"
    )


def test_ours_a_late_heartbeat_takes_nothing_back() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [LogEntry(1, b"x"), LogEntry(1, b"y")], 1, 0), 0.1)
    settle(core)
    core.step("b", Append(1, 1, 0, [], 1, 0), 0.1)
    core.step("b", Append(1, 1, 0, [LogEntry(1, b"x")], 1, 0), 0.1)
    assert core.state.log.last_index == 3
    core.step("c", Append(2, 2, 1, [LogEntry(2, b"z")], 1, 0), 0.1)
    assert [storage_of(core).record(i).payload for i in (2, 3)] == [b"x", b"z"], (
        "a conflict does cut"
    )


# -- nextIndex -----------------------------------------------------------------------------------


def test_shipped_a_success_moves_next_index_back(shipped: Shipped) -> None:
    shipped.append(1, (1, 0), *((NO_OP, index, 1) for index in range(2, 10)))
    shipped.lead()
    assert shipped.status("next_node_idx_server_b") == 11
    shipped.receive(B, type="next_node_idx", next_node_idx=5, reset=False, success=True)
    assert shipped.status("next_node_idx_server_b") == 5, (
        "4 entries were accepted, 6 are on the way"
    )


def test_ours_a_success_never_moves_next_index_back() -> None:
    core = our_leader()
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    for _ in range(8):
        core.propose(b"\x00x")
    settle(core)
    assert core.leading.tracker.peers["b"].next == 11
    for accepted in (4, 3, 6, 4):
        core.step("b", AppendReply(1, True, accepted, 0), 2.1)
        assert core.leading.tracker.peers["b"].next == 11
    assert core.leading.tracker.peers["b"].match == 6
    core.step("b", AppendReply(1, False, 2, 0, refused=5, hint_term=1), 2.1)
    assert core.leading.tracker.peers["b"].next == 11, "an old refusal of what was accepted since"


# -- replies without a term ----------------------------------------------------------------------


def test_shipped_a_reply_of_an_old_term_counts(shipped: Shipped) -> None:
    shipped.lead()
    shipped.receive(B, type="append_entries", term=5, commit_index=1, entries=[],
                    prevLogIdx=1, prevLogTerm=0)  # fmt: skip
    assert shipped.status("log_len") == 1, "the leader of term 5 has nothing of ours"
    shipped.lead()
    assert shipped.member.raftCurrentTerm == 6
    shipped.receive(C, type="next_node_idx", next_node_idx=3, reset=False, success=True)
    assert shipped.status("match_idx_server_c") == 2, "it was said of another entry 2"
    shipped.member.doTick()
    assert shipped.member.raftCommitIndex == 2, "committed, though no other member has it"


def test_ours_a_reply_of_an_old_term_does_not_count() -> None:
    core = our_leader()
    core.step("b", Append(5, 1, 0, [LogEntry(5, b"z")], 1, 0), 2.1)
    settle(core)
    elect(core, 9.0)
    assert core.state.term == 6
    core.step("c", AppendReply(1, True, 3, 0), 9.1)
    settle(core)
    assert core.leading.tracker.peers["c"].match == 0
    assert core.state.log.commit_index == 1


# -- durability ----------------------------------------------------------------------------------


def test_shipped_nothing_is_ever_synced() -> None:
    source = inspect.getsource(pysyncobj.journal)
    assert "fsync" not in source
    assert "fdatasync" not in source


def test_ours_a_vote_is_stored_before_it_is_in_the_outbox() -> None:
    stored: list[tuple[int, str | None, int]] = []

    class Watched(MemoryLog):
        def store_vote(self, vote: Any) -> None:
            stored.append((vote.term, vote.voted_for, len(core.state.outbox)))
            super().store_vote(vote)

    core = make_core(log=Watched())
    core.tick(2.0)
    asked = len(core.state.outbox)
    core.step("b", PreVoteReply(1, True), 2.0)
    assert stored == [(1, "a", asked)], "on disk when nobody has been asked for a vote yet"
    assert len(core.state.outbox) == asked + 2


# -- chunked transfer ----------------------------------------------------------------------------


def test_shipped_an_entry_near_a_multiple_is_finished_twice(shipped: Shipped) -> None:
    shipped.append(1, (1, 0), (b"\x00" + b"x" * 1989, 2, 1))
    shipped.lead()
    shipped.transport.sent.clear()
    shipped.receive(B, type="next_node_idx", next_node_idx=2, reset=True, success=False)
    shipped.member.doTick()
    parts = [m["transmission"] for to, m in shipped.transport.sent
             if to == "b" and "transmission" in m]  # fmt: skip
    assert parts == ["start", "finish", "finish"]


@pytest.mark.parametrize("size", [(1 << 18) + extra for extra in (-30, -2, -1, 0, 1, 30)])
def test_ours_an_entry_of_any_size_is_one_message(size: int) -> None:
    core = our_leader()
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    core.propose(b"x" * size)
    sent = [m for to, m in settle(core) if to == "b" and m.entries]
    assert [len(one.entries[0].payload) for one in sent] == [size]


# -- pickles -------------------------------------------------------------------------------------


class _MakesADirectory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self._path,)


def test_shipped_a_message_runs_what_it_likes(shipped: Shipped, tmp_path: Path) -> None:
    data = pickle.dumps(_MakesADirectory(tmp_path / "made-by-a-message"))
    place = {"term": 1, "commit_index": 1, "prevLogIdx": 1, "prevLogTerm": 0}
    shipped.receive(B, type="append_entries", transmission="start", data=data, **place)
    with pytest.raises(TypeError):
        shipped.receive(B, type="append_entries", transmission="finish", data=b"", **place)
    assert (tmp_path / "made-by-a-message").is_dir()


def test_ours_nothing_unpickles() -> None:
    for file in (Path(orchgit.__path__[0]) / "replication").rglob("*.py"):
        assert "pickle" not in file.read_text(), file


# -- what is used --------------------------------------------------------------------------------


def test_version_is_the_pinned_one() -> None:
    assert version("pysyncobj") == "0.3.17"
    pyproject = Path(orchgit.__path__[0]).parent / "pyproject.toml"
    assert '"pysyncobj==0.3.17"' in pyproject.read_text()


def test_only_the_poller_is_used_and_has_not_changed() -> None:
    used = set()
    for file in Path(orchgit.__path__[0]).rglob("*.py"):
        for node in ast.walk(parsed_source(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pysyncobj"):
                used.add(node.module)
    assert used == {"pysyncobj.poller"}
    source = inspect.getsource(PollPoller)
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == "2c56a7079ae17698"
