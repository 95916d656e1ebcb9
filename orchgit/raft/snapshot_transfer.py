"""Snapshots for members whose next entries the leader's log no longer has (Raft dissertation,
chapter 5)."""

from __future__ import annotations

from orchgit.raft.election import Election
from orchgit.raft.messages import SnapshotChunk, SnapshotReply
from orchgit.raft.ports import SnapshotRef, Snapshots
from orchgit.raft.progress import Progress, SnapshotStream
from orchgit.raft.state import RaftState

_RESEND_S = 1.0


class SnapshotSender:
    """The leader's side: one chunk at a time to each member. What was sent is in the progress of
    the member."""

    def __init__(self, state: RaftState, snapshots: Snapshots) -> None:
        self._state = state
        self._snapshots = snapshots

    def start(self, peer: Progress) -> None:
        ref = self._snapshots.latest()
        if ref is not None:
            peer.probe()
            peer.stream = SnapshotStream(ref)

    def send(self, name: str, peer: Progress) -> bool:
        """Sends the wanted chunk; returns False if the member's answer to it is still awaited."""
        state, stream = self._state, peer.stream
        assert stream is not None
        if stream.sent_s is not None and state.now_s - stream.sent_s < _RESEND_S:
            return False
        data = self._snapshots.read(stream.ref, stream.offset)
        if data is None:
            peer.stream = None
            return True
        stream.sent_s = state.now_s
        ref = stream.ref
        place = (state.term, ref.index, ref.term, ref.size, stream.offset)
        state.send(name, SnapshotChunk(*place, data, state.log_id))
        return True

    def on_reply(self, peer: Progress, message: SnapshotReply) -> None:
        peer.heard_s = self._state.now_s
        stream = peer.stream
        if stream is None or stream.ref.index != message.index:
            return
        if message.installed:
            peer.stream = None
            peer.accepted(message.index)
            peer.probing = True
        elif message.offset != stream.offset:
            stream.offset = message.offset
            stream.sent_s = None


class SnapshotReceiver:
    """The follower's side: keeps chunks, and installs the snapshot when it is whole."""

    def __init__(self, state: RaftState, election: Election, snapshots: Snapshots) -> None:
        self._state = state
        self._election = election
        self._snapshots = snapshots

    def on_chunk(self, sender: str, message: SnapshotChunk) -> None:
        state, log = self._state, self._state.log
        if message.term < state.term:
            state.send(sender, SnapshotReply(state.term, message.index, 0, False))
            return
        self._election.follow(sender)
        ref = SnapshotRef(message.index, message.index_term, message.size)
        wanted = 0
        if self._is_in_log(ref):
            # To drop the log for the snapshot would take back what was acknowledged behind it.
            log.commit(ref.index)
        installed = ref.index <= log.commit_index
        if not installed:
            wanted = self._snapshots.receive(ref, message.offset, message.data)
            if wanted == ref.size:
                log.restart_at(ref, self._snapshots.install(ref))
                state.installed = ref
                installed = True
        state.send(sender, SnapshotReply(state.term, ref.index, wanted, installed))

    def _is_in_log(self, ref: SnapshotRef) -> bool:
        return self._state.log.agrees(ref.index, ref.term)
