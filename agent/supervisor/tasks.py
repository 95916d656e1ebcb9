"""One task: from its start, or from being found again by a new supervisor, to its exit.

    held at the gate -> launching -> running -> exited        (or -> failed, and forgotten)

`launching` is the time until the program is executed, or until a container runtime has written the
pid of what it started. The record of a task (in the journal) has everything needed to find it
again except its environment, which may hold secrets and never touches the disk.
"""

from __future__ import annotations

import os
import time

from agent.supervisor import cgroup_files, children, proc
from agent.supervisor.log_lines import log_line
from agent.supervisor.output import OutputStream
from agent.supervisor.records import as_dict, as_int, describe, pid_in, tail_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable

    from agent.supervisor.journal import Record, SupervisorJournal
    from agent.supervisor.loop import Loop
else:
    import _signal  # `signal` imports enum, a tenth of this process

_SIGNAL_BASE = 128  # the exit code of a process ended by a signal, as shells report it
_WHOLE_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP: Linux 6.9 and later
_UNREAPED_WAIT_S = 0.5
_UNREAPED_POLL_S = 0.01
_GROUP_RETRY_S = 0.2
_GROUP_RETRIES = 25


class SupervisedTask:
    """`on_exit` is called once the exit is in the journal."""

    def __init__(
        self, loop: Loop, journal: SupervisorJournal, directory: str, record: Record
    ) -> None:
        self._loop = loop
        self._journal = journal
        self.record = record
        self.key = str(record["key"])
        self.state = str(record["state"])
        self._spec = as_dict(record["spec"])
        self._group = as_dict(self._spec.get("group"))
        self._pid_file = str(self._spec.get("pid_file") or "")
        self._error_log = str(self._spec.get("error_log") or "")
        self._pidfd = -1
        self._child: children.TaskProcess | None = None
        self._unreaped = False
        self._reported = b""
        self._waiting: list[Callable[[str], None]] = []
        base = os.path.join(directory, f"pipe.{record['number']}")
        streams = self._spec.get("streams")
        self._streams = [
            OutputStream(loop, f"{base}.{index}", as_dict(stream))
            for index, stream in enumerate(streams if isinstance(streams, list) else ())
        ]
        self.on_exit: Callable[[SupervisedTask], None] = lambda _task: None
        self.on_failed_start: Callable[[SupervisedTask], None] = lambda _task: None

    @property
    def pid(self) -> int:
        return as_int(self.record.get("pid"))

    # -- starting ------------------------------------------------------------------------------

    def start(self, env: dict[str, object], started: Callable[[str], None]) -> None:
        """Start the program; `started` is called once, with "" or with the reason of a failure."""
        self._waiting.append(started)
        try:
            self._launch({**self._spec, "env": env})
        except OSError as error:
            self._fail_start(f"cannot start: {error}")

    def when_started(self, started: Callable[[str], None]) -> None:
        """Answer a repeated start as the first one is answered."""
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
        self._pidfd = os.pidfd_open(child.pid)
        held = {"pid": child.pid, "ticks": proc.start_ticks(child.pid)}
        try:
            self._save({"state": "launching", **held})
        except OSError:
            child.abandon()
            raise
        child.release()
        self._child = child
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
        """Text means that the child failed; the end without text means that the program runs."""
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
        elif not self._pid_file:
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

    def _launcher_exited(self, status: int, strays: dict[int, int]) -> None:
        """The container runtime has ended: what it started, our child by now, is the task."""
        pid = pid_in(self._pid_file)
        if status != 0 or pid == 0:
            code = os.waitstatus_to_exitcode(status)
            why = tail_of(self._error_log) or f"its exit code is {code}"
            self._fail_start(f"cannot start: the container runtime failed: {why}")
            return
        self._take_container(pid)
        if self._pidfd < 0 and pid in strays:
            self.exited(strays.pop(pid))

    def _take_container(self, pid: int) -> None:
        self._close_pidfd()
        ticks = proc.start_ticks(pid)
        try:
            self._save({"state": "running", "pid": pid, "ticks": ticks})
        except OSError as error:  # a later supervisor reads the runtime's pid file again
            log_line("error", f"cannot store that {self.key} runs: {error}")
        self._pidfd = proc.open_pidfd(pid, ticks)
        self._started()

    # -- finding again -------------------------------------------------------------------------

    def attach(self, boot: str) -> None:
        """After a restart of the supervisor: watch the process if it is still the same one."""
        for stream in self._streams:
            stream.reopen()
        if self.record.get("boot") != boot:
            self._exited_unseen()
            return
        if self.state == "launching" and not self._pid_file:
            self.state = "running"
        self._pidfd = proc.open_pidfd(self.pid, as_int(self.record.get("ticks")))
        self._watch_adopted()

    def _watch_adopted(self) -> None:
        """Watch a process that an earlier supervisor started, by its pidfd."""
        if self._pidfd >= 0:
            self._loop.add(self._pidfd, lambda _events: self._adopted_exited())
        elif self.state == "launching":
            self._adopted_launched()
        else:
            self._exited_unseen()

    def _adopted_exited(self) -> None:
        self._loop.remove(self._pidfd)
        if self.state == "launching":
            self._adopted_launched()
        else:
            self._await_reaped(time.monotonic() + _UNREAPED_WAIT_S)

    def _adopted_launched(self) -> None:
        """The supervisor died while a runtime was starting the task, and the runtime has ended."""
        pid = pid_in(self._pid_file)
        if pid == 0:
            error = f"cannot start: the container runtime failed: {tail_of(self._error_log)}"
            self._end({"exit_code": -1, "error": error})
            return
        self._take_container(pid)
        self._watch_adopted()

    def _await_reaped(self, until_s: float) -> None:
        """The parent may have to reap the process before the kernel tells how it ended."""
        status = proc.recorded_exit_status(self.pid, self._pidfd)
        if status is not None:
            self.exited(status)
        elif time.monotonic() >= until_s:
            self._exited_unseen()
        else:
            self._loop.call_later(_UNREAPED_POLL_S, lambda: self._await_reaped(until_s))

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
        if self._pidfd >= 0:
            try:
                _signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                return

    def stop(self, number: int, grace_s: float) -> None:
        """Send the signal, and kill everything when the grace period is over."""
        if self.state == "exited":
            return
        if number == _signal.SIGKILL:
            self.kill()
        else:
            self.signal(number)
            self._loop.call_later(grace_s, self.kill)

    def kill(self) -> None:
        """Kill the groups first: once the main process is gone, older kernels know none of it."""
        if self.state in ("launching", "running"):
            self._kill_members()
            self.signal(_signal.SIGKILL)

    def child_exited(self, status: int, strays: dict[int, int]) -> None:
        """Our child has ended and is not reaped yet: its process group still has its number."""
        self._unreaped = True
        while self._child is not None:
            self._read_status()
        if self.state == "launching":
            self._launcher_exited(status, strays)
        elif self.state == "running":
            self.exited(status)

    def exited(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        number = -code if code < 0 else 0
        self._end({"exit_code": _SIGNAL_BASE + number if number else code, "signal": number})

    def _end(self, result: dict[str, object]) -> None:
        """Kill what is left, read the last output, store the result, then report it."""
        oom_killed = cgroup_files.oom_kills(self._group) > 0
        self._kill_members()
        self._close()
        ended = {"state": "exited", "finished_ns": time.time_ns(), "oom_killed": oom_killed}
        try:
            self._save({**ended, **result})
        except OSError as error:  # the agent may have room to store it
            log_line("error", f"cannot store the end of {self.key}: {error}")
        self._remove_group(_GROUP_RETRIES)
        self.on_exit(self)

    def forget(self) -> None:
        """The agent has stored the result: the supervisor need not know the task any more."""
        for stream in self._streams:
            stream.forget()
        self._forget_record()

    # -- parts ---------------------------------------------------------------------------------

    def _kill_members(self) -> None:
        """Kill the process group and the control group: nothing of a task outlives it."""
        if self._pidfd >= 0:
            self._kill_process_group()
        cgroup_files.kill_all(self._group)

    def _kill_process_group(self) -> None:
        """Older kernels know a group by its number only, which is the task's own as long as its
        main process runs, or is a child of ours that has not been reaped."""
        try:
            _signal.pidfd_send_signal(self._pidfd, _signal.SIGKILL, None, _WHOLE_PROCESS_GROUP)
        except ProcessLookupError:
            return
        except OSError:
            if self._unreaped or proc.start_ticks(self.pid) == self.record.get("ticks"):
                _kill_group(self.pid)

    def _close(self) -> None:
        for stream in self._streams:
            if self.state == "failed":
                stream.forget()
            else:
                stream.finish()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _remove_group(self, retries: int) -> None:
        """Try again for a while: members take a moment to die, and a command that joins the group
        at the task's end is killed too."""
        if retries < _GROUP_RETRIES:
            cgroup_files.kill_all(self._group)
        if not cgroup_files.remove(self._group) and retries > 0:
            self._loop.call_later(_GROUP_RETRY_S, lambda: self._remove_group(retries - 1))

    def _save(self, changes: dict[str, object]) -> None:
        """Change the record in memory first: what cannot be stored is true all the same."""
        self.record = {**self.record, **changes}
        self.state = str(self.record["state"])
        self._journal.append(self.record, durable=True)

    def _forget_record(self) -> None:
        """On a full disk the record stays: a later supervisor reports the same end once more."""
        try:
            self._journal.append({"key": self.key, "gone": True}, durable=False)
        except OSError as error:
            log_line("error", f"cannot store that {self.key} is forgotten: {error}")

    def describe(self) -> dict[str, object]:
        """What the agent may know of the task."""
        dropped_bytes = sum(stream.files.dropped_bytes for stream in self._streams)
        return describe(self.record, self.state, dropped_bytes)


def _kill_group(number: int) -> None:
    try:
        os.killpg(number, _signal.SIGKILL)
    except ProcessLookupError:
        return
