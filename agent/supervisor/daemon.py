"""The supervisor: its tasks, its children, and the commands that it accepts.

Requests are maps {id, op, ...}; the answer has the same id and either fields or `error`. Every
command may be repeated: a second `start` of a key starts nothing, a second `stop` stops nothing
more, an `ack` of an unknown key is answered. Exits are pushed to connections that `watch`, and
stored until an `ack`.
"""

from __future__ import annotations

import os
import time

from agent.supervisor import proc
from agent.supervisor.connections import Connection, Listener
from agent.supervisor.journal import SupervisorJournal
from agent.supervisor.log_lines import log_line
from agent.supervisor.loop import Loop
from agent.supervisor.tasks import SupervisedTask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Message = dict[str, object]

PROTOCOL_VERSION = 1
SOCKET_NAME = "supervisor.sock"

_IDLE_CHECK_S = 5.0
_IDLE_CHECKS = 3
_REACHABLE_CHECK_S = 2.0
_LAST_WORDS_S = 0.5


class RequestError(Exception):
    """The request cannot be met; the text is the answer to the agent."""


class Daemon:
    """Owns the tasks, the journal and the socket; all of it runs on one loop."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._boot = proc.boot_id()
        self.loop = Loop()
        self._journal = SupervisorJournal(directory)
        self._tasks: dict[str, SupervisedTask] = {}
        self._strays: dict[int, int] = {}
        self._idle_checks = 0
        self._listener = Listener(self.loop, self._on_message)
        self._number = 0
        self._commands: dict[str, Callable[[Connection, Message], Message | None]] = {
            "hello": self._hello,
            "start": self._start,
            "stop": self._stop,
            "signal": self._signal,
            "status": self._status,
            "watch": self._watch,
            "ack": self._ack,
        }

    def run(self, ready: Callable[[], None]) -> None:
        """Find the tasks of an earlier supervisor again, then serve until stopped or idle."""
        self.loop.on_child_exit(self._reap)
        for record in list(self._journal.records.values()):
            self._number = max(self._number, int(str(record["number"])))
            task = self._add(record)
            if record["state"] != "exited":
                task.attach(self._boot)
        self._listener.listen(SOCKET_NAME)
        self.loop.call_later(_IDLE_CHECK_S, self._check_idle)
        self.loop.call_later(_REACHABLE_CHECK_S, self._check_reachable)
        ready()
        self.loop.run()

    # -- commands ------------------------------------------------------------------------------

    def _on_message(self, connection: Connection, message: object) -> None:
        if not isinstance(message, dict):
            connection.close()
            return
        try:
            command = self._commands.get(str(message.get("op")))
            if command is None:
                raise RequestError(f"cannot do {message.get('op')!r}: no such command")
            answer = command(connection, message)
        except (RequestError, KeyError, ValueError, TypeError, OSError) as error:
            answer = {"error": str(error) or repr(error)}
        if answer is not None:
            connection.send({"id": message.get("id"), **answer})

    def _hello(self, _connection: Connection, _message: Message) -> Message:
        return {"protocol": PROTOCOL_VERSION, "pid": os.getpid()}

    def _start(self, connection: Connection, message: Message) -> None:
        """Answered when the program runs, or cannot."""
        spec = message["spec"]
        if not isinstance(spec, dict):
            raise RequestError("cannot start: the spec is no map")
        key = str(spec["key"])

        def started(error: str) -> None:
            answer: Message = {"error": error} if error else {"task": task.describe()}
            connection.send({"id": message.get("id"), **answer})

        if key in self._tasks:
            task = self._tasks[key]
            task.when_started(started)
            return
        task = self._add(self._new_record(key, spec))
        task.start(spec.get("env") or {}, started)

    def _new_record(self, key: str, spec: Message) -> Message:
        self._number += 1
        stored = {name: value for name, value in spec.items() if name != "env"}
        return {
            "key": key,
            "state": "launching",
            "number": self._number,
            "boot": self._boot,
            "spec": stored,
            "started_ns": time.time_ns(),
        }

    def _stop(self, _connection: Connection, message: Message) -> Message:
        task = self._known(message)
        task.stop(int(str(message["signal"])), int(str(message["grace_ms"])) / 1000)
        return {"task": task.describe()}

    def _signal(self, _connection: Connection, message: Message) -> Message:
        task = self._known(message)
        if task.state == "exited":
            raise RequestError(f"cannot signal {task.key}: it has ended")
        task.signal(int(str(message["signal"])))
        return {}

    def _status(self, _connection: Connection, message: Message) -> Message:
        key = message.get("key")
        tasks = [t for t in self._tasks.values() if key is None or t.key == key]
        return {"tasks": [task.describe() for task in tasks]}

    def _watch(self, connection: Connection, message: Message) -> Message:
        """Push exits to this connection from now on; the answer has all that came before."""
        connection.watching = True
        return self._status(connection, message)

    def _ack(self, _connection: Connection, message: Message) -> Message:
        task = self._tasks.get(str(message["key"]))
        if task is not None:
            if task.state != "exited":
                raise RequestError(f"cannot forget {task.key}: it runs; stop it first")
            task.forget()
            del self._tasks[task.key]
        return {}

    def _known(self, message: Message) -> SupervisedTask:
        task = self._tasks.get(str(message["key"]))
        if task is None:
            raise RequestError(f"cannot find task {message['key']}: it was never started here")
        return task

    # -- events --------------------------------------------------------------------------------

    def _add(self, record: Message) -> SupervisedTask:
        task = SupervisedTask(self.loop, self._journal, self._directory, record)
        task.on_exit = self._push_exit
        task.on_failed_start = self._drop
        self._tasks[task.key] = task
        return task

    def _drop(self, task: SupervisedTask) -> None:
        self._tasks.pop(task.key, None)

    def _push_exit(self, task: SupervisedTask) -> None:
        for connection in list(self._listener.connections):
            if connection.watching:
                connection.send({"event": "exit", "task": task.describe()})

    def _reap(self) -> None:
        """Collect every ended child: tasks, runtimes, and orphans of tasks (we are subreaper)."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            self._reap_one(ended.si_pid)

    def _reap_one(self, pid: int) -> None:
        """The task handles its exit before the reaping, while its pid and its group are its own."""
        task = next((t for t in self._tasks.values() if t.pid == pid and _alive(t)), None)
        if task is None:
            _, status = os.waitpid(pid, 0)
            if any(t.state == "launching" for t in self._tasks.values()):
                self._strays[pid] = status  # perhaps a container that a runtime has yet to name
            else:
                self._strays.clear()
            return
        status = _peek_status(pid)
        task.child_exited(status, self._strays)
        os.waitpid(pid, 0)

    def _check_idle(self) -> None:
        """End when no task runs and no agent is connected, several checks in a row."""
        busy = self._listener.connections or any(_alive(t) for t in self._tasks.values())
        self._idle_checks = 0 if busy else self._idle_checks + 1
        if self._idle_checks >= _IDLE_CHECKS:
            self.loop.stop()
        self.loop.call_later(_IDLE_CHECK_S, self._check_idle)

    def _check_reachable(self) -> None:
        """End all tasks when the directory was deleted: no agent can reach this supervisor again,
        and its tasks would run on unseen beside those of its replacement."""
        if self._journal.is_there():
            self.loop.call_later(_REACHABLE_CHECK_S, self._check_reachable)
            return
        log_line("warning", "ending all tasks: the directory was deleted")
        for task in list(self._tasks.values()):
            task.kill()
        self.loop.call_later(_LAST_WORDS_S, self.loop.stop)


def _alive(task: SupervisedTask) -> bool:
    return task.state in ("launching", "running")


def _peek_status(pid: int) -> int:
    """The wait status of an ended child, without reaping it."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    if ended.si_code == os.CLD_EXITED:
        return ended.si_status << 8
    return ended.si_status | (0x80 if ended.si_code == os.CLD_DUMPED else 0)
