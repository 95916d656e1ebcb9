"""Limits the HTTP connections of each client address."""

from __future__ import annotations

from collections import Counter


class HttpClients:
    """Counts the connections of each address, at most `most` of one; 0 is no limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self.refused = 0
        """Connections that were refused since the start."""

    def enter(self, address: str) -> bool:
        """Counts one more connection; returns False, and does not count it, at the limit."""
        if self._most and self._open[address] >= self._most:
            self.refused += 1
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Ends the count of a connection that is closed."""
        if self._open[address] > 1:
            self._open[address] -= 1
        else:
            del self._open[address]
