"""Python's garbage collector, set for servers and schedulers: much stays, much is short-lived."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_NEW_OBJECTS = 20_000
"""Between two looks at the young ones; a plan for a thousand allocations makes about as many, in
no cycle: at Python's 700 a scheduler looked every ten small plans, for nothing."""


def settle_collector() -> None:
    """What is loaded by now stays for good and need not be looked at again. Once per process,
    when it has started; what starting left over is given back."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
