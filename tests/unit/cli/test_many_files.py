"""Work on many files by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal

from orchgit.cli.job_files.many_files import MANY, for_each


def _named(path: str) -> str:
    """One of the processes is killed in the middle."""
    if path == f"{MANY // 2}" and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"did {path}"


def test_work_of_a_killed_process_is_done_by_another() -> None:
    paths = [str(number) for number in range(MANY)]
    assert list(for_each(_named, paths)) == [f"did {path}" for path in paths]
