"""The other servers as the git mirrors need them: the members with their RPC addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchgit.gitops.mirrors.peers import Peer
from orchgit.model.server import ServerRecord
from orchgit.raft.configuration import Member
from orchgit.replication.replicated import ReplicatedState
from orchgit.services.cluster.server_directory import ServerDirectory


@dataclass(frozen=True, slots=True)
class ClusterPeers:
    """The `Peers` of gitops."""

    state: ReplicatedState
    directory: ServerDirectory
    own: Callable[[], ServerRecord]

    @property
    def own_address(self) -> str:
        return self.own().rpc_address

    @property
    def own_name(self) -> str:
        return f"server {self.own().name}"

    def others(self) -> Sequence[Peer]:
        cluster = self.state.cluster
        leader, own = cluster.leader_address, cluster.address
        members = sorted(cluster.members, key=lambda one: (one.address != leader, one.address))
        return [self._peer(member) for member in members if member.address != own]

    def _peer(self, member: Member) -> Peer:
        record = self.directory.server(member.address)
        if record is None:
            return Peer("", f"server {member.address}", member.voter)
        name = f"server {record.name} ({record.rpc_address})"
        return Peer(record.rpc_address, name, member.voter)
