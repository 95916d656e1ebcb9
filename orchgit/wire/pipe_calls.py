"""The methods of the internal RPC over a pipe: between a process and one that it started.

Requests and replies are the structs of `orchgit.wire.methods`, in an envelope that has the number
of the call. Both processes are of the same version. What is sent within one turn of the event loop
travels as one frame (`orchgit.wire.pipe`).
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.wire import codec
from orchgit.wire.error_detail import pack, unpack
from orchgit.wire.methods import UnaryMethod
from orchgit.wire.pipe import Pipe

Request = TypeVar("Request")
Reply = TypeVar("Reply")

_log = structlog.get_logger(component="rpc")


class Envelope(msgspec.Struct, array_like=True, gc=False):
    """`call`: a number that the caller chooses; all messages about the call have it."""

    call: int


class CallMessage(Envelope, tag="call"):
    path: str
    request: msgspec.Raw


class CancelMessage(Envelope, tag="cancel"):
    """The caller waits no longer; the reply may be on its way."""


class ReplyMessage(Envelope, tag="reply"):
    reply: msgspec.Raw


class ErrorMessage(Envelope, tag="error"):
    """Instead of a reply; `error` as `orchgit.wire.error_detail` packs it."""

    error: bytes


ToServer = CallMessage | CancelMessage
ToClient = ReplyMessage | ErrorMessage


class PipeChannel:
    """The calling end.

    `on_unwanted` gets the method and the reply of a call whose caller was canceled meanwhile.
    """

    def __init__(
        self, on_unwanted: Callable[[PipeChannel, UnaryMethod[Any, Any], Any], None] | None = None
    ) -> None:
        self._on_unwanted = on_unwanted
        self._pipe: Pipe | None = None
        self._numbers = itertools.count(1)
        self._replies: dict[int, tuple[UnaryMethod[Any, Any], asyncio.Future[Any] | None]] = {}
        """By call: its method, and where the reply goes; None where nobody waits for it."""

    async def connect(self, end: socket.socket) -> None:
        self._pipe = await Pipe.over(end, ToClient, self._receive, self._lost)

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()

    async def call(
        self, method: UnaryMethod[Request, Reply], request: Request, timeout_s: float = 0.0
    ) -> Reply:
        """Raises the error that the other end answered, UnavailableError when it is gone.

        `timeout_s` is for channels between machines: the other end of a pipe answers or is gone.
        """
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        call = self._send_call(method, request, reply)
        try:
            return await reply
        except asyncio.CancelledError:
            if self._pipe is not None and call in self._replies:
                self._replies[call] = method, None
                self._pipe.send(CancelMessage(call))
            raise

    def send(self, method: UnaryMethod[Request, Reply], request: Request) -> None:
        """A call whose reply nobody waits for."""
        self._send_call(method, request, None)

    def _send_call(
        self, method: UnaryMethod[Any, Any], request: Any, reply: asyncio.Future[Any] | None
    ) -> int:
        if self._pipe is None:
            raise UnavailableError("cannot call the server: the pipe to it is closed")
        call = next(self._numbers)
        self._pipe.send(CallMessage(call, method.path, msgspec.Raw(codec.encode(request))))
        self._replies[call] = method, reply
        return call

    def _receive(self, messages: list[ToClient]) -> None:
        for message in messages:
            method, waiting = self._replies.pop(message.call)
            if isinstance(message, ErrorMessage):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(unpack(message.error))
                continue
            reply = codec.decode(method.reply, message.reply)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply)
            elif self._on_unwanted is not None:
                self._on_unwanted(self, method, reply)

    def _lost(self) -> None:
        self._pipe = None
        replies, self._replies = self._replies, {}
        for _, waiting in replies.values():
            if waiting is not None and not waiting.done():
                waiting.set_exception(
                    UnavailableError("cannot go on: the pipe to the server is closed")
                )


class PipeServer:
    """The answering end. `on_lost` is called when the other end is gone; the handlers that still
    worked for it are canceled before."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._handlers: dict[
            str, tuple[UnaryMethod[Any, Any], Callable[[Any], Awaitable[Any]]]
        ] = {}
        self._calls: dict[int, asyncio.Task[bytes]] = {}
        self._pipe: Pipe | None = None

    def add_unary(
        self, method: UnaryMethod[Request, Reply], handler: Callable[[Request], Awaitable[Reply]]
    ) -> None:
        self._handlers[method.path] = method, handler

    async def connect(self, end: socket.socket) -> None:
        self._pipe = await Pipe.over(end, ToServer, self._receive, self._lost)

    def _receive(self, messages: list[ToServer]) -> None:
        for message in messages:
            call = message.call
            if isinstance(message, CallMessage):
                task = asyncio.create_task(self._handle(message), name=message.path)
                self._calls[call] = task
                task.add_done_callback(partial(self._answer, call))
            elif call in self._calls:
                self._calls[call].cancel()

    async def _handle(self, message: CallMessage) -> bytes:
        method, handler = self._handlers[message.path]
        return codec.encode(await handler(codec.decode(method.request, message.request)))

    def _answer(self, call: int, task: asyncio.Task[bytes]) -> None:
        del self._calls[call]
        answer: ToClient
        if task.cancelled():
            answer = ErrorMessage(call, pack(UnavailableError("cannot answer: canceled")))
        elif (error := task.exception()) is not None:
            if not isinstance(error, OrchgitError):
                _log.error("a call over a pipe failed", method=task.get_name(), exc_info=error)
            answer = ErrorMessage(call, pack(error))
        else:
            answer = ReplyMessage(call, msgspec.Raw(task.result()))
        if self._pipe is not None:
            self._pipe.send(answer)

    def _lost(self) -> None:
        self._pipe = None
        for task in self._calls.values():
            task.cancel()
        self._on_lost()
