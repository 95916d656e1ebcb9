"""An event loop whose time passes only while it would wait for a timer: no test waits for real."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class _SteppingSelector(selectors.DefaultSelector):
    """Moves its time by what it would have waited."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        if timeout is None:
            return super().select()
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at 0 s; timers fire at once, in the order of their times."""

    def __init__(self) -> None:
        self._stepping = _SteppingSelector()
        super().__init__(self._stepping)

    def time(self) -> float:
        return self._stepping.now_s
