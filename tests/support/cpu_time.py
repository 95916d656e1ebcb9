"""How much processor time a piece of work takes by itself, whatever else the machine does."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def least_cpu_s(work: Callable[[], object], tries: int = 5, enough_s: float = 0.0) -> float:
    """The shortest of several tries; no more once one took at most `enough_s`. The collector
    rests meanwhile: what it costs depends on all the objects of the test process."""
    best = float("inf")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(tries):
            began_s = time.process_time()
            work()
            best = min(best, time.process_time() - began_s)
            if best <= enough_s:
                break
    finally:
        if was_enabled:
            gc.enable()
    return best
