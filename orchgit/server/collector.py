"""Python's garbage collector, set for a server: much that stays, many short-lived objects."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 20_000
"""Between two looks at the young ones; a plan for a thousand allocations makes about as many."""


def settle_collector() -> None:
    """What is loaded by now stays for good and need not be looked at again. Once per process,
    when it has started."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
