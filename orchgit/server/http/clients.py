"""How many connections of HTTP each client has; by the address that it comes from."""

from __future__ import annotations

from collections import Counter


class HttpClients:
    """Counts the connections of each address. `most`: of one address; 0: any number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count one more connection; False, and not counted, if the address has all it may have."""
        if self._most and self._open[address] >= self._most:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that was counted is closed."""
        if self._open[address] > 1:
            self._open[address] -= 1
        else:
            del self._open[address]
