"""One task: from its start, or its being found again, to its exit.

    held at the gate -> launching -> running -> exited

`launching` is the time until the program is executed, or until a container runtime has written the
pid of what it started. The record of a task (in the journal) has everything needed to find it
again except its environment, which may hold secrets and never touches the disk.
"""

from __future__ import annotations

import os
import time

from agent.supervisor import cgroup_files, children, proc
from agent.supervisor.output import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable

    from agent.supervisor.journal import Journal, Record
    from agent.supervisor.loop import Loop
else:
    import _signal  # `signal` imports enum, a tenth of this process

_SIGNAL_BASE = 128  # the exit code of a process ended by a signal, as shells report it
_WHOLE_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP: Linux 6.9 and later
_ERROR_LOG_BYTES = 2000
_UNREAPED_WAIT_S = 0.5
_GROUP_RETRY_S = 0.2
_GROUP_RETRIES = 25


class StartError(Exception):
    """The task's program could not be started; nothing of it runs."""


class Task:
    def __init__(self, loop: Loop, journal: Journal, directory: str, record: Record) -> None:
        self._loop = loop
        self._journal = journal
        self.record = record
        self.key = str(record["key"])
        self.state = str(record["state"])
        self._spec = _dict(record["spec"])
        self._group = _dict(self._spec.get("group"))
        self._pidfd = -1
        self._child: children.Child | None = None
        self._reported = b""
        self._waiting: list[Callable[[str], None]] = []
        self._kill_later = 0
        base = os.path.join(directory, f"pipe.{record['number']}")
        streams = self._spec.get("streams")
        self._streams = [
            Stream(loop, f"{base}.{index}", _dict(stream))
            for index, stream in enumerate(streams if isinstance(streams, list) else ())
        ]
        self.on_exit: Callable[[Task], None] = lambda _task: None
        self.on_failed_start: Callable[[Task], None] = lambda _task: None

    @property
    def pid(self) -> int:
        return _int(self.record.get("pid"))

    # -- starting ------------------------------------------------------------------------------

    def start(self, env: dict[str, object], started: Callable[[str], None]) -> None:
        """Start the program; `started` is called once, with "" or with why it could not."""
        self._waiting.append(started)
        try:
            self._launch({**self._spec, "env": env})
        except OSError as problem:
            self._fail_start(f"cannot start: {problem}")

    def when_started(self, started: Callable[[str], None]) -> None:
        """For a repeated start: the same answer as the first one gets."""
        if self.state == "launching":
            self._waiting.append(started)
        else:
            started("")

    def _launch(self, spec: children.Spec) -> None:
        cgroup_files.create(self._group)
        fds = self._task_fds()
        try:
            child = children.spawn(spec, fds)
        finally:
            for fd in set(fds):
                os.close(fd)
        self._child = child
        self._pidfd = os.pidfd_open(child.pid)
        self._save(
            {"state": "launching", "pid": child.pid, "ticks": proc.start_ticks(child.pid)},
            durable=True,
        )
        child.release()
        self._loop.add(child.status_fd, lambda _events: self._read_status())

    def _task_fds(self) -> tuple[int, int]:
        if not self._streams:
            null = os.open(os.devnull, os.O_WRONLY)
            return null, null
        uid, gid = self._spec.get("uid"), self._spec.get("gid")
        owner = (uid, gid) if isinstance(uid, int) and isinstance(gid, int) else (None, None)
        for stream in self._streams:
            stream.open()
        out, err = (stream.open_for_task(*owner) for stream in self._streams)
        return out, err

    def _read_status(self) -> None:
        """Text means that the child failed; the end without text, that the program runs."""
        assert self._child is not None
        data = os.read(self._child.status_fd, 4096)
        if data:
            self._reported += data
            return
        self._loop.remove(self._child.status_fd)
        os.close(self._child.status_fd)
        self._child = None
        if self._reported:
            self._fail_start(self._reported.decode("utf-8", "replace"))
        elif not self._spec.get("pid_file"):
            self._started()

    def _started(self) -> None:
        self.state = "running"
        waiting, self._waiting = self._waiting, []
        for started in waiting:
            started("")

    def _fail_start(self, reason: str) -> None:
        self.state = "failed"
        self._kill_members()
        self._close()
        self._remove_group(_GROUP_RETRIES)
        self._forget_record()
        self.on_failed_start(self)
        waiting, self._waiting = self._waiting, []
        for started in waiting:
            started(reason)

    def adopt(self, strays: dict[int, int]) -> None:
        """The runtime has left: what it started, a child of ours by now, is the task."""
        pid = _pid_in(str(self._spec["pid_file"]))
        if pid == 0:
            self._fail_start(f"cannot start: the runtime left no pid. {self._runtime_errors()}")
            return
        os.close(self._pidfd)
        self._pidfd = -1
        ticks = proc.start_ticks(pid)
        self._save({"state": "running", "pid": pid, "ticks": ticks}, durable=True)
        self._pidfd = proc.open_pidfd(pid, ticks)
        self._started()
        if pid in strays:
            self.exited(strays.pop(pid))

    def _runtime_errors(self) -> str:
        try:
            with open(str(self._spec.get("error_log") or ""), "rb") as file:
                return file.read()[-_ERROR_LOG_BYTES:].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    # -- finding again -------------------------------------------------------------------------

    def attach(self, boot: str) -> None:
        """After a restart of the supervisor: watch the process if it is still the same one."""
        same_boot = self.record.get("boot") == boot
        if same_boot and self._spec.get("pid_file"):
            self._find_launched()
        ticks = _int(self.record.get("ticks"))
        self._pidfd = proc.open_pidfd(self.pid, ticks) if same_boot and ticks else -1
        self.state = "running"
        for stream in self._streams:
            stream.open()
        if self._pidfd < 0:
            self._exited_unseen()
        else:
            self._loop.add(self._pidfd, lambda _events: self._stranger_exited())

    def _find_launched(self) -> None:
        """The supervisor may have died while a runtime was starting the task."""
        pid = _pid_in(str(self._spec["pid_file"]))
        if self.record["state"] == "launching" and pid:
            self._save({"state": "running", "pid": pid, "ticks": proc.start_ticks(pid)}, True)

    def _stranger_exited(self) -> None:
        """A process that is not our child has ended; its parent must reap it before we can ask."""
        self._loop.remove(self._pidfd)
        self._await_reaped(time.monotonic() + _UNREAPED_WAIT_S)

    def _await_reaped(self, until_s: float) -> None:
        status = proc.recorded_exit_status(self.pid, self._pidfd)
        if status is not None:
            self.exited(status)
        elif time.monotonic() >= until_s:
            self._exited_unseen()
        else:
            self._loop.call_later(0.01, lambda: self._await_reaped(until_s))

    def _exited_unseen(self) -> None:
        self._end(
            {
                "exit_code": -1,
                "error": "the exit code is unknown: the task ended while its supervisor, "
                "or the machine, was being restarted",
            }
        )

    # -- stopping and ending -------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Signal the task's main process; a task that has ended is left alone."""
        self._send(number, 0)

    def stop(self, number: int, grace_s: float) -> None:
        """Ask with a signal, and kill everything when the grace is over."""
        if self.state == "exited":
            return
        self.signal(number)
        self._loop.call_later(grace_s, self.kill)

    def kill(self) -> None:
        if self.state in ("launching", "running"):
            self._send(_signal.SIGKILL, 0)
            self._kill_members()

    def child_exited(self, status: int, strays: dict[int, int]) -> None:
        """Our child has ended, and is not reaped yet: its process group still has its number."""
        if self._child is not None:
            while self._child is not None:
                self._read_status()
            if self.state == "failed":
                return
        if self.state == "launching":
            self._launcher_exited(status, strays)
        else:
            self.exited(status)

    def _launcher_exited(self, status: int, strays: dict[int, int]) -> None:
        if status == 0:
            self.adopt(strays)
        else:
            self._fail_start(
                f"cannot start: the runtime ended with status {os.waitstatus_to_exitcode(status)}. "
                f"{self._runtime_errors()}"
            )

    def exited(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        number = -code if code < 0 else 0
        self._end({"exit_code": _SIGNAL_BASE + number if number else code, "signal": number})

    def _end(self, result: dict[str, object]) -> None:
        """Kill what is left, take the last output, write the result down, then tell."""
        oom_killed = cgroup_files.oom_kills(self._group) > 0
        self._kill_members()
        self._close()
        self.state = "exited"
        ended = {"state": "exited", "finished_ns": time.time_ns(), "oom_killed": oom_killed}
        self._save({**ended, **result}, durable=True)
        self._remove_group(_GROUP_RETRIES)
        self.on_exit(self)

    def forget(self) -> None:
        """The agent has stored the result: the supervisor need not know the task any more."""
        for stream in self._streams:
            stream.forget()
        self._forget_record()

    # -- parts ---------------------------------------------------------------------------------

    def _send(self, number: int, flags: int) -> None:
        if self._pidfd < 0:
            return
        try:
            _signal.pidfd_send_signal(self._pidfd, number, None, flags)
        except OSError:
            return  # it ended a moment ago, or the kernel knows no such flag

    def _kill_members(self) -> None:
        """Kill the process group and the control group: nothing of a task outlives it."""
        self._send(_signal.SIGKILL, _WHOLE_PROCESS_GROUP)
        cgroup_files.kill_all(self._group)

    def _close(self) -> None:
        for stream in self._streams:
            if self.state == "failed":
                stream.forget()
            else:
                stream.finish()
        if self._pidfd >= 0:
            self._loop.remove(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _remove_group(self, retries: int) -> None:
        """Members take a moment to die."""
        if not cgroup_files.remove(self._group) and retries > 0:
            self._loop.call_later(_GROUP_RETRY_S, lambda: self._remove_group(retries - 1))

    def _save(self, changes: dict[str, object], durable: bool) -> None:
        self.record = {**self.record, **changes}
        self.state = str(self.record["state"])
        self._journal.append(self.record, durable)

    def _forget_record(self) -> None:
        self._journal.append({"key": self.key, "gone": True}, durable=False)

    def describe(self) -> dict[str, object]:
        """What the agent may know of the task."""
        fields = ("key", "pid", "started_ns", "finished_ns", "exit_code", "signal", "oom_killed")
        told = {name: self.record[name] for name in fields if name in self.record}
        told["state"] = self.state
        told["error"] = str(self.record.get("error") or "")
        told["dropped_bytes"] = sum(stream.files.dropped_bytes for stream in self._streams)
        return told


def _pid_in(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read().strip() or 0)
    except (OSError, ValueError):
        return 0


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
