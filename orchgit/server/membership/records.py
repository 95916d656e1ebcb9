"""Keeps this server's record in the state as it is, so that the others find its addresses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

import structlog
from msgspec.structs import replace

from orchgit import __version__
from orchgit.errors import InvalidInputError, OrchgitError, RefusedError
from orchgit.model.server import ServerRecord
from orchgit.replication.commands import PutServer, SetClusterKeyCheck
from orchgit.replication.replicated import ReplicatedState
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.server.config import ServerConfig

_log = structlog.get_logger(component="server")

_RETRY_S = 0.2
_JOIN_LOOK_S = 1.0
_LOOK_AGAIN_S = 300.0
_CHECK_LABEL = b"orchgit cluster key check"


def own_record(config: ServerConfig, server_id: str, name: str, key: bytes) -> ServerRecord:
    """Without the addresses that are known only when they are bound."""
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
    """The same for the same key; tells nothing else of it, so it may be in the state."""
    return hmac.new(key, _CHECK_LABEL, hashlib.sha256).hexdigest()


class RecordKeeper:
    """`run` for as long as the server runs. It ends only with the error that makes this server
    unfit for its cluster: another cluster key than the others have."""

    def __init__(self, state: ReplicatedState, record: ServerRecord) -> None:
        self._state = state
        self.record = record

    def check_key(self) -> None:
        """Raises InvalidInputError if the state of this server says that its key is another one:
        it was exchanged while the server was stopped."""
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
            if not self._state.has_configuration or self._state.is_removed:
                await asyncio.sleep(_JOIN_LOOK_S)
                continue
            try:
                await self._store()
            except RefusedError:
                raise
            except OrchgitError as error:
                _log.debug("this server's record is not stored yet", error=str(error))
                await asyncio.sleep(_RETRY_S)

    async def _store(self) -> None:
        if self._state.is_leader:
            await self._state.propose(SetClusterKeyCheck(check=self.record.cluster_key_check))
        await self._state.propose(PutServer(server=self.record), forward=True)

    def _stored_at(self) -> int | None:
        """The index at which the record was found to be stored as it is; None if it is not."""
        with self._state.store.snapshot() as snapshot:
            stored = snapshot.servers.get(self.record.address)
            index = snapshot.index
        if stored is None:
            return None
        own = self.record
        same = own == replace(stored, create_index=0, modify_index=0, status=own.status)
        return index if same else None
