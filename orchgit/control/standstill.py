"""Waits that notice when this process stood still: stopped, paused with its machine, or without a
processor. What others said in that time was not heard, so their silence counts for nothing."""

from __future__ import annotations

from orchgit.clock import Clock
from orchgit.control.wakeup import Wakeup

_LONGEST_WAIT_S = 2.5
"""A standstill is noticed by a wait that lasts longer than it should."""
_STANDSTILL_S = 1.0
"""Lateness up to this is a busy event loop."""


async def wait_and_measure(changed: Wakeup, clock: Clock, timeout_s: float | None) -> float:
    """Returns when set, or after `timeout_s` (None: only when set), or sooner; returns for how long
    the process may have stood still meanwhile, 0 where it did not."""
    if timeout_s is None:
        await changed.wait(None)
        return 0.0
    wanted_s = min(max(0.0, timeout_s), _LONGEST_WAIT_S)
    from_s = clock.monotonic_s()
    await changed.wait(wanted_s)
    passed_s = clock.monotonic_s() - from_s
    return passed_s if passed_s - wanted_s >= _STANDSTILL_S else 0.0
