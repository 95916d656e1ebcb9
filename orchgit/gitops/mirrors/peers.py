"""The other servers of the cluster, and the calls by which servers exchange git objects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.wire.channel import Channel
from orchgit.wire.messages import FetchPackRequest, HoldObjectsRequest, PackFrame
from orchgit.wire.methods import FETCH_PACK, HOLD_OBJECTS
from orchgit.wire.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Peer:
    """Another server. `address` is its RPC address, or '' while that is not known."""

    address: str
    name: str = ""
    votes: bool = True

    def __str__(self) -> str:
        return self.name or self.address


class Peers(Protocol):
    """The members of the cluster, read anew at each use."""

    @property
    def own_address(self) -> str:
        """The RPC address at which the other servers reach this one."""
        ...

    @property
    def own_name(self) -> str:
        """This server's name in errors."""
        ...

    def others(self) -> Sequence[Peer]:
        """Returns all other members, the leader first."""
        ...


class NoPeers:
    """`Peers` of a lone server."""

    own_address = ""
    own_name = "this server"

    def others(self) -> Sequence[Peer]:
        return ()


class PeerClient:
    """Calls servers by address, over one connection to each."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        self._tls = tls
        self._channels: dict[str, Channel] = {}

    async def fetch_pack(
        self, address: str, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]:
        """Yields what the server's `PackExchange.pack` answers."""

        async def requests() -> AsyncIterator[FetchPackRequest]:
            yield FetchPackRequest(source=source, wants=list(wants), haves=list(haves))

        frames = self._channel(address).stream(FETCH_PACK, requests())
        async with contextlib.aclosing(frames):
            async for frame in frames:
                yield frame

    async def hold(
        self, address: str, source: str, wants: Sequence[str], own_address: str, timeout_s: float
    ) -> None:
        """Asks the server to store objects that this server has; returns when it has them."""
        request = HoldObjectsRequest(source=source, wants=list(wants), address=own_address)
        await self._channel(address).call(HOLD_OBJECTS, request, timeout_s)

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = Channel(address, self._tls)
        return self._channels[address]

    async def close(self) -> None:
        """Closes all connections."""
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))
