"""Log replication, the leader's side: entries to the followers, and what their replies commit
(Raft dissertation, section 3.5)."""

from __future__ import annotations

from orchgit.raft.commit_notification import CommitNotification
from orchgit.raft.entry_batches import EntryBatches
from orchgit.raft.messages import Append, AppendReply
from orchgit.raft.progress import Progress, ProgressTracker
from orchgit.raft.read_index import ReadIndex
from orchgit.raft.snapshot_transfer import SnapshotSender
from orchgit.raft.state import RaftState

_LARGE_BYTES = 1 << 20
_LARGE_BYTES_PER_S = 8 << 20
_BURST = 2
"""Messages to a follower at a time: reading entries for one far behind takes long, and the others
would hear nothing meanwhile. Its replies bring the next."""


class Replication:
    """Sends entries, heartbeats and notifications of commits during one leadership."""

    def __init__(
        self,
        state: RaftState,
        tracker: ProgressTracker,
        reads: ReadIndex,
        snapshots: SnapshotSender,
    ) -> None:
        self._state = state
        self._log = state.log
        self._tracker = tracker
        self._reads = reads
        self._snapshots = snapshots
        self._batches = EntryBatches(state.log.storage)
        self.notification = CommitNotification(state, tracker)

    # -- sending ---------------------------------------------------------------------------------

    def send_new(self) -> None:
        """Sends what was synced, what reads ask, and notifications that are due."""
        synced_index = self._log.synced_index
        asks, notifies = self._reads.is_unsent, self.notification.is_due
        for name, peer in self._tracker.peers.items():
            # Most turns are taken for a reply, and bring nothing that could be sent.
            if asks or notifies or not peer.was_sent(synced_index):
                self._send(name, peer, force=asks, notifies=notifies)
        self._batches.clear()
        self.notification.plan(synced_index)
        self._reads.sent()

    def send_heartbeats(self) -> None:
        """To members that were sent nothing for half the interval; entries count as heartbeats."""
        since_s = self._state.now_s - self._state.timing.heartbeat_s / 2
        for name, peer in self._tracker.peers.items():
            if peer.sent_s < since_s:
                self._send(name, peer, force=True)
        self._batches.clear()

    def _send(self, name: str, peer: Progress, force: bool = False, notifies: bool = False) -> None:
        """Sends what the member can take now; with `force` at least a sign of life."""
        state, log = self._state, self._log
        if peer.next - 1 < log.first_index and peer.next > 1 and peer.stream is None:
            self._snapshots.start(peer)
        if peer.stream is not None:
            if not self._snapshots.send(name, peer) and force:
                self._send_sign_of_life(name)
        elif state.now_s < peer.large_until_s:
            if force:
                self._send_sign_of_life(name)
        elif peer.probing:
            if force or not peer.waiting:
                self._send_entries(name, peer)
        else:
            sent = False
            for _ in range(_BURST):
                if peer.next > log.synced_index or not peer.has_room:
                    break
                self._send_entries(name, peer)
                sent = True
            if not sent and (force or (notifies and peer.sent_commit < log.commit_index)):
                self._send_entries(name, peer, empty=True)

    def _send_entries(self, name: str, peer: Progress, empty: bool = False) -> None:
        state, log = self._state, self._log
        prev_index = peer.next - 1
        entries = [] if empty else self._batches.starting_at(peer.next)
        if not empty:
            size = sum(len(entry.payload) for entry in entries)
            peer.sent(prev_index + len(entries), size)
            if size > _LARGE_BYTES:
                peer.large_until_s = state.now_s + size / _LARGE_BYTES_PER_S
        peer.sent_commit = log.commit_index
        peer.sent_s = state.now_s
        place = (state.term, prev_index, log.term(prev_index))
        message = Append(*place, entries, log.commit_index, state.round, state.log_id)
        state.send(name, message)

    def _send_sign_of_life(self, name: str) -> None:
        """It agrees with any log, and passes large entries."""
        state = self._state
        state.send(name, Append(state.term, 0, 0, [], 0, state.round, state.log_id))

    # -- replies ---------------------------------------------------------------------------------

    def on_reply(self, sender: str, peer: Progress, message: AppendReply) -> None:
        if message.accepted:
            if peer.stream is None:
                peer.accepted(message.index)
            elif message.index >= peer.stream.ref.index:
                peer.stream = None
                peer.accepted(message.index)
        elif peer.refused(message.refused, self._last_possible_agreement(peer, message)):
            self._send(sender, peer)
            self._batches.clear()
        peer.measure_lap(self._log.last_index, self._state.now_s)

    def _last_possible_agreement(self, peer: Progress, message: AppendReply) -> int:
        index = min(message.index, self._log.last_index)
        while index > peer.match and index >= self._log.first_index:
            if self._log.term(index) <= message.hint_term:
                break
            index -= 1
        return index

    def count(self) -> bool:
        """Commits the newest entry of this term that a majority has on disk, with all before it
        (section 3.6.2); returns whether that is anything new."""
        index = self._tracker.reached_by_majority(self._log.synced_index, lambda peer: peer.match)
        if index <= self._log.commit_index or self._log.term(index) != self._state.term:
            return False
        self._log.commit(index)
        return True

    @property
    def awaits_only_redundant_replies(self) -> bool:
        """All is committed and was sent, and a follower has not confirmed it yet: that changes
        nothing for any caller that waits."""
        last_index = self._log.last_index
        if self._log.commit_index < last_index:
            return False
        peers = self._tracker.peers.values()
        return all(peer.was_sent(last_index) for peer in peers) and any(
            peer.match < last_index for peer in peers
        )
