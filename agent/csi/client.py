"""Calls one CSI plugin over its socket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from agent.csi.messages import METHODS
from agent.csi.protobuf import Message, decode, encode
from orchgit.errors import DriverError

_MAX_REPLY_BYTES = 4 << 20
_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_REPLY_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "localhost"),
]
CALL_TIMEOUT_S = 60.0


class CsiError(DriverError):
    """A plugin refused; `code` is gRPC's, as `NOT_FOUND`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, recoverable=True)
        self.code = code


class CsiClient:
    """One plugin's socket. Connects when it is called, and again after a loss."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)

    async def call(
        self, name: str, request: Mapping[str, Any] | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> Message:
        """Raises CsiError with the plugin's own words."""
        method = METHODS[name]
        try:
            data = await self._channel.unary_unary(method.path)(
                encode(method.request, request or {}), timeout=timeout_s
            )
        except grpc.aio.AioRpcError as error:
            words = error.details() or ""
            raise CsiError(
                f"{name}: {error.code().name}: {words[:500]}", error.code().name
            ) from None
        return decode(method.reply, data)

    async def close(self) -> None:
        await self._channel.close()
