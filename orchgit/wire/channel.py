"""The client side: calls over one connection, and calls that find the leader.

`Channel` is one connection to one address. `LeaderChannel` starts with the servers it is told of
and follows the hint in a NotLeaderError, so a caller names a method and never an address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import grpc
import grpc.aio

from orchgit.cancellation import is_canceled
from orchgit.errors import NotLeaderError, UnavailableError, UnreachableError
from orchgit.wire import codec, failures
from orchgit.wire.methods import StreamMethod, UnaryMethod
from orchgit.wire.serve import SIZE_OPTIONS
from orchgit.wire.tls import TlsFiles, channel_credentials

Request = TypeVar("Request")
Reply = TypeVar("Reply")

_CHANNEL_OPTIONS = [
    *SIZE_OPTIONS,
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A server that restarts is found again at once, not after the default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Also how long an attempt to connect may take at least: a far server answers late.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
]
_RETIRING_S = 3600.0
"""A stream of a node lasts for days, and is not cut at once for a new certificate."""
_WATCHFUL_OPTIONS = [
    *(one for one in _CHANNEL_OPTIONS if "keepalive_ti" not in one[0] and "ping" not in one[0]),
    # A peer that is silent for three seconds while it is asked something is given up.
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class Channel:
    """One connection; reconnects by itself. Errors of the peer are raised as its own class."""

    def __init__(self, address: str, tls: TlsFiles | None = None, watchful: bool = False) -> None:
        """`watchful`: a silent peer is noticed in seconds; for few connections with much to do."""
        self.address = address
        self._options = _WATCHFUL_OPTIONS if watchful else _CHANNEL_OPTIONS
        self._tls = tls
        self._retiring: set[asyncio.Task[None]] = set()
        if tls is None:
            self._current = grpc.aio.insecure_channel(address, options=self._options)
        else:
            self._version = tls.version.number
            self._current = self._secure(tls)

    def _secure(self, tls: TlsFiles) -> grpc.aio.Channel:
        credentials = channel_credentials(tls)
        return grpc.aio.secure_channel(self.address, credentials, options=self._options)

    @property
    def _channel(self) -> grpc.aio.Channel:
        """Made anew for new certificates; calls under way end on the old one."""
        tls = self._tls
        if tls is not None and tls.version.number != self._version:
            self._version = tls.version.number
            retiring = asyncio.create_task(self._current.close(_RETIRING_S), name="old channel")
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)
            self._current = self._secure(tls)
        return self._current

    async def is_ready(self, timeout_s: float) -> bool:
        """Whether there is a connection, made if need be: where there is none, nothing of a call
        has gone out."""
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True

    async def call(
        self, method: UnaryMethod[Request, Reply], request: Request, timeout_s: float = 30.0
    ) -> Reply:
        try:
            data = await self._channel.unary_unary(method.path)(
                codec.encode(request), timeout=timeout_s
            )
        except grpc.aio.AioRpcError as error:
            raise failures.from_rpc(error, self.address) from None
        reply: Reply = codec.decode(method.reply, data)
        return reply

    async def stream(
        self, method: StreamMethod[Request, Reply], frames: AsyncIterator[Request]
    ) -> AsyncGenerator[Reply]:
        """Frames of the peer, while `frames` are sent. Ends when the peer ends it; leaving the
        iteration cancels the stream."""
        call: Any = self._channel.stream_stream(method.path)()
        sending = asyncio.create_task(_send_all(call, frames), name=f"frames to {self.address}")
        try:
            async for data in call:
                yield codec.decode(method.reply, data)
        except grpc.aio.AioRpcError as error:
            raise failures.from_rpc(error, self.address) from None
        finally:
            call.cancel()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def close(self) -> None:
        for retiring in self._retiring:
            retiring.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._current.close()


async def _send_all(call: Any, frames: AsyncIterator[Any]) -> None:
    """Given to gRPC, the frames would be waited for by a task of its own that it forgets when the
    peer ends the stream: the task and the frames, both under way, are left to the collector.

    What is wrong with the stream is told to who reads it; a mistake in the frames ends the stream.
    """
    try:
        async for frame in frames:
            await call.write(codec.encode(frame))
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
    except BaseException:
        call.cancel()
        raise
    finally:
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()


class LeaderChannel:
    """Calls to whichever server leads.

    A NotLeaderError with a hint is followed at once; an unreachable server makes the next of the
    list be asked. After one round through all of them the last error is the caller's.
    """

    def __init__(self, servers: list[str], tls: TlsFiles | None = None) -> None:
        if not servers:
            raise UnavailableError("cannot call the leader: no server address is configured")
        self._servers = list(servers)
        self._tls = tls
        self._channels: dict[str, Channel] = {}
        self._current = servers[0]
        self._under_way: dict[asyncio.Task[Any], str] = {}

    def follow(self, leader: str) -> None:
        """That one leads now: calls under way to another one end with UnreachableError."""
        self._current = leader
        for task, address in self._under_way.items():
            if address != leader:
                task.cancel()

    async def call(
        self, method: UnaryMethod[Request, Reply], request: Request, timeout_s: float = 30.0
    ) -> Reply:
        for attempt in range(len(self._servers) + 1):
            address = self._current
            try:
                return await self._call(address, method, request, timeout_s)
            except UnavailableError as error:
                self._move_on(address, error)
                if attempt == len(self._servers) or not isinstance(error, NotLeaderError):
                    raise
        raise AssertionError("the loop returns or raises")

    async def _call(
        self, address: str, method: UnaryMethod[Request, Reply], request: Request, timeout_s: float
    ) -> Reply:
        task = asyncio.ensure_future(self._channel(address).call(method, request, timeout_s))
        self._under_way[task] = address
        try:
            return await task
        except asyncio.CancelledError:
            if self._current == address or is_canceled():
                raise
            raise UnreachableError(f"cannot go on with {address}: another server leads") from None
        finally:
            del self._under_way[task]
            task.cancel()

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = Channel(address, self._tls)
        return self._channels[address]

    def _move_on(self, tried: str, error: UnavailableError) -> None:
        if isinstance(error, NotLeaderError) and error.leader:
            self._current = error.leader
        elif self._current == tried:
            at = self._servers.index(tried) if tried in self._servers else -1
            self._current = self._servers[(at + 1) % len(self._servers)]

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._channels.clear()
