"""A server of the cluster, as its record is replicated."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class ServerState(StrEnum):
    ALIVE = "alive"
    FAILED = "failed"


class ServerRecord(Model):
    """A server writes its own record whenever a field of it changes.

    `address` is its Raft address, by which the members of the log know it.
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
    """The newest version of commands that the server understands."""
    cluster_key_check: str = ""
    """Tells whether the server has the cluster key, without revealing the key."""
    status: str = ServerState.ALIVE
    """The leader's opinion; the server itself always writes that it is alive."""
    create_index: int = 0
    modify_index: int = 0
