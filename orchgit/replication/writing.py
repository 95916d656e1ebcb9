"""How a command gets into the log, and what its caller gets back."""

from __future__ import annotations

import msgspec

from orchgit.clock import Clock
from orchgit.errors import (
    NotLeaderError,
    TimedOutError,
    TooLargeError,
    UnavailableError,
)
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.proposal import Applied, Proposal, not_leader, stopped
from orchgit.replication import commands
from orchgit.replication.cluster_calls import ClusterCalls
from orchgit.replication.commands import Command, Noop
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.versions import FIRST_VERSION, VERSION_OF, check_understood

MAX_COMMAND_BYTES = 64 << 20
"""Measured: twice as much keeps the threads busy for longer than followers wait for a leader."""


class Writing(ClusterCalls):
    """The part of `ReplicatedState` that takes writes; on its event loop."""

    _clock: Clock
    space: DiskSpace
    _failure: BaseException | None

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
        command is certain not to be in the log.
        """
        proposal = self._submit(command, forward)
        self._pending.add(proposal, timeout_s)
        in_log = True
        try:
            return await proposal.future
        except NotLeaderError:
            in_log = False
            raise
        except TimeoutError:
            lack = self.space.refusal
            raise TimedOutError(
                f"cannot tell whether {type(command).__name__} was applied: nothing came back in "
                f"{timeout_s:g} s{f' ({lack})' if lack else ''}; read the state before trying again"
            ) from None
        finally:
            self._pending.discard(proposal)
            if writes is not None and in_log:
                writes.any = True

    def _submit(self, command: Command, forward: bool) -> Proposal:
        if self._failure is not None:
            raise self._unavailable()
        if not self._started:
            raise stopped()
        may = self._node.status.is_leader or self.leadership.is_leader
        if not may and not (forward and self.leader_address is not None):
            raise not_leader(self.leader_address)
        self._check_understood(command)
        if not command.now_ns:
            command = msgspec.structs.replace(command, now_ns=self._clock.now_ns())
        data = commands.encode(command)
        if len(data) > MAX_COMMAND_BYTES:
            raise TooLargeError(
                f"cannot write {type(command).__name__}: it has {len(data)} bytes, and a log entry "
                f"holds at most {MAX_COMMAND_BYTES}"
            )
        proposal = Proposal()
        self._node.submit(data, proposal, forward)
        return proposal

    def _check_understood(self, command: Command) -> None:
        """A member of an older version would stop at an entry that it does not know."""
        if VERSION_OF[type(command)] == FIRST_VERSION:
            return
        others = [one.address for one in self.members if one.address != self.address]
        with self.store.snapshot() as snapshot:
            check_understood(command, others, snapshot.servers.all())

    async def barrier(self) -> int:
        """Returns when everything proposed before has been applied; the index reached."""
        return (await self.propose(Noop())).index

    def _unavailable(self) -> UnavailableError:
        return UnavailableError(
            f"cannot confirm writes: the log or the state of this server failed ({self._failure}); "
            "look at the disk, then restart the server"
        )
