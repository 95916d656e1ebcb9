"""Records of the servers, and the cluster key that all of them must have."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import RefusedError, UnavailableError
from orchgit.model.server import ServerRecord
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.servers import (
    DeleteServer,
    PutServer,
    SetClusterKeyCheck,
    SetServerStatus,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def put_server(txn: WriteTxn, command: PutServer, effects: Effects) -> ServerRecord:
    """Store a server; one with another cluster key is refused, as it could not open variables."""
    server = command.server
    _check_cluster_key(txn, server)
    known = txn.servers.get(server.address)
    stored = replace(
        server,
        create_index=known.create_index if known else txn.index,
        modify_index=txn.index,
    )
    txn.servers.put(stored)
    return stored


def _check_cluster_key(txn: WriteTxn, server: ServerRecord) -> None:
    if not server.cluster_key_check:
        return
    wanted = txn.meta.cluster_key_check()
    if not wanted:
        raise UnavailableError(
            f"cannot take in server {server.name} yet: the cluster is still being formed"
        )
    if server.cluster_key_check != wanted:
        raise RefusedError(
            f"cannot take in server {server.name} ({server.address}): its cluster key is another "
            "than the cluster's, so it could not open variables; copy the cluster key file of a "
            "server that works to this one (mode 600), name it in `server.cluster_key_file`, and "
            "start again"
        )


def delete_server(txn: WriteTxn, command: DeleteServer, effects: Effects) -> None:
    txn.servers.delete(command.address)


def set_server_status(txn: WriteTxn, command: SetServerStatus, effects: Effects) -> None:
    known = txn.servers.get(command.address)
    if known is not None:
        txn.servers.put(replace(known, status=command.status, modify_index=txn.index))


def set_cluster_key_check(txn: WriteTxn, command: SetClusterKeyCheck, effects: Effects) -> str:
    """Store the check of the first leader; returns the stored one."""
    known = txn.meta.cluster_key_check()
    if known:
        return known
    txn.meta.set("cluster_key_check", command.check)
    return command.check


HANDLERS: Handlers = {
    PutServer: put_server,
    DeleteServer: delete_server,
    SetClusterKeyCheck: set_cluster_key_check,
    SetServerStatus: set_server_status,
}
