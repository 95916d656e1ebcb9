"""Finds servers: their RPC and HTTP addresses by raft address, the leader's above all."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.clock import Clock
from orchgit.errors import NotLeaderError
from orchgit.model.cluster import ClusterName
from orchgit.model.server import ServerRecord
from orchgit.replication.replicated import ReplicatedState

_TABLES = ("servers",)
_LOOK_AGAIN_S = 0.05
"""A new leader's record may be stored later than it begins to lead."""


class ServerDirectory:
    """Reads the table of servers whenever it has changed.

    `own` returns this server's record as it is now, which the table may not have yet. Belongs to
    the event loop.
    """

    def __init__(
        self, state: ReplicatedState, clock: Clock, own: Callable[[], ServerRecord]
    ) -> None:
        self._state = state
        self._clock = clock
        self._own = own
        self._index = -1
        self._records: dict[str, ServerRecord] = {}

    @property
    def address(self) -> str:
        """This server's RPC address."""
        return self._own().rpc_address

    @property
    def term(self) -> int:
        return self._state.cluster.leader_and_term[1]

    @property
    def cluster(self) -> ClusterName:
        """The cluster's id; "" before the first leader has named the cluster."""
        with self._state.store.snapshot() as snapshot:
            return ClusterName(snapshot.meta.cluster_id() or "", snapshot.meta.log_id())

    def servers(self) -> list[ServerRecord]:
        """The known members, this server among them, in order of their raft addresses."""
        own = self._own()
        members = {one.address for one in self._state.cluster.members}
        known = [one for one in self._stored().values() if one.address in members]
        others = [one for one in known if one.address != own.address]
        return sorted([own, *others], key=lambda one: one.address)

    def server(self, raft_address: str) -> ServerRecord | None:
        own = self._own()
        return own if raft_address == own.address else self._stored().get(raft_address)

    def named(self, name: str) -> ServerRecord | None:
        """Returns the member of that id, name or NAME.REGION; "leader" means the one that leads.

        Of several with the name this server comes first.
        """
        if name == "leader":
            return self.leader()
        own = self._own()
        for one in (own, *self.servers()):
            if name in (one.id, one.name, f"{one.name}.{one.region}"):
                return one
        return None

    def leader(self) -> ServerRecord | None:
        """The leader's record; None while the leader or its record is unknown."""
        address = self._state.cluster.leader_address
        return self.server(address) if address else None

    def rpc_addresses(self) -> list[str]:
        return [one.rpc_address for one in self.servers() if one.rpc_address]

    async def wait_for_leader(
        self, timeout_s: float, other_than: str | None = None
    ) -> ServerRecord | None:
        """Returns the leader's record as soon as it is known; None when the time ends first.

        A leader whose raft address is `other_than` does not count.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            leader = self.leader()
            if leader is not None and leader.address != other_than:
                return leader
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            known = self._state.cluster.leader_address
            wait_s = _LOOK_AGAIN_S if known not in (None, other_than) else left_s
            await self._state.cluster.leader_change(known, min(wait_s, left_s))

    async def leader_after(self, term: int, timeout_s: float) -> tuple[str, int]:
        """Returns the leader's RPC address and term once the term is later than `term`.

        When the time ends first, returns what is known then: ("", term) without a leader.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            address, now = self._state.cluster.leader_and_term
            leader = self.server(address) if address else None
            left_s = deadline_s - self._clock.monotonic_s()
            if (leader is not None and leader.rpc_address and now > term) or left_s <= 0:
                return (leader.rpc_address if leader else ""), now
            unrecorded = address is not None and now > term
            wait_s = _LOOK_AGAIN_S if unrecorded else left_s
            await self._state.cluster.leader_change(address, min(wait_s, left_s))

    def translated(self, error: Exception) -> Exception:
        """Replaces the raft address in a NotLeaderError by the RPC address, for callers of RPC."""
        if not isinstance(error, NotLeaderError) or not error.leader:
            return error
        leader = self.server(error.leader)
        rpc_address = leader.rpc_address if leader else ""
        text = str(error).replace(error.leader, rpc_address or "again later")
        return NotLeaderError(text, rpc_address or None)

    def _stored(self) -> dict[str, ServerRecord]:
        index = self._state.store.watch.index(_TABLES)
        if index != self._index:
            with self._state.store.snapshot() as snapshot:
                self._records = {one.address: one for one in snapshot.servers.all()}
            self._index = index
        return self._records
