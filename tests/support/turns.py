"""A deterministic scheduler of tasks: who goes on next is chosen, not left to chance.

Tasks call `turn` wherever others may come in between. When all of them wait, one is chosen and
goes on to its next `turn`; the same choices give the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

_SETTLE = 25
"""Rounds of the event loop in which a task that was let on reaches its next turn or its end."""


class Turns:
    """`choose(labels)` picks the index of the one to go on."""

    def __init__(self, choose: Callable[[Sequence[str]], int]) -> None:
        self._choose = choose
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self.history: list[str] = []

    async def turn(self, label: str) -> None:
        """Wait to be chosen."""
        go: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((label, go))
        await go

    async def run(self) -> None:
        """Let them on one by one until nobody waits for a turn any more."""
        await self._settle()
        while self._waiting:
            label, go = self._waiting.pop(self._choose([label for label, _ in self._waiting]))
            self.history.append(label)
            if not go.done():
                go.set_result(None)
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(_SETTLE):
            await asyncio.sleep(0)
