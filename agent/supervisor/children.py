"""Starts one process: forks, sets it up, and holds it at a gate until its pid is on disk.

The gate is what makes a start happen at most once: the child waits for a byte before it executes
anything, and the supervisor sends it only after the journal holds the pid. A supervisor that dies
first closes the gate, and the child leaves without having run the task's program.
"""

from __future__ import annotations

import os
import resource

from agent.supervisor import cgroup_files
from agent.supervisor.records import as_dict, as_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` imports enum, a tenth of this process

Spec = dict[str, object]

SETUP_FAILED = 127
_CLONE_NEWNET = 0x40000000

TASK_LIMITS: dict[str, tuple[int, int]] = {}
"""The limits that the supervisor had at its start, before it changed its own."""


class TaskProcess:
    """A process held at the gate; `status_fd` reports why it could not become the program."""

    __slots__ = ("_gate_fd", "pid", "status_fd")

    def __init__(self, pid: int, status_fd: int, gate_fd: int) -> None:
        self.pid = pid
        self.status_fd = status_fd
        self._gate_fd = gate_fd

    def abandon(self) -> None:
        """Close the gate: the child ends without having run anything."""
        os.close(self._gate_fd)
        os.close(self.status_fd)

    def release(self) -> None:
        """Let the child run; one that has failed already has written why to `status_fd`."""
        try:
            os.write(self._gate_fd, b"1")
        except BrokenPipeError:
            return
        finally:
            os.close(self._gate_fd)


def spawn(spec: Spec, output_fds: tuple[int, int]) -> TaskProcess:
    """Fork a child for `spec` with these file descriptors as stdout and stderr."""
    status_read, status_write = os.pipe()
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_write)
        _become(spec, output_fds, gate_read, status_write)
    os.close(status_write)
    os.close(gate_read)
    return TaskProcess(pid, status_read, gate_write)


def _become(spec: Spec, output_fds: tuple[int, int], gate_fd: int, status_fd: int) -> None:
    """In the child: never returns. What goes wrong is written to `status_fd` before leaving."""
    step = "prepare the process"
    try:
        os.setsid()
        group = spec.get("group")
        if isinstance(group, dict):
            step = "join the control group"
            cgroup_files.join(group)
        if os.read(gate_fd, 1) != b"1":
            os._exit(SETUP_FAILED)
        step = "set up its input and output"
        _set_oom_score(spec)
        _take_stdio(output_fds)
        if spec.get("network_namespace"):
            step = f"join the network namespace {spec['network_namespace']}"
            _join_network(str(spec["network_namespace"]))
        step = f"change to its directory {spec['cwd']}"
        os.chdir(str(spec["cwd"]))
        step = "change to its user"
        _take_user(spec)
        argv = [str(item) for item in as_list(spec["argv"])]
        step = f"execute {argv[0]}"
        _reset_limits()
        env = {str(name): str(value) for name, value in as_dict(spec.get("env")).items()}
        os.execve(argv[0], argv, env)  # noqa: S606 -- never through a shell
    except BaseException as error:  # noqa: BLE001 -- a forked child must not run on
        reason = error.strerror if isinstance(error, OSError) else repr(error)
        os.write(status_fd, f"cannot {step}: {reason}".encode("utf-8", "replace"))
    os._exit(SETUP_FAILED)


def _take_stdio(output_fds: tuple[int, int]) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for target, fd in zip((1, 2), output_fds, strict=True):
        os.dup2(fd, target)
    os.umask(0o022)


def _set_oom_score(spec: Spec) -> None:
    """The kernel may spare the supervisor when memory runs out; it does not spare the tasks."""
    wanted = spec.get("oom_score_adj") or 0
    with open("/proc/self/oom_score_adj", "r+") as file:
        if int(file.read()) < 0 or wanted:
            file.write(str(wanted))


def _join_network(path: str) -> None:
    import ctypes  # in the child, which is about to become another program: no cost here

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _take_user(spec: Spec) -> None:
    uid, gid, groups = spec.get("uid"), spec.get("gid"), spec.get("groups")
    if not isinstance(uid, int) or not isinstance(gid, int):
        return
    if os.geteuid() == 0:
        os.setgroups([int(str(group)) for group in as_list(groups)])
        os.setgid(gid)
        os.setuid(uid)
    elif uid != os.geteuid():
        raise PermissionError(1, "only a supervisor that runs as root can change the user")


def _reset_limits() -> None:
    """Undo what the supervisor has set for itself and an exec would keep: the limit of open files,
    and ignored signals (Python ignores SIGPIPE)."""
    if "open_files" in TASK_LIMITS:
        resource.setrlimit(resource.RLIMIT_NOFILE, TASK_LIMITS["open_files"])
    for number in range(1, 32):
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
