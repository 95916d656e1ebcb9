"""A transport that coalesces small writes: one system call and one packet for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AT_ONCE_BYTES = 1 << 16
"""Larger writes gain nothing by waiting, and the transport has to see them for its
back-pressure.
"""


class CoalescingTransport(asyncio.Transport):
    """Wraps a transport: what is written in one turn of the event loop becomes one write.

    uvicorn writes an answer's head and its body separately, and uvloop sends each write at once.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []
        self._held_bytes = 0

    def write(self, data: Any) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(bytes(data))
        self._held_bytes += len(data)
        if self._held_bytes > _AT_ONCE_BYTES:
            self._flush()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def _flush(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        # The other side may have gone since: uvloop's transport would raise, and nobody is there
        # to hear it.
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    # -- as the other one does -----------------------------------------------------------------

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_write_buffer_size(self) -> int:
        return self._held_bytes + self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)
