"""Whether what clients saw of one register can be explained by one order of their operations.

Every written value is written once, so the check is exact and fast (Gibbons and Korach, "Testing
shared memories", 1997): the operations on one value (its write and the reads that saw it) must
happen together. From the first of them to end to the last of them to begin the register had that
value, without a break; two such spans must not overlap, and operations on another value, if they
are all concurrent, must not have to fit inside of one.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Operation:
    """Times are unique. `ended` None: nobody knows whether (and when) it happened."""

    is_write: bool
    value: int
    began: float
    ended: float | None = None


INITIAL = 0


def explain(history: Iterable[Operation]) -> str | None:
    """None if the history is linearizable, else what is wrong with it."""
    clusters: dict[int, list[Operation]] = defaultdict(list)
    clusters[INITIAL].append(Operation(True, INITIAL, -2.0, -1.0))
    for operation in history:
        if operation.is_write or operation.ended is not None:
            clusters[operation.value].append(operation)
    spans: list[tuple[float, float, int]] = []
    points: list[tuple[float, float, int]] = []
    for value, operations in clusters.items():
        writes = [one for one in operations if one.is_write]
        if len(writes) != 1:
            return f"{value} was read, but written {len(writes)} times"
        if all(one.ended is None for one in operations):
            continue
        first_end = min(math.inf if one.ended is None else one.ended for one in operations)
        last_begin = max(one.began for one in operations)
        if first_end < writes[0].began:
            return f"{value} was read before it was written"
        zone = min(first_end, last_begin), max(first_end, last_begin), value
        (spans if first_end < last_begin else points).append(zone)
    return _overlap(sorted(spans)) or _inside(sorted(spans), points)


def _overlap(spans: list[tuple[float, float, int]]) -> str | None:
    for (_, end, value), (begin, _, other) in itertools.pairwise(spans):
        if begin < end:
            return f"{value} was still there when {other} was already there (or lost and back)"
    return None


def _inside(
    spans: list[tuple[float, float, int]], points: list[tuple[float, float, int]]
) -> str | None:
    """Spans are in order and do not overlap: only the last that began before can be around."""
    for begin, end, value in points:
        at = bisect.bisect_left(spans, (begin,)) - 1
        if at >= 0 and end < spans[at][1]:
            return f"{value} happened while {spans[at][2]} was there without a break"
    return None
