"""How much other work the machine does: limits of time are for a machine that does little else."""

from __future__ import annotations

import time

_WORK_S = 0.03
_ITS_OWN = 2.0
"""Servers and clients of the test itself leave a process half of a processor."""


def crowding() -> float:
    """By what a limit of time is to be multiplied now: 1 on a quiet machine, 3 where this process
    waits for a processor five sixths of the time."""
    began_s, spent_s = time.perf_counter(), time.thread_time()
    while time.thread_time() - spent_s < _WORK_S:
        pass
    return max(1.0, (time.perf_counter() - began_s) / _WORK_S / _ITS_OWN)
