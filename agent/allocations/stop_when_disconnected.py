"""Ends allocations that may not run on while no server is reachable.

A group's `disconnect { stop_on_client_after }` counts from the moment the last server was lost, or
from the agent's start when it never had one.
"""

from __future__ import annotations

import asyncio

from agent.allocations.node_allocations import Allocations
from agent.loops import spawn, until_done
from orchgit.clock import Clock
from orchgit.model.base import NS_PER_S
from orchgit.model.group import TaskGroup


def stop_after_ns(group: TaskGroup) -> int | None:
    """How long the group's allocations may run without a server; None: for ever."""
    if group.disconnect and group.disconnect.stop_on_client_after_ns is not None:
        return group.disconnect.stop_on_client_after_ns
    return group.stop_after_client_disconnect_ns


class DisconnectWatch:
    """Its loop runs while no server is connected."""

    def __init__(self, allocations: Allocations, clock: Clock) -> None:
        self._allocations = allocations
        self._clock = clock
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.contact_changed(connected=False)

    async def stop(self) -> None:
        self.contact_changed(connected=True)

    def contact_changed(self, connected: bool) -> None:
        if connected and self._loop is not None:
            self._loop.cancel()
            self._loop = None
        elif not connected and self._loop is None:
            work = until_done(self._end_overdue, "offline", self._clock)
            self._loop = spawn(work, "offline")

    async def _end_overdue(self) -> None:
        """Wait from limit to limit, the shortest first."""
        limits: dict[int, list[str]] = {}
        for runner in self._allocations:
            limit_ns = stop_after_ns(runner.context.group)
            if limit_ns is not None:
                limits.setdefault(limit_ns, []).append(runner.id)
        waited_ns = 0
        for limit_ns in sorted(limits):
            await self._clock.sleep((limit_ns - waited_ns) / NS_PER_S)
            waited_ns = limit_ns
            for alloc_id in limits[limit_ns]:
                if self._allocations.knows(alloc_id):
                    self._allocations.get(alloc_id).end_locally(
                        "stopped by the node: no server was reachable for stop_on_client_after"
                    )
