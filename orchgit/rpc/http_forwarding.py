"""A client's request, sent to the leader or to a server by name, and answered from there.

Raises NotLeaderError where nothing of the request can have been done (no leader, no connection, a
refusal by a server that does not lead), so that the caller may try again. A write whose answer was
lost is not sent twice: its author is told that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.errors import NotLeaderError, OrchgitError, UnavailableError, UnreachableError
from orchgit.model.server import ServerRecord
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.wait_first import wait_first
from orchgit.wire.channel import Channel
from orchgit.wire.http_frames import RequestFrames, send_answer
from orchgit.wire.messages import HttpAnswer
from orchgit.wire.methods import HTTP
from orchgit.wire.tls import TlsFiles

_CONNECT_S = 1.0
_SAFE = ("GET", "HEAD")


class AnswerBrokenError(ConnectionError):
    """The leader was lost in the middle of its answer: the client's connection has to end too."""


class HttpForwarder:
    """Keeps one connection to each server that was asked while this one runs."""

    def __init__(
        self,
        directory: ServerDirectory,
        own: Callable[[], ServerRecord],
        tls: TlsFiles | None,
    ) -> None:
        self._directory = directory
        self._own = own
        self._tls = tls
        self._channels: dict[str, Channel] = {}

    async def forward(self, scope: Scope, receive: Receive, send: Send, wait_s: float) -> None:
        """Have the leader answer; wait so long for there to be one."""
        leader = await self._directory.wait_for_leader(wait_s)
        if leader is None or leader.address == self._own().address:
            raise NotLeaderError("cannot answer: no leader is known")
        channel = self._channel(leader.rpc_address)
        if not await channel.is_ready(_CONNECT_S):
            raise NotLeaderError(f"cannot answer: the leader {leader.rpc_address} is out of reach")
        await _Forwarding(scope, receive, send).run(channel, self._other_leader(leader))

    def app_of(self, name: str) -> ASGIApp | None:
        """Returns an app that has the server of that name or id answer; None where this server is
        meant, or none is known. The app raises UnavailableError for a server out of reach."""
        server = self._directory.named(name)
        if server is None or server.address == self._own().address:
            return None
        return partial(self._forward_to, server)

    async def _forward_to(
        self, server: ServerRecord, scope: Scope, receive: Receive, send: Send
    ) -> None:
        channel = self._channel(server.rpc_address)
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if not await channel.is_ready(_CONNECT_S):
                raise NotLeaderError(f"{server.rpc_address} does not answer")
            await _Forwarding(scope, receive, send).run(channel, never)
        except NotLeaderError as error:
            raise UnavailableError(
                f"cannot ask server {server.name!r}: it is out of reach ({error}); "
                f"send this to its own address ({server.http_address})"
            ) from error

    async def _other_leader(self, leader: ServerRecord) -> None:
        """Returns when another server leads."""
        while await self._directory.wait_for_leader(3600.0, other_than=leader.address) is None:
            pass

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = Channel(address, self._tls, watchful=True)
        return self._channels[address]

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(channel.close() for channel in channels.values()))


class _Forwarding:
    """One request on its way to one leader."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._is_safe = scope["method"] in _SAFE
        self._answered = False

    async def run(self, channel: Channel, other_leader: Awaitable[None]) -> None:
        """A read that was not answered yet when another server leads is asked there."""
        first = await self._receive()
        request = RequestFrames(self._scope, self._receive, first)
        relay = asyncio.create_task(self._relay(channel, first, request), name="forwarded answer")
        gone = asyncio.create_task(self._until_gone(request), name="forwarded client")
        deposed = asyncio.ensure_future(other_leader)
        try:
            await self._watch(relay, gone, deposed)
        except OrchgitError as error:
            raise self._meaning(error, channel.address) from error
        finally:
            for task in (relay, gone, deposed):
                task.cancel()
            await asyncio.gather(relay, gone, deposed, return_exceptions=True)

    async def _watch(
        self, relay: asyncio.Task[None], gone: asyncio.Task[None], deposed: asyncio.Future[None]
    ) -> None:
        watched: set[asyncio.Future[None]] = {relay, gone}
        if self._is_safe:
            watched.add(deposed)
        while not relay.done() and not gone.done():
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if deposed in watched and deposed.done() and not relay.done():
                if not self._answered:
                    raise NotLeaderError("cannot answer: another server leads now")
                watched.discard(deposed)
        if relay.done():
            relay.result()

    def _meaning(self, error: OrchgitError, address: str) -> Exception:
        """What a failed exchange is for the caller."""
        if self._answered:
            return AnswerBrokenError(f"cannot answer to the end: {error}")
        if not isinstance(error, UnreachableError):
            return error
        if self._is_safe:
            return NotLeaderError(f"cannot answer: {error}")
        return UnavailableError(
            "cannot tell whether this was done: the connection to the leader "
            f"({address}) was lost before it answered; look before trying again"
        )

    # -- up --------------------------------------------------------------------------------------

    async def _until_gone(self, frames: RequestFrames) -> None:
        """Returns when the client is gone. Only one reads its messages at a time."""
        async with wait_first(frames.body_ended.wait(), frames.gone.wait()):
            pass
        while not frames.gone.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                return

    # -- down ------------------------------------------------------------------------------------

    async def _relay(self, channel: Channel, first: Message, request: RequestFrames) -> None:
        if first["type"] == "http.disconnect":
            return
        async with aclosing(channel.stream(HTTP, aiter(request))) as frames:
            async for frame in frames:
                self._answered = self._answered or isinstance(frame, HttpAnswer)
                await send_answer(self._send, frame)
        if not self._answered:
            raise UnreachableError("cannot answer: the leader ended the exchange without an answer")
