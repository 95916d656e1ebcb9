"""The same work for each of many files, by several processes where that is sooner done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Result = TypeVar("Result")
MANY = 1_000
"""So many files take longer than the processes need to start."""
_TOGETHER = 50


def for_each(work: Callable[[str], Result], paths: Sequence[str]) -> Iterator[Result]:
    """The results in order. `work` and what it gives travel between processes, so it is a function
    of a module, or a partial of one; standard input stays here."""
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
