"""Waits until the other servers have applied what this one has.

A follower hears that an entry is committed a moment after the leader. If the leader died in
between, a follower would answer `stale` reads by rights that were taken away already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from orchgit.errors import OrchgitError
from orchgit.model.server import ServerRecord
from orchgit.raft.configuration import PeerProgress
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.wire.channel import Channel
from orchgit.wire.messages import AppliedRequest
from orchgit.wire.methods import APPLIED
from orchgit.wire.tls import TlsFiles

_log = structlog.get_logger(component="server")

WAIT_S = 1.0
_IN_TOUCH_S = 0.5
"""A server that the leader has not heard of for longer is not waited for."""


class AppliedEverywhere:
    """Keeps one connection to each other server. Belongs to the event loop.

    `progress` returns what this server, if it leads, knows of the others.
    """

    def __init__(
        self,
        directory: ServerDirectory,
        own: Callable[[], ServerRecord],
        progress: Callable[[], tuple[PeerProgress, ...]],
        tls: TlsFiles | None,
    ) -> None:
        self._directory = directory
        self._own = own
        self._progress = progress
        self._tls = tls
        self._channels: dict[str, Channel] = {}

    async def wait(self, index: int) -> None:
        """Returns when every server in touch has applied the log up to `index`, at the latest after
        `WAIT_S`."""
        own = self._own().address
        heard_s = {one.address: one.last_contact_s for one in self._progress()}
        asked = [
            self._ask(one.rpc_address, index)
            for one in self._directory.servers()
            if one.address != own and heard_s.get(one.address, 0.0) <= _IN_TOUCH_S
        ]
        await asyncio.gather(*asked)

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))

    async def _ask(self, address: str, index: int) -> None:
        if address not in self._channels:
            self._channels[address] = Channel(address, self._tls)
        channel = self._channels[address]
        request = AppliedRequest(index=index, timeout_s=WAIT_S)
        try:
            async with asyncio.timeout(WAIT_S):
                if await channel.is_ready(WAIT_S):  # a server may just have come back
                    await channel.call(APPLIED, request, WAIT_S)
        except (OrchgitError, TimeoutError) as error:
            _log.debug("a server may not have applied it", server=address, error=str(error))
