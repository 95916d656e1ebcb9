"""Does the same work for each of many files, in several processes where that is faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Result = TypeVar("Result")
MANY = 1_000
"""Above so many files, the work takes longer than starting the processes."""
_TOGETHER = 50


def for_each(work: Callable[[str], Result], paths: Sequence[str]) -> Iterator[Result]:
    """Returns the results in order.

    `work` and its results travel between processes, so it is a function of a module, or a partial
    of one; standard input stays in this process.
    """
    processors = len(os.sched_getaffinity(0))
    if len(paths) < MANY or processors < 2 or "-" in paths:
        yield from map(work, paths)
        return
    # Few commands have so many files; the others do not pay for these imports.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    done = 0
    try:
        with ProcessPoolExecutor(min(processors, 8), get_context("spawn")) as pool:
            for result in pool.map(work, paths, chunksize=_TOGETHER):
                yield result
                done += 1
    except BrokenProcessPool:
        # One of them was killed, as for want of memory: this process is still there.
        yield from map(work, paths[done:])
