"""Several raft nodes in one thread, joined by a hub that carries their messages as msgpack."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from orchgit.raft import messages as raft_messages
from orchgit.raft.configuration import Configuration, ConfigurationEntry
from orchgit.raft.core import RaftConfig
from orchgit.raft.messages import Message
from orchgit.raft.ports import SnapshotRef
from orchgit.raft_log.disk import Disk
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_log.journal import Journal
from orchgit.raft_log.snapshot_files import FileSnapshots
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.node import RaftNode
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.raft_transport.transport import Receive
from orchgit.replication.snapshots import snapshot_file


class HubTransport:
    """Hands messages to the hub, which delivers them when it is told to."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self._name = name

    has_connections = False

    def start(self, receive: Receive, loop: PollLoop) -> None:
        self.receive = receive

    def set_peers(self, addresses: Collection[str]) -> None:
        """The hub knows everybody."""

    def send(self, receiver: str, message: Message) -> bool:
        self._hub.carry(self._name, receiver, message)
        return True

    def flush(self) -> None:
        """The hub has it already."""

    def tick(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """The hub goes on without it."""


class Server:
    """A node, its host, and what it was told to apply."""

    def __init__(
        self, hub: Hub, directory: Path, name: str, names: Sequence[str], disk: Disk
    ) -> None:
        self.name = name
        self._hub = hub
        self.applied: list[bytes] = []
        self.led: list[bool] = []
        self.disk = disk
        self.journal = Journal(directory / name, disk=disk)
        self.transport = HubTransport(hub, name)
        self.snapshots = FileSnapshots(
            snapshot_file(directory / name / "snapshot.db"), self.journal
        )
        self.space = DiskSpace()
        first = ConfigurationEntry(0, Configuration.of(names), logged=False)
        self.node = RaftNode(RaftConfig(name, first), self)
        self.transport.start(self.node.receive, self.node.loop)

    # -- the host of the node --------------------------------------------------------------------

    can_apply = True

    def now_s(self) -> float:
        return self._hub.now_s

    def apply(self, entries: Sequence[Committed]) -> None:
        self.applied.extend(entry.payload for entry in entries if entry.payload is not None)

    def install(self, snapshot: SnapshotRef) -> None:
        """Nothing here receives a snapshot."""

    def write_snapshot(self) -> int:
        raise NotImplementedError

    def role_changed(self, leads: bool) -> None:
        self.led.append(leads)

    def leader_changed(self) -> None:
        """Tests look by themselves."""

    def failed(self, error: BaseException) -> None:
        raise error

    # -- what tests do ---------------------------------------------------------------------------

    def stand_for_election(self) -> None:
        """As if nobody had heard of a leader for long enough, and this one noticed first."""
        self._hub.pass_time(0.5)
        self.node.core.election.deadline_s = self._hub.now_s

    def close(self) -> None:
        self.node.close()
        self.journal.close()


class Hub:
    """`settle` lets all take turns and delivers until nobody has anything to say."""

    def __init__(
        self, directory: Path, names: Sequence[str], make_disk: Callable[[], Disk] = Disk
    ) -> None:
        self.directory = directory
        self.now_s = 0.0
        self._waiting: deque[tuple[str, str, bytes]] = deque()
        self.cut_off: set[str] = set()
        self.servers = {name: Server(self, directory, name, names, make_disk()) for name in names}

    def pass_time(self, seconds: float) -> None:
        """Nobody stands for election by itself meanwhile."""
        self.now_s += seconds
        for server in self.servers.values():
            server.node.core.election.deadline_s += seconds

    def carry(self, sender: str, receiver: str, message: Message) -> None:
        self._waiting.append((sender, receiver, raft_messages.encode(message)))

    def settle(self, rounds: int = 10) -> None:
        for _ in range(rounds):
            self.now_s += 0.01
            for server in self.servers.values():
                if server.name not in self.cut_off:
                    server.node.turn()
            self.deliver()

    def deliver(self) -> None:
        """What was sent; nobody takes a turn meanwhile."""
        while self._waiting:
            self._deliver(*self._waiting.popleft())

    def _deliver(self, sender: str, receiver: str, data: bytes) -> None:
        if {sender, receiver} & self.cut_off:
            return
        self.servers[receiver].transport.receive(sender, raft_messages.decode(data))

    def leader(self) -> Server:
        (leader,) = [
            one
            for one in self.servers.values()
            if one.node.status.is_leader and one.name not in self.cut_off
        ]
        return leader

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
