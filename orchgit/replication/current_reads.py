"""Reads that must be current: the read index of the Raft dissertation, section 6.4."""

from __future__ import annotations

import asyncio
import contextlib

from orchgit.errors import TimedOutError
from orchgit.raft_node.proposal import not_leader
from orchgit.replication.cluster import Cluster
from orchgit.replication.running_node import RunningNode
from orchgit.state.watch import Watch


class CurrentReads:
    """Belongs to the event loop. `offset` is what an index of the state is ahead of the log's."""

    def __init__(self, node: RunningNode, cluster: Cluster, watch: Watch, offset: int) -> None:
        self._node = node
        self._cluster = cluster
        self._watch = watch
        self.offset = offset

    async def read_index(self, timeout_s: float = 5.0) -> int:
        """Returns when this server is known to lead still and has applied all that was acknowledged
        before the call: a snapshot taken now is current. Raises NotLeaderError on a follower, and
        TimedOutError while the state lags behind the log."""
        index: int | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                index = await self._node.ask(lambda node, answer: node.read(answer))
        if index is None:
            raise not_leader(self._cluster.leader_address)
        while True:
            # A restored snapshot moves the offset while this waits.
            offset = self.offset
            if not await self._watch.wait_applied(index + offset, timeout_s):
                raise TimedOutError(
                    f"cannot read the current state: entry {index} of the log is not applied after "
                    f"{timeout_s:g} s; try again, or read what this server has (stale)"
                )
            if offset == self.offset:
                return index + offset
