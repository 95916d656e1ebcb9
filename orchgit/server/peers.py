"""The other servers, as the git mirrors need them: raft's members with their RPC addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchgit.gitops.peers import Peer
from orchgit.replication.replicated import ReplicatedState
from orchgit.services.server_directory import ServerDirectory


@dataclass(frozen=True, slots=True)
class ClusterPeers:
    """`Peers` of the gitops part. `members` are raft addresses, each with whether it votes."""

    state: ReplicatedState
    directory: ServerDirectory
    own: str
    members: Callable[[], Iterable[tuple[str, bool]]]

    @property
    def own_address(self) -> str:
        record = self.directory.server(self.own)
        return record.rpc_address if record is not None else ""

    @property
    def own_name(self) -> str:
        record = self.directory.server(self.own)
        return f"server {record.name if record is not None else self.own}"

    def others(self) -> Sequence[Peer]:
        leader = self.state.leader_address
        members = sorted(self.members(), key=lambda member: (member[0] != leader, member[0]))
        return [self._peer(address, votes) for address, votes in members if address != self.own]

    def _peer(self, address: str, votes: bool) -> Peer:
        record = self.directory.server(address)
        if record is None:
            return Peer("", address, votes)
        return Peer(record.rpc_address, f"server {record.name} ({record.rpc_address})", votes)
