"""One member of a cluster: its parts, which messages go to which part, and what comes out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchgit.errors import NotLeaderError, OrchgitError
from orchgit.raft.configuration import ConfigurationEntry, MemberChange, PeerProgress
from orchgit.raft.election import Election
from orchgit.raft.follower import FollowerLog
from orchgit.raft.leader import LeaderParts, RaftLeader
from orchgit.raft.log import RaftLog
from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import (
    Append,
    AppendReply,
    Message,
    NotMember,
    OtherLog,
    PreVote,
    PreVoteReply,
    RequestVote,
    RulingMessage,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from orchgit.raft.ports import LogStorage, SnapshotRef, Snapshots
from orchgit.raft.snapshot_transfer import SnapshotReceiver
from orchgit.raft.state import RaftState, Role, Timing


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """What one member is told at its start.

    `first` is the configuration as long as no later entry of the log names another one, and
    `applied_index` what the state machine has applied. `log_id` and `waits_for_admission`: see
    `RaftState` and `RaftMembership`.
    """

    name: str
    first: ConfigurationEntry
    applied_index: int = 0
    timing: Timing = field(default_factory=Timing)
    log_id: str = ""
    waits_for_admission: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes of the parts; the tests' deliberate bugs replace some."""

    log: type[RaftLog] = RaftLog
    membership: type[RaftMembership] = RaftMembership
    election: type[Election] = Election
    follower: type[FollowerLog] = FollowerLog
    snapshots: type[SnapshotReceiver] = SnapshotReceiver
    leader: LeaderParts = field(default_factory=LeaderParts)


@dataclass(frozen=True, slots=True)
class RaftReady:
    """What the driver has to do after `synced`: see the package's head."""

    messages: list[tuple[str, Message]]
    """(receiver, message), to be sent."""
    reads: list[tuple[object, int | None]]
    """(ticket, index that must be applied before reading; None: not the leader any more)."""
    commit_index: int
    """Entries up to here may be applied."""
    installed: SnapshotRef | None
    """A snapshot took the place of the log: the state must be replaced by it first."""


Handler = Callable[[str, Any], None]
Gate = Callable[[str, Any], bool]


class RaftCore:
    """Takes messages, proposals and the time; gives back `RaftReady`. Not thread-safe."""

    parts = Parts()

    def __init__(
        self,
        config: RaftConfig,
        storage: LogStorage,
        snapshots: Snapshots,
        rng: random.Random,
        now_s: float,
    ) -> None:
        parts = self.parts
        log = parts.log(storage, config.first, config.applied_index)
        self.state = state = RaftState(
            config.name,
            log,
            config.timing,
            rng,
            now_s,
            term=max(storage.vote.term, log.last[1]),
            log_id=config.log_id,
        )
        self._snapshots = snapshots
        self.membership = parts.membership(state, config.waits_for_admission)
        self.election = parts.election(
            state, self.membership, on_elected=self._begin_to_lead, on_deposed=self._cease_to_lead
        )
        self.leading: RaftLeader | None = None
        log.on_configuration = self._members_changed
        follower = parts.follower(state, self.election)
        receiver = parts.snapshots(state, self.election, snapshots)
        election = self.election
        self._routes: Mapping[type[Message], tuple[Gate, Handler]] = {
            PreVote: (self._from_candidate, election.on_pre_vote),
            PreVoteReply: (self._from_member, election.on_pre_vote_reply),
            RequestVote: (self._from_candidate, election.on_request_vote),
            VoteReply: (self._from_member_in_term, election.on_vote_reply),
            TimeoutNow: (self._from_leader, election.on_timeout_now),
            Append: (self._from_leader, follower.on_append),
            AppendReply: (self._from_member_in_term, self._on_append_reply),
            SnapshotChunk: (self._from_leader, receiver.on_chunk),
            SnapshotReply: (self._from_member_in_term, self._on_snapshot_reply),
            NotMember: (self._from_anyone, self.membership.on_not_member),
            OtherLog: (self._from_anyone, self.membership.on_other_log),
        }

    # -- inputs ----------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Does what the time asks for: elections, heartbeats, stepping down."""
        self.state.advance(now_s)
        if self.leading is not None:
            self.leading.tick()
        else:
            self.election.tick()

    def stood_still(self, length_s: float, now_s: float) -> None:
        """This member did nothing for so long until now: the silence of the others in that time is
        no reason to stand for election or to step down. The confirmation of a leadership, by which
        it answers reads, ages as ever."""
        self.state.advance(now_s)
        self.state.standstills.add(self.state.now_s, length_s)
        self.election.stood_still(length_s)

    def step(self, sender: str, message: Message, now_s: float) -> None:
        """Handles a message of any server that the transport has authenticated: a leader or a
        candidate may be a member of a configuration that this member does not have yet."""
        self.state.advance(now_s)
        if self.membership.waits_for_admission:
            return
        passes, handle = self._routes[type(message)]
        if passes(sender, message):
            handle(sender, message)

    def propose(self, payload: bytes) -> int | None:
        """Returns the index of the new entry; None if this member does not lead, or is transferring
        the leadership."""
        return self.leading.propose(payload) if self.leading is not None else None

    def read(self, ticket: object) -> None:
        """Asks for the index that a current read must have seen; `RaftReady.reads` answers."""
        if self.leading is not None:
            self.leading.read(ticket)
        else:
            self.state.reads.append((ticket, None))

    def change_members(self, change: MemberChange) -> int | None:
        """Returns the index of the entry whose commit makes the change; None as for `propose`.
        Raises UnavailableError while another change is under way, RefusedError for a change that
        cannot be made."""
        return self.leading.change_members(change) if self.leading is not None else None

    def transfer(self, target: str) -> OrchgitError | None:
        """Begins to transfer the leadership to `target`, which takes over once it has everything.
        Returns what is in the way, else None."""
        if self.leading is None:
            return NotLeaderError(
                f"cannot hand the leadership to {target}: this server does not lead",
                self.state.leader,
            )
        return self.leading.transfer.begin(target)

    def bootstrap(self) -> bool:
        """Forms a cluster of this member alone; returns False if it belongs to one."""
        formed = self.membership.bootstrap()
        if formed:
            self.election.stand_at_once_if_alone()
        return formed

    # -- after the inputs ------------------------------------------------------------------------

    def count(self) -> None:
        """Commits what replies have confirmed, without waiting for the own disk."""
        if self.leading is not None:
            self.leading.count()

    def synced(self) -> None:
        """All entries that were appended are on disk."""
        if self.leading is not None:
            self.leading.synced()

    def tail_lost(self) -> None:
        """The disk was full: the log ends with what was synced. No other member has heard of the
        rest, and what was to be sent because of it must not be sent."""
        state, last_index = self.state, self.state.log.last_index
        state.log.lost_tail()
        state.outbox = [
            (receiver, self._without_tail(message))
            for receiver, message in state.outbox
            if not isinstance(message, PreVote | RequestVote)
        ]
        if self.leading is not None and self.leading.first_index <= last_index:
            return
        if state.role is not Role.FOLLOWER:
            self.election.become_follower(None)

    def _without_tail(self, message: Message) -> Message:
        """Where entries were to be confirmed, the leader is told what this member really has. A
        snapshot that seemed to be in the log already is asked for again."""
        term, last_index = self.state.term, self.state.log.last_index
        if isinstance(message, SnapshotReply) and message.installed and message.index > last_index:
            return SnapshotReply(term, message.index, 0, False)
        if isinstance(message, AppendReply) and message.accepted and message.index > last_index:
            hint_term = self.state.log.term(last_index)
            place = (last_index, message.round, message.index, hint_term)
            return AppendReply(term, False, *place, has_room=False)
        return message

    def ready(self) -> RaftReady:
        """Takes what is to be done; each thing is told once."""
        state = self.state
        ready = RaftReady(state.outbox, state.reads, state.log.commit_index, state.installed)
        state.outbox, state.reads, state.installed = [], [], None
        return ready

    # -- what is known ---------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    @property
    def is_removed(self) -> bool:
        """This member was removed, and no leader sends it anything."""
        return self.membership.is_removed and not self.election.has_leader

    @property
    def confirmed_s(self) -> float:
        """As of when a majority has confirmed that this member leads; -inf: it may not lead."""
        return self.leading.reads.confirmed_s if self.leading is not None else -math.inf

    @property
    def awaits_commit(self) -> bool:
        """It leads, and a majority has not confirmed yet all that it has on disk."""
        return self.is_leader and self.state.log.commit_index < self.state.log.synced_index

    @property
    def awaits_only_redundant_replies(self) -> bool:
        """It leads, and the replies that it awaits change nothing for any caller that waits."""
        return self.leading is not None and self.leading.awaits_only_redundant_replies

    @property
    def notify_s(self) -> float | None:
        """When followers are to be notified of commits, if no entries go to them until then."""
        return self.leading.replication.notification.due_s if self.leading is not None else None

    def is_first_of_leadership(self, index: int, term: int) -> bool:
        """Returns whether that entry is the first of the term in which this member leads."""
        leading = self.leading
        return leading is not None and (index, term) == (leading.first_index, self.state.term)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        """Returns how far the other members are, while this one leads; safe from any thread."""
        leading = self.leading
        return leading.tracker.report() if leading is not None else ()

    # -- transitions -----------------------------------------------------------------------------

    def _begin_to_lead(self) -> None:
        self.leading = RaftLeader(
            self.state,
            self.membership,
            self._snapshots,
            step_down=lambda: self.election.become_follower(None),
            parts=self.parts.leader,
        )
        self.leading.begin()

    def _cease_to_lead(self) -> None:
        assert self.leading is not None
        self.leading.end()
        self.leading = None

    def _members_changed(self) -> None:
        if self.leading is not None:
            self.leading.members_changed()

    # -- which messages are handled --------------------------------------------------------------

    def _from_anyone(self, sender: str, message: Message) -> bool:
        return True

    def _from_candidate(self, sender: str, message: PreVote | RequestVote) -> bool:
        membership = self.membership
        return not (
            membership.refuses_foreign(sender, message) or membership.refuses_removed(sender)
        )

    def _from_leader(self, sender: str, message: RulingMessage) -> bool:
        if self.membership.refuses_foreign(sender, message):
            return False
        if message.term > self.state.term:
            self.election.enter_term(message.term)
        return True

    def _from_member(self, sender: str, message: Message) -> bool:
        return sender in self.state.log.configuration.addresses

    def _from_member_in_term(self, sender: str, message: Message) -> bool:
        """A reply to an earlier term never counts; one of a later term ends this one."""
        if not self._from_member(sender, message):
            return False
        if message.term > self.state.term:
            self.election.enter_term(message.term)
            return False
        return message.term == self.state.term

    def _on_append_reply(self, sender: str, message: AppendReply) -> None:
        if self.leading is not None:
            self.leading.on_append_reply(sender, message)

    def _on_snapshot_reply(self, sender: str, message: SnapshotReply) -> None:
        if self.leading is not None:
            self.leading.on_snapshot_reply(sender, message)
