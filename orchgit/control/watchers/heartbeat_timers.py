"""Pure timers that decide which nodes are overdue and how often nodes send heartbeats.

With many nodes the interval grows so that all together send no more than a set rate; each gets a
random share on top, so that nodes that started together do not stay together.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True)
class HeartbeatLimits:
    """Limits in seconds: `grace_s` is how late a heartbeat may be, `failover_s` the time that every
    node gets under a new leader."""

    min_ttl_s: float = 10.0
    grace_s: float = 10.0
    max_per_s: float = 50.0
    failover_s: float = 60.0


class HeartbeatTimers:
    """Holds one heartbeat deadline per node, in monotonic seconds of the caller."""

    def __init__(self, limits: HeartbeatLimits) -> None:
        self._limits = limits
        self._deadlines: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def beat(self, node_id: str, now_s: float, jitter: float) -> float:
        """Restarts the node's timer and returns the seconds until its next heartbeat. `jitter` is
        in [0, 1)."""
        count = len(self._deadlines) + (node_id not in self._deadlines)
        ttl_s = self._base_s(count) * (1.0 + jitter)
        self._arm(node_id, now_s + ttl_s + self._limits.grace_s)
        return ttl_s

    def expect(self, node_id: str, now_s: float) -> None:
        """Starts the timer of a node known from an earlier leadership: it gets `failover_s` to find
        the new leader."""
        self._arm(node_id, now_s + self._limits.failover_s)

    def stood_still(self, stood_s: float, now_s: float) -> None:
        """Leaves out a time in which no heartbeat was heard. Every node gets as long again to find
        a server, at most a fresh TTL; so a node that is gone is noticed even if the server stands
        still again and again."""
        fresh_s = self._base_s(len(self._deadlines)) + self._limits.grace_s
        earliest_s = now_s + min(stood_s, fresh_s)
        for node_id, deadline_s in list(self._deadlines.items()):
            self._arm(node_id, max(deadline_s + stood_s, earliest_s))

    def look_again(self, node_id: str, at_s: float) -> None:
        """Makes a node overdue again at `at_s`, after a failure to mark it, unless it sent a
        heartbeat since."""
        if node_id not in self._deadlines:
            self._arm(node_id, at_s)

    def forget(self, node_id: str) -> None:
        self._deadlines.pop(node_id, None)

    def overdue(self, now_s: float, limit: int | None = None) -> list[str]:
        """Returns nodes whose deadline passed, at most `limit`, and removes their deadlines."""
        found: list[str] = []
        while (next_s := self.next_s()) is not None and next_s <= now_s and len(found) != limit:
            node_id = heapq.heappop(self._heap)[1]
            del self._deadlines[node_id]
            found.append(node_id)
        return found

    def next_s(self) -> float | None:
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _base_s(self, count: int) -> float:
        return max(self._limits.min_ttl_s, count / self._limits.max_per_s)

    def _arm(self, node_id: str, deadline_s: float) -> None:
        self._deadlines[node_id] = deadline_s
        heapq.heappush(self._heap, (deadline_s, node_id))
