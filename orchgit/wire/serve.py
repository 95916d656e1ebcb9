"""The server side: a table of implementations becomes one gRPC server.

Each implementation is an async function from a decoded request to a reply (unary), or from an
async iterator of frames to an async iterator of frames (stream). Errors are mapped in one place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
import structlog

from orchgit.errors import NotAllowedError, OrchgitError, UnavailableError
from orchgit.host_port import host_of, join_host_port
from orchgit.wire import codec, failures
from orchgit.wire.error_detail import pack
from orchgit.wire.limits import Limits
from orchgit.wire.methods import StreamMethod, UnaryMethod
from orchgit.wire.peers import PeerLimit
from orchgit.wire.tls import TlsFiles, check_plain, names_server, server_credentials

_log = structlog.get_logger(component="rpc")

Request = TypeVar("Request")
Reply = TypeVar("Reply")

UnaryImpl = Callable[[Any], Awaitable[Any]]
StreamImpl = Callable[[AsyncIterator[Any]], AsyncIterator[Any]]

SIZE_OPTIONS = [
    ("grpc.max_receive_message_length", codec.MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", codec.MAX_MESSAGE_BYTES),
]
_SERVER_OPTIONS = [
    *SIZE_OPTIONS,
    ("grpc.so_reuseport", 0),
    # A dead peer (its machine gone without a word) ends the stream within about half a minute.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    # On a busy machine pings arrive in bunches; cutting off who sent them would end long requests.
    ("grpc.http2.max_ping_strikes", 0),
]


_WITHOUT_LIMIT_S = 86400.0

Translate = Callable[[Exception], Exception]


async def _fail(
    context: grpc.aio.ServicerContext, error: Exception, path: str, translate: Translate
) -> None:
    error = translate(error)
    if not isinstance(error, OrchgitError):
        _log.error("RPC failed inside the server", method=path, exc_info=error)
    metadata = ((failures.METADATA_KEY, pack(error)),)
    await context.abort(failures.status_of(error), str(error)[:1000], metadata)


Admit = Callable[[UnaryMethod[Any, Any] | StreamMethod[Any, Any], grpc.aio.ServicerContext], None]


def _unary(
    method: UnaryMethod[Any, Any],
    impl: UnaryImpl,
    admit: Admit,
    peers: PeerLimit,
    translate: Translate,
) -> grpc.RpcMethodHandler:
    async def handle(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            admit(method, context)
            with peers.call(context.peer()):
                return codec.encode(await impl(codec.decode(method.request, data)))
        except Exception as error:  # mapped to a status, and logged where it is a bug
            await _fail(context, error, method.path, translate)
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(handle)


def _stream(
    method: StreamMethod[Any, Any],
    impl: StreamImpl,
    admit: Admit,
    peers: PeerLimit,
    translate: Translate,
) -> grpc.RpcMethodHandler:
    async def handle(
        frames: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        async def decoded() -> AsyncIterator[Any]:
            async for data in frames:
                yield codec.decode(method.request, data)

        try:
            admit(method, context)
            with peers.call(context.peer()):
                async for frame in impl(decoded()):
                    yield codec.encode(frame)
        except Exception as error:  # noqa: BLE001 - mapped to a status, logged where it is a bug
            await _fail(context, error, method.path, translate)

    return grpc.stream_stream_rpc_method_handler(handle)


class GrpcServer:
    """Serves the methods given to `add_...` before `start`. `address` is known after `start`.

    `translate` makes of an error what the peer is told. With TLS, methods that are not for agents
    take the certificate of a server of this region.
    """

    def __init__(
        self,
        bind: str,
        tls: TlsFiles | None = None,
        translate: Translate = lambda error: error,
        region: str = "global",
        limits: Limits | None = None,
    ) -> None:
        if tls is None:
            check_plain(bind)
        limits = limits or Limits()
        self._peers = PeerLimit(limits.rpc_max_conns_per_client)
        self._handshake_s = limits.rpc_handshake_timeout_s or _WITHOUT_LIMIT_S
        self._translate = translate
        self._bind = bind
        self._tls = tls
        self._region = region
        self._handlers: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
        self._server: grpc.aio.Server | None = None
        self.address = ""

    def add_unary(
        self, method: UnaryMethod[Request, Reply], impl: Callable[[Request], Awaitable[Reply]]
    ) -> None:
        self._handlers.setdefault(method.service, {})[method.name] = _unary(
            method, impl, self._admit, self._peers, self._translate
        )

    def add_stream(
        self,
        method: StreamMethod[Request, Reply],
        impl: Callable[[AsyncIterator[Request]], AsyncIterator[Reply]],
    ) -> None:
        self._handlers.setdefault(method.service, {})[method.name] = _stream(
            method, impl, self._admit, self._peers, self._translate
        )

    def _admit(
        self,
        method: UnaryMethod[Any, Any] | StreamMethod[Any, Any],
        context: grpc.aio.ServicerContext,
    ) -> None:
        """Raises NotAllowedError where the peer's certificate does not make it a server."""
        if self._tls is None or method.for_agents:
            return
        found = context.auth_context().get("x509_subject_alternative_name", ())
        if not names_server((name.decode(errors="replace") for name in found), self._region):
            raise NotAllowedError(
                f"cannot call {method.path} with this certificate: it names no server of region "
                f"{self._region}; make one with `orchgit tls cert create -server`"
            )

    async def start(self) -> None:
        handshake = ("grpc.server_handshake_timeout_ms", int(self._handshake_s * 1000))
        server = grpc.aio.server(options=[*_SERVER_OPTIONS, handshake])
        for service, handlers in self._handlers.items():
            generic = grpc.method_handlers_generic_handler(service, handlers)
            server.add_generic_rpc_handlers((generic,))
        try:
            if self._tls is None:
                port = server.add_insecure_port(self._bind)
            else:
                port = server.add_secure_port(self._bind, server_credentials(self._tls))
        except RuntimeError as error:
            raise UnavailableError(f"cannot serve RPC on {self._bind}: {error}") from None
        await server.start()
        self._server = server
        self.address = join_host_port(host_of(self._bind), port)

    async def stop(self, grace_s: float = 0.2) -> None:
        """Open calls get `grace_s` to finish; streams are then cut."""
        if self._server is not None:
            await self._server.stop(grace_s)
            self._server = None


__all__ = ["SIZE_OPTIONS", "GrpcServer", "Translate"]
