"""How the steps before allocations and tasks start end, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from orchgit.clock import Clock
from orchgit.metrics.durations import MeasuredTimes


@dataclass(slots=True)
class HookCounts:
    succeeded: int = 0
    failed: int = 0
    elapsed: MeasuredTimes = field(default_factory=MeasuredTimes)


@dataclass(slots=True)
class HookTimes:
    """The hooks of this agent's allocations and of their tasks, by name."""

    of_allocs: dict[str, HookCounts] = field(default_factory=dict)
    of_tasks: dict[str, HookCounts] = field(default_factory=dict)


@contextmanager
def measured(known: dict[str, HookCounts], name: str, clock: Clock) -> Iterator[None]:
    """Counts one run of the hook. A run that is canceled is not counted: it neither succeeded nor
    failed."""
    counts = known.setdefault(name, HookCounts())
    began_s = clock.monotonic_s()
    try:
        yield
    except Exception:
        counts.failed += 1
        raise
    counts.succeeded += 1
    counts.elapsed.observe(clock.monotonic_s() - began_s)
