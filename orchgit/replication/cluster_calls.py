"""What a server may ask of its cluster: who belongs to it, who leads, and whether it still does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from orchgit.clock import boottime_s
from orchgit.errors import OrchgitError, RefusedError, TimedOutError
from orchgit.raft.configuration import Member, MemberChange, PeerProgress
from orchgit.raft_node.node import RaftNode
from orchgit.raft_node.proposal import Proposal, not_leader, stopped
from orchgit.replication.leadership import Leadership, LeaderSignal
from orchgit.replication.pending_proposals import Waiting
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.state.store import Store

T = TypeVar("T")


class ClusterCalls:
    """The part of `ReplicatedState` that is about the other members; on its event loop."""

    config: ReplicationConfig
    _node: RaftNode
    _loop: asyncio.AbstractEventLoop
    _started: bool
    _offset: int
    _waiting: Waiting
    _leader_signal: LeaderSignal
    leadership: Leadership
    store: Store

    async def _unless_failed(self, wanted: Awaitable[None]) -> None:
        """Wait, but not for what can never come."""
        raise NotImplementedError

    async def _give_cluster_id(self) -> None:
        """If it has none yet."""
        raise NotImplementedError

    # -- members ---------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """This server's raft address, which is its name as a member."""
        return self.config.address

    @property
    def members(self) -> tuple[Member, ...]:
        """The newest configuration that is known here; empty: none yet."""
        return self._node.status.members if self._started else ()

    @property
    def has_configuration(self) -> bool:
        return bool(self.members)

    @property
    def is_removed(self) -> bool:
        """It was a member and is none any more: it hears nothing, and can stop."""
        return self._started and self._node.status.is_removed

    async def bootstrap(self) -> None:
        """Form a cluster of this server alone, and lead it; RefusedError if it belongs to one."""
        if not self._started:
            raise stopped()
        begun: asyncio.Future[bool] = self._loop.create_future()
        self._node.bootstrap(self._settler(begun))
        if not await begun:
            members = ", ".join(one.address for one in self.members)
            raise RefusedError(
                f"cannot form a new cluster: this server belongs to one already ({members})"
            )
        await self._unless_failed(self.leadership.gained())
        await self._give_cluster_id()

    @property
    def waits_for_admission(self) -> bool:
        """It has nothing and hears nothing, until `admit`: it may have been a member once."""
        return self._started and self._node.status.waits_for_admission

    @property
    def is_catching_up(self) -> bool:
        """It was admitted, and its log does not reach yet to where that was."""
        return self._started and self._node.status.is_catching_up

    @property
    def admission(self) -> tuple[int, int]:
        """On a leader that has just added a member: the term and index it is admitted with."""
        return self._node.status.term, self._node.status.commit_index

    async def admit(self, term: int, index: int) -> None:
        """A leader says that this server was added by then, and that no configuration counts the
        member that it may have been: it hears the leader from here on."""
        kept: asyncio.Future[OrchgitError | None] = self._loop.create_future()
        self._node.admit(term, index, self._settler(kept))
        error = await kept
        if error is not None:
            raise error

    async def add_member(self, address: str) -> None:
        """Take a server in, without a vote; nothing changes if it is a member."""
        if not self.config.listens:
            raise RefusedError(
                f"cannot add {address}: this server has no raft address that others can reach; "
                "give it one and, unless all are on this machine, certificates (`tls`)"
            )
        await self._change(MemberChange(address, voter=False))

    async def promote_member(self, address: str) -> None:
        """Give a member a vote; RefusedError while it is behind."""
        await self._change(MemberChange(address, voter=True))

    async def remove_member(self, address: str) -> None:
        """Take a server out. The leader itself goes on until that is committed, then another takes
        over at once. Nothing changes if it is no member."""
        await self._change(MemberChange(address, voter=None))

    async def _change(self, change: MemberChange, timeout_s: float = 10.0) -> None:
        """On the leader only. Returns when it is committed; RefusedError while another is made."""
        if not self._started:
            raise stopped()
        proposal = Proposal()
        self._waiting.add(proposal, timeout_s)
        self._node.change_members(change, proposal)
        try:
            await proposal.future
        except TimeoutError:
            raise TimedOutError(
                f"cannot tell whether the members were changed ({change.address}): no majority "
                f"confirmed it in {timeout_s:g} s; look at the members before trying again"
            ) from None
        finally:
            self._waiting.discard(proposal)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        """How far the other members are, on the leader; elsewhere empty."""
        return self._node.status.peer_progress() if self._started else ()

    # -- who leads -------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leadership.is_leader

    @property
    def leads_for_certain(self) -> bool:
        """A majority has confirmed the leadership so lately that no other member can have been
        elected meanwhile, even if this process, or the machine, stood still.

        No member votes for another within the shortest election time-out after a message of a
        leader; a tenth is kept for clocks that differ."""
        certain_s = self.config.timing.election_s[0] * 0.9
        return self._started and boottime_s() - self._node.status.confirmed_s < certain_s

    @property
    def leader_address(self) -> str | None:
        """The leader's raft address, where one is known."""
        return self._node.status.leader_address if self._started else None

    @property
    def leader_and_term(self) -> tuple[str | None, int]:
        """The leader's raft address and the term it leads in."""
        return self._node.status.leader_and_term if self._started else (None, 0)

    async def leader_change(self, known: str | None, timeout_s: float) -> str | None:
        """The leader's raft address, once it is another than `known`, or at the time-out."""
        deadline_s = self._loop.time() + timeout_s
        while self.leader_address == known and (left_s := deadline_s - self._loop.time()) > 0:
            await self._leader_signal.wait(left_s)
        return self.leader_address

    @property
    def last_contact_s(self) -> float | None:
        """Since a leader was heard; 0 on the leader, None if there never was one."""
        return self._node.status.last_contact_s

    @property
    def term(self) -> int:
        return self._node.status.term

    @property
    def last_log_index(self) -> int:
        """Of the newest entry here, committed or not."""
        return self._node.status.last_log_index

    @property
    def applied_index(self) -> int:
        return self.store.watch.applied_index

    async def transfer_leadership(self, address: str) -> None:
        """Begin to hand over to the member of that raft address; `leadership` tells when it is
        done. It is given up when that member does not take over within an election time-out.
        Raises what is in the way: NotLeaderError here, RefusedError for one that could not lead,
        UnavailableError for one that is silent."""
        begun: asyncio.Future[OrchgitError | None] = self._loop.create_future()
        self._node.transfer(address, self._settler(begun))
        refusal = await begun
        if refusal is not None:
            raise refusal

    async def read_index(self, timeout_s: float = 5.0) -> int:
        """Returns when this server is known to lead still and has applied all that was acknowledged
        before the call: a snapshot taken now is current. NotLeaderError on a follower."""
        if not self._started:
            raise stopped()
        found: asyncio.Future[int | None] = self._loop.create_future()
        self._node.read(self._settler(found))
        index = None
        with contextlib.suppress(TimeoutError):
            index = await asyncio.wait_for(found, timeout_s)
        if index is None:
            raise not_leader(self.leader_address)
        return await self._applied_log(index, timeout_s)

    async def _applied_log(self, log_index: int, timeout_s: float) -> int:
        """Wait until that entry of the log is applied; the state's index of it."""
        while True:
            offset = self._offset
            await self.store.watch.wait_applied(log_index + offset, timeout_s)
            if offset == self._offset:
                return log_index + offset

    def _settler(self, future: asyncio.Future[T]) -> Callable[[T], None]:
        """Returns a function that sets the result from another thread."""

        def settle(value: T) -> None:
            if not future.done():
                future.set_result(value)

        def settle_on_loop(value: T) -> None:
            self._loop.call_soon_threadsafe(settle, value)

        return settle_on_loop
