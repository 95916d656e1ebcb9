"""Snapshots from a leader to a follower that is too far behind, chunk by chunk."""

from __future__ import annotations

import msgspec

from orchgit.raft.election import Election
from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import SnapshotChunk, SnapshotReply
from orchgit.raft.progress import Progress
from orchgit.raft.snapshot_transfer import SnapshotReceiver, SnapshotSender
from orchgit.raft.state import RaftState
from tests.support.raft_core import make_core
from tests.support.raft_disk import MemorySnapshots, State

STATE = State(index=9, value=7, members_index=2)
DATA = msgspec.msgpack.encode(STATE)


def make_sender() -> tuple[SnapshotSender, RaftState, Progress]:
    snapshots = MemorySnapshots()
    snapshots.take(9, 3, DATA + bytes(100))
    state = make_core().state
    peer = Progress(next=2, heard_s=0.0)
    return SnapshotSender(state, snapshots), state, peer


def make_receiver() -> tuple[SnapshotReceiver, RaftState]:
    state = make_core().state
    membership = RaftMembership(state, waits_for_admission=False)
    election = Election(state, membership, lambda: None, lambda: None)
    return SnapshotReceiver(state, election, MemorySnapshots()), state


def test_next_chunk_is_sent_when_the_last_is_answered_or_too_old() -> None:
    sender, state, peer = make_sender()
    sender.start(peer)
    assert sender.send("b", peer)
    assert not sender.send("b", peer), "the reply is awaited"
    state.advance(1.5)
    assert sender.send("b", peer), "the chunk or its reply was lost"
    sender.on_reply(peer, SnapshotReply(0, 9, 64, installed=False))
    assert sender.send("b", peer)
    chunks = [message for _, message in state.outbox if isinstance(message, SnapshotChunk)]
    assert [chunk.offset for chunk in chunks] == [0, 0, 64]


def test_follower_that_installed_the_snapshot_goes_on_behind_it() -> None:
    sender, _, peer = make_sender()
    sender.start(peer)
    sender.on_reply(peer, SnapshotReply(0, 9, 0, installed=True))
    assert (peer.stream, peer.match, peer.next, peer.probing) == (None, 9, 10, True)


def test_received_snapshot_replaces_the_log_once_it_is_whole() -> None:
    receiver, state = make_receiver()
    receiver.on_chunk("b", SnapshotChunk(1, 9, 1, len(DATA), 0, DATA[:3]))
    assert (state.log.last_index, state.installed) == (1, None)
    receiver.on_chunk("b", SnapshotChunk(1, 9, 1, len(DATA), 3, DATA[3:]))
    assert state.log.last == (9, 1)
    assert state.installed is not None
    replies = [message for _, message in state.outbox]
    assert replies == [SnapshotReply(0, 9, 3, False), SnapshotReply(0, 9, len(DATA), True)]


def test_log_that_agrees_with_the_snapshot_is_kept() -> None:
    receiver, state = make_receiver()
    for _ in range(10):
        state.log.append(1, b"\x00")
    receiver.on_chunk("b", SnapshotChunk(1, 9, 1, len(DATA), 0, DATA[:3]))
    assert (state.log.last_index, state.log.commit_index) == (11, 9)
    assert state.outbox == [("b", SnapshotReply(0, 9, 0, True))]


def test_chunk_of_an_earlier_term_is_refused() -> None:
    receiver, state = make_receiver()
    state.term = 5
    receiver.on_chunk("b", SnapshotChunk(4, 9, 1, len(DATA), 0, DATA))
    assert state.outbox == [("b", SnapshotReply(5, 9, 0, False))]
    assert state.leader is None
