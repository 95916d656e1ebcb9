"""The cluster of a node: the first one that the node meets, for as long as it keeps its data.

A server that lost its disk and began a cluster of its own may still be in an agent's list of
servers. That server knows none of the node's allocations, and an agent that took it for its own
cluster would stop them all.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from orchgit.errors import RefusedError
from orchgit.model.cluster import ClusterName

_log = structlog.get_logger(component="agent")


class ClusterMembership:
    """`store` is called with a name that must be known again after a restart."""

    def __init__(
        self,
        known: ClusterName = ClusterName(),  # noqa: B008 - frozen
        store: Callable[[ClusterName], None] = lambda name: None,
    ) -> None:
        self.known = known
        self._store = store
        self._logged: set[tuple[str, ClusterName]] = set()

    def admit(self, address: str, name: ClusterName) -> None:
        """Accept the server at `address`, which says that it is of cluster `name`, and learn what
        was not known yet. Raises RefusedError, and logs it once, for another cluster's server."""
        if not self.known.may_be(name):
            self._log_refusal(address, name)
            raise RefusedError(f"cannot use the server {address}: it is of another cluster")
        if name.cluster_id and name != self.known:
            self.known = name
            self._store(name)

    def is_ours(self, name: ClusterName) -> bool:
        return self.known.may_be(name)

    def _log_refusal(self, address: str, name: ClusterName) -> None:
        if (address, name) in self._logged:
            return
        self._logged.add((address, name))
        _log.error(
            "this server is of another cluster: it is not used, and the tasks of this node run on",
            server=address,
            its_cluster=name.cluster_id,
            own_cluster=self.known.cluster_id,
            remedy="if it lost its data and began a cluster of its own: empty its data directory, "
            "name a server of the cluster in its server_join, start it again. If this node is to "
            "be moved to it: drain it, stop the agent, delete client/ of the data directory",
        )
