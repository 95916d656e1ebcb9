"""What a server is told about replication, validated once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.host_port import is_loopback, is_wildcard, split_host_port
from orchgit.raft.state import Timing
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.journal import SEGMENT_BYTES
from orchgit.wire.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """`bind` is where this member listens, `advertise` what the others call it (the same, if
    empty). Port 0: nobody can reach it, so it stays alone.

    `bootstrap`: a data directory that knows of no members starts with this one and `peers`, which
    all of them are given alike. Without, it waits until a leader takes it in, or for `bootstrap()`.
    What the members agreed on later counts, whatever is configured here. Members on more than one
    machine need `tls`. `needs_admission`: while it has nothing it does not even hear a leader
    before `admit()`, as it may have been a member and have lost its disk.

    A snapshot of the store is made when the log has grown by `snapshot_log_bytes`; the log lies in
    files of about `segment_bytes`.
    """

    data_dir: Path
    server_id: str
    bind: str = "127.0.0.1:0"
    peers: tuple[str, ...] = ()
    snapshot_log_bytes: int = 128 << 20
    segment_bytes: int = SEGMENT_BYTES
    cluster: str = "global"
    tls: TlsFiles | None = None
    timing: Timing = field(default_factory=Timing)
    advertise: str = ""
    bootstrap: bool = True
    needs_admission: bool = False
    disk: Disk = DISK

    @property
    def address(self) -> str:
        """This member's name."""
        return self.advertise or self.bind

    @property
    def listens(self) -> bool:
        """Whether others can be members too. Without certificates anyone on the network could
        write, so then only this machine is listened to."""
        is_near = is_loopback(self.bind) and is_loopback(self.address)
        return 0 not in self._ports and (self.tls is not None or is_near)

    @property
    def _ports(self) -> tuple[int, int]:
        return split_host_port(self.bind)[1], split_host_port(self.address)[1]

    @property
    def _needs_others(self) -> bool:
        return bool(self.peers) or not self.bootstrap

    def validate(self) -> None:
        if not self.server_id:
            raise InvalidInputError("cannot start replication: `server_id` is empty")
        ports = [*self._ports, *(split_host_port(one)[1] for one in self.peers)]
        if self._needs_others and 0 in ports:
            raise InvalidInputError(
                "cannot start replication: members must know each other's port; give one for each"
            )
        if self.address in self.peers or len(set(self.peers)) != len(self.peers):
            raise InvalidInputError(
                f"cannot start replication: `peers` {list(self.peers)} must name each other member "
                f"once, and not this one ({self.address})"
            )
        if self.listens and is_wildcard(self.address):
            raise InvalidInputError(
                f"cannot start replication: nobody can reach a member called {self.address}; give "
                "the address by which the other servers reach this one (`advertise`)"
            )
        if self._needs_others and self.tls is None:
            self._refuse_network()

    def _refuse_network(self) -> None:
        far = [one for one in (self.bind, self.address, *self.peers) if not is_loopback(one)]
        if far:
            raise RefusedError(
                f"cannot start replication with {', '.join(dict.fromkeys(far))} without "
                "certificates: anyone there could write; configure `tls`, or use addresses of "
                "this machine only"
            )
