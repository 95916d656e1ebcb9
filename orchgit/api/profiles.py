"""Profiles of this process, made with what Python knows about itself."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any

_SAMPLE_GAP_S = 0.01
_MAX_TASKS = 1000
_MAX_TYPES = 200


def cpu(seconds: int) -> str:
    """Samples the stacks of all threads; returns a line per stack, `outer;...;inner count`, as
    flame graph programs read them."""
    counts: Counter[str] = Counter()
    own, end_s = threading.get_ident(), time.monotonic() + seconds
    pause = threading.Event()
    while time.monotonic() < end_s:
        for thread_id, frame in sys._current_frames().items():
            if thread_id != own:
                counts[";".join(_frames(frame))] += 1
        pause.wait(_SAMPLE_GAP_S)
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def _frames(frame: FrameType | None) -> list[str]:
    names = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{code.co_filename.rpartition('/')[2]}:{code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def heap(seconds: int) -> str:
    """Counts the objects that the garbage collector tracks, by their types; most first."""
    counts = Counter(type(each).__qualname__ for each in gc.get_objects())
    return "".join(f"{count} {name}\n" for name, count in counts.most_common(_MAX_TYPES))


def threads(seconds: int) -> str:
    """Names the threads."""
    return "".join(f"{each.ident} {each.name}\n" for each in threading.enumerate())


def stacks(tasks: Collection[asyncio.Task[Any]]) -> str:
    """Returns where every thread and every task of the event loop stands. Called on the loop."""
    names = {each.ident: each.name for each in threading.enumerate()}
    parts = [
        f"thread {names.get(thread_id, thread_id)}\n{''.join(traceback.format_stack(frame))}"
        for thread_id, frame in sys._current_frames().items()
    ]
    for task in list(tasks)[:_MAX_TASKS]:
        lines = [line for frame in task.get_stack() for line in traceback.format_stack(frame, 1)]
        parts.append(f"task {task.get_name()}\n{''.join(lines)}")
    return "\n".join(parts)


MADE: Mapping[str, Callable[[int], str]] = {"profile": cpu, "heap": heap, "threadcreate": threads}
ONLY_GO = frozenset(("allocs", "block", "mutex", "trace", "symbol"))
OF_LOOP = ("cmdline", "goroutine")
ALL = frozenset((*MADE, *OF_LOOP, *ONLY_GO))
