"""The certificate authorities that the machine trusts, read once for many connections.

Reading them takes 15 ms of computing time: too long for each connection, and for an event loop.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

READ_AGAIN_S = 3_600.0
"""Authorities that are installed or removed count after this time."""


class MachineAuthorities:
    """Makes the context of connections that check a server's certificate by the machine's
    authorities. Belongs to one event loop."""

    def __init__(
        self,
        read: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` is called on a thread."""
        self._read = read
        self._monotonic_s = monotonic_s
        self._readings: dict[str, _Reading] = {}

    async def context(self, protocol: str = "") -> ssl.SSLContext:
        """Returns a context that connections share; callers do not change it. They offer the
        server `protocol` (ALPN), if one is given. Raises OSError where the files cannot be read."""
        reading, now_s = self._readings.get(protocol), self._monotonic_s()
        if reading is None or now_s - reading.since_s >= READ_AGAIN_S:
            made = asyncio.ensure_future(asyncio.to_thread(self._make, protocol))
            reading = self._readings[protocol] = _Reading(made, now_s)
        # The others who wait for the same files do not end with this caller.
        try:
            return await asyncio.shield(reading.context)
        except OSError:
            self._readings.pop(protocol, None)
            raise

    def _make(self, protocol: str) -> ssl.SSLContext:
        context = self._read()
        if protocol:
            context.set_alpn_protocols([protocol])
        return context


@dataclass(frozen=True, slots=True)
class _Reading:
    context: asyncio.Future[ssl.SSLContext]
    since_s: float
