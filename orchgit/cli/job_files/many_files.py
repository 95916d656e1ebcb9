"""Does the same work for each of many files, in several processes where that is faster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Result = TypeVar("Result")
MANY = 1_000
"""Above so many files, the work takes longer than starting the processes."""
_TOGETHER = 50
_PR_SET_PDEATHSIG = 1


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
    pool = ProcessPoolExecutor(min(processors, 8), get_context("spawn"), _end_with, (os.getpid(),))
    try:
        # A terminal interrupts all processes; the others inherit that they do not hear it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            results = pool.map(work, paths, chunksize=_TOGETHER)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for result in results:
            yield result
            done += 1
    except BrokenProcessPool:
        # One of them was killed, as for want of memory: this process is still there.
        yield from map(work, paths[done:])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with(parent_pid: int) -> None:
    """Lets this process be killed when the command ends, however it does."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)
