"""Changes of the cluster's members, as this server's raft node makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orchgit.errors import OrchgitError, RefusedError, TimedOutError
from orchgit.raft.configuration import MemberChange
from orchgit.raft_node.proposal import Proposal
from orchgit.replication.cluster import Cluster
from orchgit.replication.pending_proposals import PendingProposals
from orchgit.replication.running_node import RunningNode

_CHANGE_S = 10.0


class MembershipChanges:
    """Belongs to the event loop. Every method raises UnavailableError before the start and after
    the stop.

    `listens`: other servers can reach this one. `formed` is awaited once this server has become a
    cluster of its own.
    """

    def __init__(
        self,
        node: RunningNode,
        cluster: Cluster,
        pending: PendingProposals,
        listens: bool,
        formed: Callable[[], Awaitable[None]],
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._pending = pending
        self._listens = listens
        self._formed = formed

    async def bootstrap(self) -> None:
        """Forms a cluster of this server alone, and leads it. Raises RefusedError if the server
        belongs to a cluster."""
        has_begun: bool = await self._node.ask(lambda node, answer: node.bootstrap(answer))
        if not has_begun:
            members = ", ".join(one.address for one in self._cluster.members)
            raise RefusedError(
                f"cannot form a new cluster: this server belongs to one already ({members})"
            )
        await self._formed()

    async def admit(self, term: int, index: int) -> None:
        """A leader added this server by then, and no configuration counts the member that it may
        have been: the server follows the leader from here on."""
        error: OrchgitError | None = await self._node.ask(
            lambda node, answer: node.admit(term, index, answer)
        )
        if error is not None:
            raise error

    async def add(self, address: str) -> None:
        """Adds a server without a vote; nothing changes if it is a member."""
        if not self._listens:
            raise RefusedError(
                f"cannot add {address}: this server has no raft address that others can reach; "
                "give it one and, unless all are on this machine, certificates (`tls`)"
            )
        await self._change(MemberChange(address, voter=False))

    async def promote(self, address: str) -> None:
        """Gives a member a vote; raises RefusedError while the member is behind."""
        await self._change(MemberChange(address, voter=True))

    async def remove(self, address: str) -> None:
        """Removes a server; nothing changes if it is no member. A leader that removes itself leads
        until that is committed, then another member takes over at once."""
        await self._change(MemberChange(address, voter=None))

    async def _change(self, change: MemberChange) -> None:
        """On the leader only. Returns when the change is committed."""
        node = self._node.get()
        proposal = Proposal()
        self._pending.add(proposal, _CHANGE_S)
        node.change_members(change, proposal)
        try:
            await proposal.future
        except TimeoutError:
            raise TimedOutError(
                f"cannot tell whether the members were changed ({change.address}): no majority "
                f"confirmed it in {_CHANGE_S:g} s; look at the members before trying again"
            ) from None
        finally:
            self._pending.discard(proposal)
