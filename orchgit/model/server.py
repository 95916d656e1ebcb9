"""A server of the cluster, as every server knows it."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class ServerState(StrEnum):
    ALIVE = "alive"
    FAILED = "failed"


class ServerRecord(Model):
    """Written by the server itself whenever something of it is different.

    `address` is its raft address, the name by which the log's members know it.
    """

    address: str
    id: str = ""
    name: str = ""
    region: str = ""
    datacenter: str = ""
    rpc_address: str = ""
    http_address: str = ""
    build: str = ""
    command_version: int = 1
    """The newest kind of log entries that it understands."""
    cluster_key_check: str = ""
    """Tells whether its cluster key is the cluster's, and nothing else of it."""
    status: str = ServerState.ALIVE
    """As the leader sees it; the server itself always says that it is alive."""
    create_index: int = 0
    modify_index: int = 0
