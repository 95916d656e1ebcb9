"""The cluster that a node belongs to: the first that it meets, for as long as it keeps its data.

A server that lost its disk and began a cluster of its own may still be in the list of an agent. It
knows none of the node's allocations, and an agent that took it for its cluster would stop them all.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from orchgit.errors import RefusedError
from orchgit.model.cluster import ClusterName

_log = structlog.get_logger(component="agent")


class Belonging:
    """`keep` is called with what has to be known again after a restart."""

    def __init__(
        self,
        known: ClusterName = ClusterName(),  # noqa: B008 - frozen
        keep: Callable[[ClusterName], None] = lambda name: None,
    ) -> None:
        self.known = known
        self._keep = keep
        self._told: set[tuple[str, ClusterName]] = set()

    def admit(self, address: str, name: ClusterName) -> None:
        """A server that says of which cluster it is. RefusedError, and told once, if it is not this
        node's; else what was not known yet is learnt."""
        if not self.known.may_be(name):
            self._tell(address, name)
            raise RefusedError(f"cannot use the server {address}: it is of another cluster")
        if name.cluster_id and name != self.known:
            self.known = name
            self._keep(name)

    def is_ours(self, name: ClusterName) -> bool:
        return self.known.may_be(name)

    def _tell(self, address: str, name: ClusterName) -> None:
        if (address, name) in self._told:
            return
        self._told.add((address, name))
        _log.error(
            "this server is of another cluster; it is left alone, and the tasks here go on",
            server=address,
            its_cluster=name.cluster_id,
            own_cluster=self.known.cluster_id,
            remedy="if it lost its data and began a cluster of its own: empty its data directory, "
            "name a server of the cluster in its server_join, start it again. If this node is to "
            "be moved to it: drain it, stop the agent, delete client/ of the data directory",
        )
