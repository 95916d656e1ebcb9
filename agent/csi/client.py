"""Calls one CSI plugin over its socket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
_PATHS = frozenset(("target_path", "staging_target_path", "volume_path"))
CALL_TIMEOUT_S = 60.0
_SHOWN_CHARACTERS = 500
_HIDDEN = "[REDACTED]"
_SECRET = re.compile(r"pass|pwd|secret|token|key|cred", re.IGNORECASE)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]*@")


class CsiError(DriverError):
    """A plugin refused; `code` is gRPC's, as `NOT_FOUND`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, recoverable=True)
        self.code = code


class CsiClient:
    """One plugin's socket. Connects when it is called, and again after a loss. A plugin in a
    container sees the node's directory `root` as `seen_root`."""

    def __init__(self, socket: Path, root: str = "", seen_root: str = "") -> None:
        self._root, self._seen_root = root, seen_root
        self._channel = grpc.aio.insecure_channel(f"unix:{quote(str(socket))}", options=_OPTIONS)

    async def call(
        self, name: str, request: Mapping[str, Any] | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> Message:
        """Raises CsiError with the plugin's own words, without the secrets of the request."""
        method = METHODS[name]
        message = dict(request or {})
        if self._seen_root:
            for field in _PATHS & message.keys():
                if message[field]:  # empty: nothing is staged
                    below = message[field].removeprefix(self._root)
                    message[field] = f"{self._seen_root}{below}"
        try:
            data = await self._channel.unary_unary(method.path)(
                encode(method.request, message), timeout=timeout_s
            )
        except grpc.aio.AioRpcError as error:
            words = without_secrets(error.details() or "", message)
            raise CsiError(
                f"{name}: {error.code().name}: {words[:_SHOWN_CHARACTERS]}", error.code().name
            ) from None
        return decode(method.reply, data)

    async def close(self) -> None:
        await self._channel.close()


def without_secrets(words: str, request: Mapping[str, Any]) -> str:
    """Returns a plugin's words without credentials in URLs, and without the secrets and passwords
    among mount options that the request gave to the plugin."""
    secrets = {value for value in (request.get("secrets") or {}).values() if value}
    wanted = request.get("volume_capabilities") or [request.get("volume_capability") or {}]
    for capability in wanted:
        for flags in (capability.get("mount") or {}).get("mount_flags") or ():
            options = (each.partition("=") for each in flags.split(","))
            secrets |= {value for name, _, value in options if value and _SECRET.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):
        words = words.replace(secret, _HIDDEN)
    return _URL_CREDENTIALS.sub(f"{_HIDDEN}@", words)
