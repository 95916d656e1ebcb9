"""The other servers of the cluster, as far as git objects concern them."""

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
    """Another server. `address` is its RPC address, "" while that is not known."""

    address: str
    name: str = ""
    votes: bool = True

    def __str__(self) -> str:
        return self.name or self.address


class Peers(Protocol):
    """Read anew each time it matters: members come and go."""

    @property
    def own_address(self) -> str:
        """The RPC address at which the others reach this server."""
        ...

    @property
    def own_name(self) -> str: ...

    def others(self) -> Sequence[Peer]:
        """All other members, the leader first."""
        ...


class NoPeers:
    """A lone server's."""

    own_address = ""
    own_name = "this server"

    def others(self) -> Sequence[Peer]:
        return ()


class PeerClient:
    """Calls to servers by address; one connection to each is kept."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        self._tls = tls
        self._channels: dict[str, Channel] = {}

    async def fetch_pack(
        self, address: str, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]:
        request = FetchPackRequest(source=source, wants=list(wants), haves=list(haves))
        frames = self._channel(address).stream(FETCH_PACK, _one(request))
        async with contextlib.aclosing(frames):
            async for frame in frames:
                yield frame

    async def hold(
        self, address: str, source: str, wants: Sequence[str], own_address: str, timeout_s: float
    ) -> None:
        request = HoldObjectsRequest(source=source, wants=list(wants), address=own_address)
        await self._channel(address).call(HOLD_OBJECTS, request, timeout_s)

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = Channel(address, self._tls)
        return self._channels[address]

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))


async def _one(request: FetchPackRequest) -> AsyncIterator[FetchPackRequest]:
    yield request
