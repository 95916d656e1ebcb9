"""One leadership: what exists from a member's election until it follows again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from orchgit.raft.conf_change import ConfChange
from orchgit.raft.configuration import MemberChange
from orchgit.raft.leadership_transfer import LeadershipTransfer
from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import AppendReply, SnapshotReply, TimeoutNow
from orchgit.raft.ports import NO_OP, Snapshots
from orchgit.raft.progress import ProgressTracker
from orchgit.raft.read_index import ReadIndex
from orchgit.raft.replication import Replication
from orchgit.raft.snapshot_transfer import SnapshotSender
from orchgit.raft.state import RaftState


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """The classes of a leader's parts; the tests' deliberate bugs replace some."""

    replication: type[Replication] = Replication
    conf_change: type[ConfChange] = ConfChange
    transfer: type[LeadershipTransfer] = LeadershipTransfer


class RaftLeader:
    """The leader's parts, and the order in which they work. `step_down` makes the member a
    follower, which ends this object."""

    def __init__(
        self,
        state: RaftState,
        membership: RaftMembership,
        snapshots: Snapshots,
        step_down: Callable[[], None],
        parts: LeaderParts,
    ) -> None:
        self._state = state
        self._log = state.log
        self._membership = membership
        self._step_down = step_down
        self._heartbeat_s = state.now_s + state.timing.heartbeat_s
        self._check_s = 0.0
        """When to see next which members answer, and which are to be sent something."""
        self.first_index = state.log.last_index + 1
        """Of the first entry of this term: with it, entries of earlier terms are committed."""
        self.tracker = ProgressTracker(state)
        self.reads = ReadIndex(state, self.tracker)
        self.snapshots = SnapshotSender(state, snapshots)
        self.replication = parts.replication(state, self.tracker, self.reads, self.snapshots)
        self.transfer = parts.transfer(state, membership, self.tracker)
        self.conf_change = parts.conf_change(state, self.tracker, self.first_index)

    def begin(self) -> None:
        log = self._log
        self.members_changed()
        log.append(self._state.term, NO_OP)
        self._begin_heartbeat()
        if not log.configurations.newest.logged:
            log.append(self._state.term, log.configuration.encode())

    def end(self) -> None:
        self.reads.refuse_all()

    def members_changed(self) -> None:
        """New members are asked what they have; removed ones are sent nothing more."""
        removed = self.tracker.update(self._membership.others, self.reads.next_round)
        if self.reads.confirmed_s == math.inf:
            self._confirm()
        self.conf_change.members_changed(removed)

    # -- what callers ask ------------------------------------------------------------------------

    def propose(self, payload: bytes) -> int | None:
        return None if self.transfer.is_under_way else self._log.append(self._state.term, payload)

    def change_members(self, change: MemberChange) -> int | None:
        return None if self.transfer.is_under_way else self.conf_change.propose(change)

    def read(self, ticket: object) -> None:
        self.reads.add(ticket, max(self._log.commit_index, self.first_index))

    # -- time ------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Steps down without a majority; else sends heartbeats when they are due."""
        state = self._state
        if state.now_s < self._check_s:
            return
        self._check_s = state.now_s + state.timing.heartbeat_s / 10
        since_s = state.standstills.awake_since(state.now_s, state.timing.election_s[1])
        heard = self.tracker.heard_since(since_s)
        if not self._log.configuration.is_majority((state.name, *heard)):
            self._step_down()
            return
        self.transfer.tick()
        if state.now_s >= self._heartbeat_s:
            self._heartbeat_s = state.now_s + state.timing.heartbeat_s
            self._begin_heartbeat()
            self.replication.send_heartbeats()
        self.transfer.leave_if_full()

    def _begin_heartbeat(self) -> None:
        self.reads.begin_heartbeat()
        self._confirm()

    def _confirm(self) -> None:
        """Not during a transfer: the target may be elected at once."""
        if not self.transfer.is_under_way:
            self.reads.confirm()

    # -- replies ---------------------------------------------------------------------------------

    def on_append_reply(self, sender: str, message: AppendReply) -> None:
        peer = self.tracker.peers[sender]
        if message.round < peer.since_round:
            return
        peer.heard_s = self._state.now_s
        peer.could_write = message.has_room
        peer.acked_round = max(peer.acked_round, message.round)
        if self.reads.awaits_confirmation(peer.acked_round):
            self._confirm()
        self.replication.on_reply(sender, peer, message)

    def on_snapshot_reply(self, sender: str, message: SnapshotReply) -> None:
        self.snapshots.on_reply(self.tracker.peers[sender], message)

    # -- after the log was synced ----------------------------------------------------------------

    def count(self) -> None:
        if self._log.commit_index < self._log.synced_index and self.replication.count():
            self.conf_change.committed()

    def synced(self) -> None:
        """Counts the own disk, and sends what can be sent."""
        log = self._log
        self.count()
        self.replication.send_new()
        if log.commit_index >= self.first_index:
            self.reads.answer()
        if self.transfer.finish():
            self.reads.confirmed_s = -math.inf
        if self._state.name not in log.configuration.voters and log.is_configuration_committed:
            self._leave_to_longest_log()

    def _leave_to_longest_log(self) -> None:
        """Its own removal is committed: the voter with the longest log may stand at once."""
        voters, peers = sorted(self._log.configuration.voters), self.tracker.peers
        successor = max(voters, key=lambda name: peers[name].match)
        self._state.send(successor, TimeoutNow(self._state.term, self._state.log_id))
        self._step_down()

    @property
    def awaits_only_redundant_replies(self) -> bool:
        if self.reads.is_waited_for or self.transfer.is_under_way:
            return False
        return self.replication.awaits_only_redundant_replies
