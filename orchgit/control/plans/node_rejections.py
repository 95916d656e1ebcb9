"""Finds nodes whose plans are rejected again and again, which means that the node is at fault.
Pure.

A rejection is normal when two workers plan at once; many for one node within minutes mean that the
schedulers' picture of it does not fit the applier's, and every further plan for it is wasted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class RejectionLimits:
    """When a node counts as faulty. Nodes are marked ineligible only if `enabled`; rejections count
    either way."""

    enabled: bool = False
    threshold: int = 100
    window_s: float = 300.0
    marks_per_window: int = 5


class NodeRejections:
    """Counts rejections per node; times are monotonic seconds of the caller."""

    def __init__(self, limits: RejectionLimits) -> None:
        self._limits = limits
        self._rejected: dict[str, deque[float]] = {}
        self._marked: deque[float] = deque()

    def add(self, node_id: str, now_s: float) -> bool:
        """Counts one rejection; returns whether the node should be marked ineligible now."""
        times = self._rejected.setdefault(node_id, deque(maxlen=self._limits.threshold))
        times.append(now_s)
        _drop_before(times, now_s - self._limits.window_s)
        _drop_before(self._marked, now_s - self._limits.window_s)
        if not self._limits.enabled or len(times) < self._limits.threshold:
            return False
        if len(self._marked) >= self._limits.marks_per_window:
            return False
        del self._rejected[node_id]
        self._marked.append(now_s)
        return True


def _drop_before(times: deque[float], oldest_s: float) -> None:
    while times and times[0] < oldest_s:
        times.popleft()
