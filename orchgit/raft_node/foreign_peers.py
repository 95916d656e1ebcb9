"""What operators are told when a server of another cluster is met at an address of this one."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

_log = structlog.get_logger(component="raft")


class ForeignPeerReport:
    """Names each foreign peer once, in the logs of both sides; on the raft thread."""

    def __init__(self) -> None:
        self._reported: dict[str, str] = {}

    def report(self, foreign_peers: Mapping[str, str], own_log_id: str) -> None:
        """`foreign_peers`: address -> the id of its cluster's log."""
        for address, log_id in foreign_peers.items():
            if self._reported.get(address) != log_id:
                self._reported[address] = log_id
                _log.error(
                    "a server belongs to another cluster, and neither hears the other. If one of "
                    "them lost its data and formed a cluster of its own: stop it, empty its data "
                    "directory, name a server of the cluster in `server_join`, and start it again",
                    server=address,
                    its_log=log_id,
                    own_log=own_log_id,
                )
