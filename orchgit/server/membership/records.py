"""Keeps this server's record in the state up to date, so that the others find its addresses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

import structlog
from msgspec.structs import replace

from orchgit import __version__
from orchgit.errors import InvalidInputError, OrchgitError, RefusedError
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.servers import PutServer, SetClusterKeyCheck
from orchgit.replication.replicated import ReplicatedState
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.server.config import ServerConfig

_log = structlog.get_logger(component="server")

_RETRY_S = 0.2
_JOIN_LOOK_S = 1.0
_LOOK_AGAIN_S = 300.0
_CHECK_LABEL = b"orchgit cluster key check"


def own_record(config: ServerConfig, server_id: str, name: str, key: bytes) -> ServerRecord:
    """Returns the record without the addresses that are known only when they are bound."""
    return ServerRecord(
        address=config.raft_address,
        id=server_id,
        name=name,
        region=config.region,
        datacenter=config.datacenter,
        build=__version__,
        command_version=COMMAND_VERSION,
        cluster_key_check=cluster_key_check(key),
    )


def cluster_key_check(key: bytes) -> str:
    """Returns a text that is equal for equal keys and reveals nothing of the key."""
    return hmac.new(key, _CHECK_LABEL, hashlib.sha256).hexdigest()


class RecordKeeper:
    """Stores the record for as long as the server runs.

    `run` ends only with the error that makes this server unfit for its cluster: another cluster key
    than the others have.
    """

    def __init__(self, state: ReplicatedState, record: ServerRecord) -> None:
        self._state = state
        self.record = record

    def check_key(self) -> None:
        """Raises InvalidInputError if the state was written with another cluster key: the key was
        exchanged while the server was stopped."""
        with self._state.store.snapshot() as snapshot:
            wanted = snapshot.meta.cluster_key_check()
        if wanted and wanted != self.record.cluster_key_check:
            raise InvalidInputError(
                f"cannot start server {self.record.name}: its cluster key is another than the one "
                "this cluster was made with, and could not open its variables; put the right file "
                "back (a copy is on every other server) or name it in `server.cluster_key_file`"
            )

    async def run(self) -> None:
        while True:
            seen = self._stored_at()
            if seen is not None:
                await self._state.store.watch.wait(("servers",), seen, _LOOK_AGAIN_S)
                continue
            if not self._state.cluster.has_configuration or self._state.cluster.is_removed:
                await asyncio.sleep(_JOIN_LOOK_S)
                continue
            try:
                if self._state.cluster.is_leader:
                    check = self.record.cluster_key_check
                    await self._state.propose(SetClusterKeyCheck(check=check))
                await self._state.propose(PutServer(server=self.record), forward=True)
            except RefusedError:
                raise
            except OrchgitError as error:
                _log.debug("this server's record is not stored yet", error=str(error))
                await asyncio.sleep(_RETRY_S)

    def _stored_at(self) -> int | None:
        """Returns the index at which the record was found unchanged; None if it has to be
        stored."""
        with self._state.store.snapshot() as snapshot:
            stored = snapshot.servers.get(self.record.address)
            index = snapshot.index
        if stored is None:
            return None
        own = self.record
        same = own == replace(stored, create_index=0, modify_index=0, status=own.status)
        return index if same else None
