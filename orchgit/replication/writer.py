"""How a command gets into the log, and what its caller gets back."""

from __future__ import annotations

import msgspec

from orchgit.clock import Clock
from orchgit.errors import (
    NotLeaderError,
    TimedOutError,
    TooLargeError,
)
from orchgit.model.author import Author
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.proposal import Applied, Proposal, not_leader
from orchgit.replication.cluster import Cluster
from orchgit.replication.commands import codec
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.entry import AuthoredEntry, Entry, Noop
from orchgit.replication.pending_proposals import PendingProposals
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.running_node import RunningNode
from orchgit.replication.versions import (
    FIRST_VERSION,
    check_understood,
    understands,
)
from orchgit.replication.write_failure import WriteFailure
from orchgit.state.store import Store
from orchgit.state.tables_cache import TablesCache

MAX_COMMAND_BYTES = 64 << 20
"""Measured: twice as much keeps the threads busy for longer than followers wait for a leader."""


class Writer:
    """Appends commands to the log through this server's raft node. Belongs to the event loop."""

    def __init__(
        self,
        node: RunningNode,
        cluster: Cluster,
        store: Store,
        clock: Clock,
        pending: PendingProposals,
        failure: WriteFailure,
        space: DiskSpace,
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._store = store
        self._clock = clock
        self._pending = pending
        self._failure = failure
        self._space = space
        self._servers = TablesCache(("servers",), lambda snapshot: snapshot.servers.all())

    async def propose(
        self,
        command: Command,
        timeout_s: float = 30.0,
        forward: bool = False,
        writes: RequestWrites | None = None,
    ) -> Applied:
        """Append a command to the log; returns when this server has applied it.

        Raises what its handler refused it with (ConflictError, NotFoundError, ...), NotLeaderError
        if another server must be asked, TimedOutError if the outcome is unknown after `timeout_s`.
        A command without a time gets the clock's. `forward`: a follower has the leader append it;
        not for what was decided on the belief that this server leads. `writes` is set unless the
        command is certain not to be in the log. Its author is recorded with what the command
        changes, once every member understands that.
        """
        proposal = self._submit(command, forward, writes.author if writes is not None else None)
        self._pending.add(proposal, timeout_s)
        in_log = True
        try:
            return await proposal.future
        except NotLeaderError:
            in_log = False
            raise
        except TimeoutError:
            lack = self._space.refusal
            raise TimedOutError(
                f"cannot tell whether {type(command).__name__} was applied: nothing came back in "
                f"{timeout_s:g} s{f' ({lack})' if lack else ''}; read the state before trying again"
            ) from None
        finally:
            self._pending.discard(proposal)
            if writes is not None and in_log:
                writes.any = True

    def _submit(self, command: Command, forward: bool, author: Author | None) -> Proposal:
        self._failure.check()
        node = self._node.get()
        if not self._cluster.may_append:
            leader = self._cluster.leader_address
            if not forward or leader is None:
                raise not_leader(leader)
        self._check_understood(command)
        if not command.now_ns:
            command = msgspec.structs.replace(command, now_ns=self._clock.now_ns())
        data = codec.encode(command)
        if author is not None and self._is_understood(AuthoredEntry):
            data = codec.encode(AuthoredEntry(now_ns=command.now_ns, author=author, entry=data))
        if len(data) > MAX_COMMAND_BYTES:
            raise TooLargeError(
                f"cannot write {type(command).__name__}: it has {len(data)} bytes, and a log entry "
                f"holds at most {MAX_COMMAND_BYTES}"
            )
        proposal = Proposal()
        node.submit(data, proposal, forward)
        return proposal

    def _is_understood(self, kind: type[Entry]) -> bool:
        servers = self._servers.get(self._store)
        return understands(kind, self._cluster.other_addresses, servers)

    def _check_understood(self, command: Command) -> None:
        """A member of an older version would stop at an entry that it does not know."""
        if command.since == FIRST_VERSION:
            return
        check_understood(command, self._cluster.other_addresses, self._servers.get(self._store))

    async def barrier(self) -> int:
        """Returns when everything proposed before has been applied; the index reached."""
        return (await self.propose(Noop())).index
