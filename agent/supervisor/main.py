"""Start the supervisor: `python -I -S main.py launch DIRECTORY READY_FD`.

Two steps in two images of this program. `launch` needs ctypes for one system call (subreaper, so
that orphans of tasks come to us) and detaches from the agent: own session, own process group, no
terminal. It then executes itself again as `serve`, so that none of that stays in memory.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

_PR_SET_CHILD_SUBREAPER = 36


def launch(directory: str, ready_fd: int) -> None:
    """Detach, then become `serve`. The starter sees its own child end at once."""
    import ctypes  # only in this step: it would double what the supervisor adds to Python

    os.setsid()
    if os.fork():
        os._exit(0)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(ready_fd, True)
    argv = [sys.executable, "-I", "-S", __file__, "serve", directory, str(ready_fd)]
    os.execv(sys.executable, argv)  # noqa: S606 -- no shell: our own program, our own arguments


def serve(directory: str, ready_fd: int) -> None:
    """Run the supervisor of `directory`; if there is one already, only say so."""
    import fcntl  # not needed by `launch`

    os.set_inheritable(ready_fd, False)
    os.chdir(directory)
    _take_output()
    lock_fd = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(ready_fd, b"taken")
        return
    _serve_locked(directory, ready_fd)


def _serve_locked(directory: str, ready_fd: int) -> None:
    import _signal  # type: ignore[import-not-found]

    from agent.supervisor.daemon import Daemon  # not needed by `launch`

    _make_room()
    daemon = Daemon(directory)
    daemon.loop.stop_on_signal(_signal.SIGTERM)
    for number in (_signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)

    def ready() -> None:
        os.write(ready_fd, b"ready")
        os.close(ready_fd)

    daemon.run(ready)


def _make_room() -> None:
    """Five descriptors per task are too many for the usual soft limit; tasks get theirs back.

    The kernel should kill a task rather than this process, where that may be set.
    """
    import resource

    from agent.supervisor import children

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    children.TASK_LIMITS["open_files"] = (soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.umask(0o022)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-900")
    except PermissionError:
        return


def _take_output() -> None:
    """Write errors to a file next to the journal; keep none of the agent's files open."""
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open("supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


if __name__ == "__main__":
    {"launch": launch, "serve": serve}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
