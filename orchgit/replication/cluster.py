"""What a server knows of its cluster: the members, the leader, and whether it still leads."""

from __future__ import annotations

import asyncio

from orchgit.clock import boottime_s
from orchgit.errors import OrchgitError
from orchgit.raft.configuration import Member, PeerProgress
from orchgit.replication.leadership import Leadership, LeaderSignal
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.replication.running_node import RunningNode


class Cluster:
    """Belongs to the event loop. Before the start and after the stop no member, leader or term is
    known."""

    def __init__(
        self, config: ReplicationConfig, node: RunningNode, leadership: Leadership
    ) -> None:
        self.address = config.address
        """This server's raft address, which is its name as a member."""
        # No member votes for another within the shortest election time-out after a message of a
        # leader; a tenth is kept for clocks that differ.
        self._certain_s = config.timing.election_s[0] * 0.9
        self._node = node
        self._leadership = leadership
        self._leader_signal = LeaderSignal()

    # -- members ---------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[Member, ...]:
        """The newest configuration that is known here; empty if there is none yet."""
        status = self._node.status
        return status.members if status else ()

    @property
    def has_configuration(self) -> bool:
        return bool(self.members)

    @property
    def other_addresses(self) -> list[str]:
        return [one.address for one in self.members if one.address != self.address]

    @property
    def is_removed(self) -> bool:
        """This server was removed: no leader sends it anything, and it can stop."""
        status = self._node.status
        return status is not None and status.is_removed

    @property
    def waits_for_admission(self) -> bool:
        """This server has no data and handles no message until it is admitted: it may have been a
        member once."""
        status = self._node.status
        return status is not None and status.waits_for_admission

    @property
    def is_catching_up(self) -> bool:
        """This server was admitted, and its log lacks the entry by which that was done."""
        status = self._node.status
        return status is not None and status.is_catching_up

    @property
    def admission(self) -> tuple[int, int]:
        """On a leader that has just added a member: the term and index it is admitted with."""
        status = self._node.status
        return (status.term, status.commit_index) if status else (0, 0)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        """Returns how far the other members are; empty unless this server leads."""
        status = self._node.status
        return status.peer_progress() if status else ()

    # -- who leads -------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """This server leads and has applied the first entry of its term."""
        return self._leadership.is_leader

    @property
    def may_append(self) -> bool:
        """This server leads, or did a moment ago: the raft thread decides on its proposals."""
        status = self._node.status
        return self._leadership.is_leader or (status is not None and status.is_leader)

    @property
    def leads_for_certain(self) -> bool:
        """A majority has confirmed the leadership so lately that no other member can have been
        elected meanwhile, even if this process, or the machine, stood still."""
        status = self._node.status
        return status is not None and boottime_s() - status.confirmed_s < self._certain_s

    @property
    def leader_and_term(self) -> tuple[str | None, int]:
        """The leader's raft address, None if no leader is known, and the term it leads in."""
        status = self._node.status
        return status.leader_and_term if status else (None, 0)

    @property
    def leader_address(self) -> str | None:
        return self.leader_and_term[0]

    async def leader_change(self, known: str | None, timeout_s: float) -> str | None:
        """Returns the leader's raft address once it differs from `known`, or at the time-out."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while self.leader_address == known and (left_s := deadline_s - loop.time()) > 0:
            await self._leader_signal.wait(left_s)
        return self.leader_address

    def leader_changed(self) -> None:
        """Wakes those that wait in `leader_change`."""
        self._leader_signal.tell()

    async def transfer_leadership(self, address: str) -> None:
        """Begins a leadership transfer to the member of that raft address; `leadership` tells when
        it is done. It is given up when that member does not take over within an election time-out.
        Raises NotLeaderError on a follower, RefusedError if the member could not lead,
        UnavailableError if the member is silent."""
        refusal: OrchgitError | None = await self._node.ask(
            lambda node, answer: node.transfer(address, answer)
        )
        if refusal is not None:
            raise refusal

    # -- the log ---------------------------------------------------------------------------------

    @property
    def last_contact_s(self) -> float | None:
        """The time since a message of a leader; 0 on the leader, None if there never was one."""
        status = self._node.status
        return status.last_contact_s if status else None

    @property
    def term(self) -> int:
        status = self._node.status
        return status.term if status else 0

    @property
    def last_log_index(self) -> int:
        """Of the newest entry here, committed or not."""
        status = self._node.status
        return status.last_log_index if status else 0

    @property
    def last_log_term(self) -> int:
        status = self._node.status
        return status.last_log_term if status else 0

    @property
    def last_snapshot(self) -> tuple[int, int]:
        """The index and the term of the last entry that a snapshot here has; 0 without one."""
        status = self._node.status
        return status.last_snapshot if status else (0, 0)
