"""Calls of CSI plugins on nodes, over the streams that the nodes keep to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.wire.messages import CsiAnswer, CsiCall

CALL_TIMEOUT_S = 90.0
RELEASE = "Release"
NODE_EXPAND = "NodeExpandVolume"

_MAY_BE_DONE = ("ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
"""Codes of errors that do not say that nothing was done: the plugin, or the node, goes on with it,
or may have done it."""


class PluginRefusedError(RefusedError):
    """A plugin answered with an error; `code` is gRPC's."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class NodeCalls:
    """The nodes that can be called from this server: those with a stream to it."""

    def __init__(self) -> None:
        self._send: dict[str, Callable[[CsiCall], None]] = {}
        self._waiting: dict[int, tuple[str, asyncio.Future[CsiAnswer]]] = {}
        self._last = 0

    def attach(self, node_id: str, send: Callable[[CsiCall], None]) -> None:
        """`send` must not wait."""
        self._send[node_id] = send

    def detach(self, node_id: str, send: Callable[[CsiCall], None]) -> None:
        """The stream ended: what waits for its answers is told so."""
        if self._send.get(node_id) is not send:
            return
        del self._send[node_id]
        for waits_for, future in self._waiting.values():
            if waits_for == node_id and not future.done():
                future.set_exception(UnavailableError(f"cannot reach node {node_id} any more"))

    def answered(self, answer: CsiAnswer) -> None:
        _, future = self._waiting.get(answer.call_id, ("", None))
        if future is not None and not future.done():
            future.set_result(answer)

    async def call(
        self, node_id: str, plugin_id: str, method: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Raises PluginRefusedError with the plugin's words, UnavailableError without a stream or
        an answer."""
        send = self._send.get(node_id)
        if send is None:
            raise UnavailableError(f"cannot call CSI plugin {plugin_id}: node {node_id} is away")
        self._last += 1
        call_id = self._last
        future: asyncio.Future[CsiAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = node_id, future
        try:
            send(CsiCall(call_id, plugin_id, method, msgspec.json.encode(request)))
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await future
        except TimeoutError:
            raise UnavailableError(
                f"CSI plugin {plugin_id} on node {node_id} did not answer {method}"
            ) from None
        finally:
            del self._waiting[call_id]
        if answer.error:
            raise PluginRefusedError(answer.error, answer.code)
        reply: dict[str, Any] = msgspec.json.decode(answer.reply or b"{}")
        return reply


def is_gone(error: OrchgitError) -> bool:
    """Whether a plugin says that what is to be removed is not there."""
    return isinstance(error, PluginRefusedError) and error.code == "NOT_FOUND"


def may_be_done(error: OrchgitError) -> bool:
    """Whether what was asked for may have been done all the same."""
    if isinstance(error, PluginRefusedError):
        return error.code in _MAY_BE_DONE
    return isinstance(error, UnavailableError)
