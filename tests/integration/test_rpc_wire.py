"""The internal RPC over real sockets: errors, limits, TLS, and finding the leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from orchgit import errors
from orchgit.wire import codec, methods
from orchgit.wire.channel import Channel, LeaderChannel
from orchgit.wire.limits import Limits
from orchgit.wire.messages import (
    AgentFrame,
    AgentHeartbeat,
    DequeueReply,
    DequeueRequest,
    HeartbeatAck,
    ServerFrame,
)
from orchgit.wire.serve import GrpcServer
from orchgit.wire.tls import TlsFiles
from tests.support.certificates import Authority, make_tls_files

Impl = Callable[[DequeueRequest], Any]


async def answer(request: DequeueRequest) -> DequeueReply:
    return DequeueReply(token=",".join(request.types), wait_index=7)


async def echo(frames: AsyncIterator[AgentFrame]) -> AsyncIterator[ServerFrame]:
    async for frame in frames:
        assert isinstance(frame, AgentHeartbeat)
        yield HeartbeatAck(servers=[frame.status])


def raising(error: Exception) -> Impl:
    async def impl(request: DequeueRequest) -> DequeueReply:
        raise error

    return impl


async def serve(
    impl: Impl, tls: TlsFiles | None = None, limits: Limits | None = None
) -> GrpcServer:
    server = GrpcServer("127.0.0.1:0", tls, limits=limits)
    server.add_unary(methods.DEQUEUE, impl)
    server.add_stream(methods.CONNECT_NODE, echo)
    await server.start()
    return server


async def call(impl: Impl, request: DequeueRequest) -> DequeueReply:
    server = await serve(impl)
    channel = Channel(server.address)
    try:
        return await channel.call(methods.DEQUEUE, request, 5.0)
    finally:
        await channel.close()
        await server.stop()


def test_call_returns_the_reply() -> None:
    reply = asyncio.run(call(answer, DequeueRequest(types=["batch", "service"])))
    assert (reply.token, reply.wait_index, reply.evaluation) == ("batch,service", 7, None)


@pytest.mark.parametrize(
    "error",
    [
        errors.ConflictError("cannot do it: it changed"),
        errors.NotFoundError("cannot find it"),
        errors.NotAllowedError("cannot let you"),
        errors.RefusedError("cannot do that"),
        errors.TooLargeError("cannot take that much"),
        errors.UnavailableError("cannot now"),
        errors.TimedOutError("cannot wait longer"),
        errors.ValidationError("cannot use the job", ["one", "two"]),
        errors.NotLeaderError("cannot: not the leader", "10.0.0.1:4647"),
        errors.DriverError("cannot start", recoverable=True),
        errors.SourceError("cannot read", "demo"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_arrives_with_its_class_and_data(error: errors.OrchgitError) -> None:
    with pytest.raises(type(error)) as caught:
        asyncio.run(call(raising(error), DequeueRequest()))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)


def test_unexpected_server_error_reveals_only_its_type() -> None:
    with pytest.raises(errors.RefusedError) as caught:
        asyncio.run(call(raising(ZeroDivisionError("secret")), DequeueRequest()))
    assert "ZeroDivisionError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_message_beyond_the_limit_is_not_sent() -> None:
    with pytest.raises(errors.TooLargeError):
        codec.encode("x" * (codec.MAX_MESSAGE_BYTES + 1))


def test_malformed_message_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError):
        codec.decode(DequeueRequest, b"\xc1")


def test_unreachable_server_raises_unavailable() -> None:
    async def run() -> None:
        channel = Channel("127.0.0.1:1")
        with pytest.raises(errors.UnavailableError):
            await channel.call(methods.DEQUEUE, DequeueRequest(), 1.0)
        await channel.close()

    asyncio.run(run())


def test_client_finds_the_leader_by_the_hint() -> None:
    async def run() -> None:
        leader = await serve(answer)
        other = await serve(raising(errors.NotLeaderError("cannot: ask it", leader.address)))
        channel = LeaderChannel([other.address])
        assert (await channel.call(methods.DEQUEUE, DequeueRequest())).wait_index == 7
        await channel.close()
        await leader.stop()
        await other.stop()

    asyncio.run(run())


def test_client_tries_the_next_server_after_an_unreachable_one() -> None:
    async def run() -> None:
        leader = await serve(answer)
        channel = LeaderChannel(["127.0.0.1:1", leader.address])
        with pytest.raises(errors.UnavailableError):
            await channel.call(methods.DEQUEUE, DequeueRequest(), 1.0)
        assert (await channel.call(methods.DEQUEUE, DequeueRequest())).wait_index == 7
        await channel.close()
        await leader.stop()

    asyncio.run(run())


async def _beats(count: int) -> AsyncIterator[AgentFrame]:
    for number in range(count):
        yield AgentHeartbeat(status=str(number))


def test_stream_answers_each_frame_and_ends_with_its_sender() -> None:
    async def run() -> list[str]:
        server = await serve(answer)
        channel = Channel(server.address)
        frames = channel.stream(methods.CONNECT_NODE, _beats(3))
        said = [frame.servers[0] async for frame in frames if isinstance(frame, HeartbeatAck)]
        await channel.close()
        await server.stop()
        return said

    assert asyncio.run(run()) == ["0", "1", "2"]


async def _until_closed(closed: asyncio.Event) -> AsyncIterator[AgentFrame]:
    """One frame, then none until it is closed."""
    try:
        yield AgentHeartbeat(status="ready")
        await asyncio.Event().wait()
    finally:
        closed.set()


@pytest.mark.parametrize("cut", [False, True], ids=["left", "cut off"])
def test_ended_stream_leaves_no_running_task(cut: bool) -> None:
    """Whoever ends it: else the frames are found by the collector while a task runs in them."""

    async def run() -> set[str]:
        server = await serve(answer)
        channel = Channel(server.address)
        closed = asyncio.Event()
        frames = channel.stream(methods.CONNECT_NODE, _until_closed(closed))
        await anext(frames)
        if cut:
            await server.stop(0)
            with pytest.raises(errors.UnavailableError):
                await anext(frames)
        else:
            await frames.aclose()
        assert closed.is_set()
        left = {task.get_name() for task in asyncio.all_tasks() if "frames to" in task.get_name()}
        await channel.close()
        await server.stop()
        return left

    assert asyncio.run(run()) == set()


def test_tls_server_serves_only_certificates_of_its_authority(tmp_path: Path) -> None:
    async def run() -> None:
        ours, strangers = make_tls_files(tmp_path / "a"), make_tls_files(tmp_path / "b")
        server = await serve(answer, ours)
        good, bad, plain = (
            Channel(server.address, ours),
            Channel(server.address, strangers),
            Channel(server.address),
        )
        assert (await good.call(methods.DEQUEUE, DequeueRequest(), 5.0)).wait_index == 7
        for channel in (bad, plain):
            with pytest.raises(errors.UnavailableError):
                await channel.call(methods.DEQUEUE, DequeueRequest(), 1.0)
        for channel in (good, bad, plain):
            await channel.close()
        await server.stop()

    asyncio.run(run())


def test_agent_certificate_may_call_agent_methods_only(tmp_path: Path) -> None:
    async def beats() -> AsyncIterator[AgentFrame]:
        yield AgentHeartbeat(status="ready")

    async def run() -> None:
        authority = Authority(tmp_path)
        server = await serve(answer, authority.issue(tmp_path / "server", "127.0.0.1"))
        agent = authority.issue(tmp_path / "agent", "127.0.0.1", role="client")
        elsewhere = authority.issue(tmp_path / "far", "127.0.0.1", role="server.far")
        for files in (agent, elsewhere):
            channel = Channel(server.address, files)
            said = [frame async for frame in channel.stream(methods.CONNECT_NODE, beats())]
            assert said == [HeartbeatAck(servers=["ready"])]
            with pytest.raises(errors.NotAllowedError, match="cert create -server"):
                await channel.call(methods.DEQUEUE, DequeueRequest(), 5.0)
            await channel.close()
        await server.stop()

    asyncio.run(run())


def test_server_without_tls_serves_only_loopback() -> None:
    with pytest.raises(errors.InvalidInputError, match="TLS"):
        GrpcServer("0.0.0.0:0")


def test_rpc_connections_of_one_address_beyond_the_limit_are_refused() -> None:
    async def run() -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: DequeueRequest) -> DequeueReply:
            waiting.set()
            await go_on.wait()
            return await answer(request)

        server = await serve(slow, limits=Limits(rpc_max_conns_per_client=1))
        first, second = Channel(server.address), Channel(server.address)
        began = asyncio.create_task(first.call(methods.DEQUEUE, DequeueRequest(), 20.0))
        await waiting.wait()
        same = asyncio.create_task(first.call(methods.DEQUEUE, DequeueRequest(), 20.0))
        with pytest.raises(errors.UnavailableError, match="rpc_max_conns_per_client"):
            await second.call(methods.DEQUEUE, DequeueRequest(), 20.0)
        go_on.set()
        await asyncio.gather(began, same)
        await second.call(methods.DEQUEUE, DequeueRequest(), 20.0)
        for channel in (first, second):
            await channel.close()
        await server.stop()

    asyncio.run(run())


def test_rpc_connection_without_a_timely_handshake_is_closed() -> None:
    async def run() -> None:
        server = await serve(answer, limits=Limits(rpc_handshake_timeout_s=0.2))
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(20):
            while await reader.read(1024):
                pass
        writer.close()
        await server.stop()

    asyncio.run(run())
