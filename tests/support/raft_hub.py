"""Several raft nodes in one thread, joined by a hub that carries their messages as msgpack."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchgit.replication.applier import Committed
from orchgit.replication.journal import Journal
from orchgit.replication.raft_node import RaftNode
from orchgit.replication.transport import HeldTransport, Member


class HubTransport(HeldTransport):
    """Hands messages to the hub, which delivers them when it is told to."""

    def __init__(self, hub: Hub, member: Member, peers: Sequence[Member]) -> None:
        super().__init__(peers)
        self._hub = hub
        self._member = member

    def deliver(self, node: Member, message: dict[str, object]) -> None:
        self._hub.carry(self._member, node, message)


class Server:
    """A node, its journal, and what it was told to apply."""

    def __init__(self, hub: Hub, directory: Path, name: str, others: Sequence[str]) -> None:
        self.name = name
        self.applied: list[bytes] = []
        self.led: list[bool] = []
        self.journal = Journal(directory / name)
        self.transport = HubTransport(hub, Member(name), [Member(other) for other in others])
        self.node = RaftNode(
            *(Member(name), self.journal, self.transport, 0, self._take),
            has_room=lambda: True,
            on_role=self.led.append,
        )

    def _take(self, entries: Sequence[Committed]) -> None:
        self.applied.extend(entry.payload for entry in entries if entry.payload is not None)

    def stand_for_election(self) -> None:
        """As if it had heard of no leader for long enough."""
        self.node._SyncObj__raftElectionDeadline = 0.0

    def heartbeat(self) -> None:
        """A leader tells its followers how far they may apply."""
        self.node._SyncObj__newAppendEntriesTime = 0.0

    def close(self) -> None:
        self.node.close()
        self.journal.close()


class Hub:
    """`settle` lets all take turns and delivers until nobody has anything to say."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self._waiting: deque[tuple[Member, str, bytes]] = deque()
        self.cut_off: set[str] = set()
        self.servers = {
            name: Server(self, directory, name, [one for one in names if one != name])
            for name in names
        }
        for one in self.servers.values():
            for other in one.transport.peers:
                one.transport._onNodeConnected(other)

    def carry(self, sender: Member, receiver: Member, message: dict[str, object]) -> None:
        self._waiting.append((sender, receiver.id, msgspec.msgpack.encode(message)))

    def settle(self, rounds: int = 10) -> None:
        for _ in range(rounds):
            for server in self.servers.values():
                if server.name not in self.cut_off:
                    server.heartbeat()
                    server.node.turn()
            while self._waiting:
                self._deliver(*self._waiting.popleft())

    def _deliver(self, sender: Member, receiver: str, data: bytes) -> None:
        if {sender.id, receiver} & self.cut_off:
            return
        server = self.servers[receiver]
        server.transport._onMessageReceived(sender, msgspec.msgpack.decode(data))

    def leader(self) -> Server:
        (leader,) = [
            one
            for one in self.servers.values()
            if one.node.is_raft_leader and one.name not in self.cut_off
        ]
        return leader

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
