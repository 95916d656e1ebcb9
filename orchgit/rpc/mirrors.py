"""What servers ask each other about git objects."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Protocol

from orchgit.errors import InvalidInputError
from orchgit.wire import methods
from orchgit.wire.messages import Empty, FetchPackRequest, HoldObjectsRequest, PackFrame
from orchgit.wire.serve import GrpcServer


class MirrorPort(Protocol):
    """A server's mirrors (`orchgit.gitops.mirrors.synchronizer.MirrorSynchronizer`)."""

    def pack(
        self, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]: ...

    async def hold(self, source: str, wants: Sequence[str], address: str) -> None: ...


class MirrorServicer:
    """Answered by every server, whether or not it leads."""

    def __init__(self, mirrors: MirrorPort) -> None:
        self._mirrors = mirrors

    def register(self, server: GrpcServer) -> None:
        server.add_stream(methods.FETCH_PACK, self.fetch_pack)
        server.add_unary(methods.HOLD_OBJECTS, self.hold_objects)

    async def fetch_pack(
        self, requests: AsyncIterator[FetchPackRequest]
    ) -> AsyncIterator[PackFrame]:
        request = await anext(requests, None)
        if request is None:
            raise InvalidInputError("cannot send a pack: nothing was asked for")
        frames = self._mirrors.pack(request.source, request.wants, request.haves)
        async with contextlib.aclosing(frames):
            async for frame in frames:
                yield frame

    async def hold_objects(self, request: HoldObjectsRequest) -> Empty:
        await self._mirrors.hold(request.source, request.wants, request.address)
        return Empty()
