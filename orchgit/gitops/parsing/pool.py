"""A pool of processes that parse job files, each file within limits of time and memory.

A server never evaluates a job file in its own process. The pool keeps processes warm as
`ParseLimits` says, starts more for many files, and ends idle ones. A file that takes too long, or
crashes its process, is refused; the other files go on in a new process.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from jobspec.files import FileAccess
from orchgit.errors import (
    InvariantError,
    JobFileError,
    OrchgitError,
    TimedOutError,
    UnavailableError,
)
from orchgit.gitops.parsing.messages import (
    FileLookup,
    Form,
    JobSpecJson,
    LookupResult,
    ParseFailure,
    ParseRequest,
    ParseSuccess,
    Ready,
    WorkerMessage,
)
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from orchgit.gitops.parsing.process import ParseLimits, ParseProcess

_CHUNK_FILES = 16
_END_GRACE_S = 1.0
"""How long a process whose pipe is closed may take to end by itself."""
_Result = ParsedFile | JobSpecJson | OrchgitError


class ParsePool:
    """Parses one set of files at a time. Safe to use from several threads."""

    def __init__(self, limits: ParseLimits | None = None) -> None:
        self.limits = limits or ParseLimits()
        self._lock = threading.Lock()
        self._idle: list[ParseProcess] = []
        self._timer: threading.Timer | None = None

    def parse(self, files: Sequence[JobFile], inputs: Inputs) -> list[ParsedFile | OrchgitError]:
        """Returns an answer for each file, in order. Raises UnavailableError if no process
        starts."""
        results = self._run(files, inputs, Form.JOB)
        return [result for result in results if not isinstance(result, JobSpecJson)]

    def spec(self, file: JobFile, inputs: Inputs, form: Form) -> bytes:
        """Returns the job of one file as the API's JSON. Raises JobFileError for a bad file, and
        TimedOutError for one that takes too long."""
        (result,) = self._run([file], inputs, form)
        if isinstance(result, OrchgitError):
            raise result
        assert isinstance(result, JobSpecJson)
        return result.body

    def _run(self, files: Sequence[JobFile], inputs: Inputs, form: Form) -> list[_Result]:
        with self._lock:
            self._stop_timer()
            run = _Run(files, inputs, form, self.limits, self._idle)
            try:
                return run.results()
            finally:
                run.end_the_busy()
                self._start_timer(self.limits.idle_s, self._end_spare)

    def warm_up(self) -> None:
        """Starts the warm processes, since files will come soon, and keeps them for `warm_idle_s`.
        Returns before they are ready."""
        if not self._lock.acquire(blocking=False):
            return  # there is work already
        try:
            with suppress(OSError):  # the next use tries again, and reports it
                while len(self._idle) < self.limits.warm:
                    self._idle.append(ParseProcess(self.limits))
            self._start_timer(self.limits.warm_idle_s, self._end_warm)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends the processes; the next use starts new ones."""
        with self._lock:
            self._stop_timer()
            self._end_idle(0)

    def _end_idle(self, kept: int) -> None:
        while len(self._idle) > kept:
            self._idle.pop().end()

    def _end_spare(self) -> None:
        """Ends idle processes but the warm ones, after `idle_s` without work."""
        with self._lock:
            self._end_idle(self.limits.warm)
            for process in list(self._idle):
                if process.memory_bytes > self.limits.idle_memory_bytes:
                    self._idle.remove(process)
                    process.end()
            self._start_timer(self.limits.warm_idle_s, self._end_warm)

    def _end_warm(self) -> None:
        """Ends all processes, which cost 12 MB each, after `warm_idle_s` without work."""
        with self._lock:
            self._end_idle(0)

    def process_ids(self) -> list[int]:
        """Returns the ids of the idle processes."""
        return [process.pid for process in self._idle]

    def _start_timer(self, after_s: float, then: Callable[[], None]) -> None:
        self._stop_timer()
        if self._idle:
            self._timer = threading.Timer(after_s, then)
            self._timer.name, self._timer.daemon = "parse-pool-idle", True
            self._timer.start()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


class _Run:
    """Parses one set of files, in the calling thread, driven by what its processes' pipes have.

    `_left` are the numbers of the files that no process has, `_open` is how many files have no
    result yet.
    """

    def __init__(
        self,
        files: Sequence[JobFile],
        inputs: Inputs,
        form: Form,
        limits: ParseLimits,
        idle: list[ParseProcess],
    ) -> None:
        self._files = files
        self._inputs = inputs
        self._form = form
        self._limits = limits
        self._idle = idle
        self._busy: dict[int, ParseProcess] = {}
        self._results: list[_Result | None] = [None] * len(files)
        self._left = deque(range(len(files)))
        self._open = len(files)
        self._failed_starts = 0
        self._failed = 0
        self._steps = 0
        self._poll = select.poll()

    def results(self) -> list[_Result]:
        """Returns a result for each file, in order."""
        while self._open:
            self._assign_processes()
            if not self._open:
                break
            if not self._busy:
                raise InvariantError("cannot go on parsing: files are left that no process has")
            self._wait()
            self._check_deadlines()
        for process in list(self._busy.values()):
            self._release(process)
        return [result for result in self._results if result is not None]

    def end_the_busy(self) -> None:
        """Ends the processes that still work, after an error."""
        for process in list(self._busy.values()):
            self._end(process)

    # -- processes ------------------------------------------------------------------------------

    def _assign_processes(self) -> None:
        """Takes idle processes and starts new ones: one for every `files_a_process` files left."""
        limits = self._limits
        wanted = min(limits.processes, -(-len(self._left) // limits.files_a_process))
        for _ in range(wanted - len(self._busy)):
            process = self._idle_process() or self._new_process()
            if not process.ready:
                process.deadline_s = time.monotonic() + limits.start_timeout_s
            self._busy[process.stdout] = process
            self._poll.register(process.stdout, select.POLLIN)
            self._poll.register(process.stderr, select.POLLIN)
            if process.ready:
                process.deadline_s = time.monotonic() + self._limits.parse_timeout_s
                self._send_files(process)
                if not process.pending:
                    self._release(process)

    def _idle_process(self) -> ParseProcess | None:
        """Returns an idle process that holds little memory: what one file left, the next adds to."""
        while self._idle:
            process = self._idle.pop()
            if process.alive and process.memory_bytes <= self._limits.idle_memory_bytes:
                return process
            process.end()
        return None

    def _new_process(self) -> ParseProcess:
        try:
            return ParseProcess(self._limits)
        except OSError as error:
            raise _no_process(str(error)) from error

    def _release(self, process: ParseProcess) -> None:
        self._forget(process)
        if process.ready:
            process.was_idle = True
            self._idle.append(process)
        else:
            process.end()

    def _end(self, process: ParseProcess, grace_s: float = 0.0) -> str:
        self._forget(process)
        return process.end(grace_s)

    def _forget(self, process: ParseProcess) -> None:
        del self._busy[process.stdout]
        self._poll.unregister(process.stdout)
        self._poll.unregister(process.stderr)

    # -- waiting --------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Waits until a pipe has something or a deadline is over, and handles it."""
        for process in self._busy.values():
            if process.wants_to_write:
                self._poll.register(process.stdin, select.POLLOUT)
        first = min((p.deadline_s for p in self._busy.values()), default=0.0)
        ready = self._poll.poll(max(0.0, first - time.monotonic()) * 1000 + 1)
        readable = {handle for handle, _ in ready}
        for process in list(self._busy.values()):
            if process.stdout not in self._busy:
                continue
            if process.wants_to_write:
                self._poll.unregister(process.stdin)
                process.write()
            if process.stderr in readable:
                process.read_stderr()
            if process.stdout in readable:
                self._take_answers(process)

    def _take_answers(self, process: ParseProcess) -> None:
        try:
            answers = process.answers()
            for answer in answers:
                process.was_idle = False
                self._handle(process, answer)
                if process.stdout not in self._busy:
                    return
        except (EOFError, msgspec.MsgspecError):
            self._ended(process)
            return
        if any(not isinstance(answer, FileLookup) for answer in answers):
            process.deadline_s = time.monotonic() + self._limits.parse_timeout_s
            self._send_files(process)
            if not process.pending:
                self._release(process)

    def _handle(self, process: ParseProcess, answer: WorkerMessage) -> None:
        match answer:
            case Ready():
                process.ready, self._failed_starts = True, 0
            case FileLookup():
                process.send(_look_up(self._files[process.pending[0]].files, answer))
            case ParseSuccess(job, line, steps):
                self._set_result(process.pending.popleft(), ParsedFile(job, line, steps))
                self._count_steps(steps)
            case JobSpecJson():
                self._set_result(process.pending.popleft(), answer)
            case ParseFailure(message, problems, steps):
                self._set_result(process.pending.popleft(), JobFileError(message, problems))
                self._count_steps(steps)

    def _set_result(self, number: int, result: _Result) -> None:
        self._results[number] = result
        self._open -= 1

    def _send_files(self, process: ParseProcess) -> None:
        """Sends the next files before the process has answered the last ones, so that it never
        waits."""
        if len(process.pending) > _CHUNK_FILES // 2:
            return
        contents: list[tuple[str, bytes]] = []
        while self._left and len(contents) < _CHUNK_FILES:
            number = self._left.popleft()
            file = self._files[number]
            try:
                contents.append((file.path, file.read()))
            except OrchgitError as error:
                self._set_result(number, error)
            else:
                process.pending.append(number)
        if contents:
            var_files = [(each.name, each.content) for each in self._inputs.var_files]
            process.send(
                ParseRequest(dict(self._inputs.variables), var_files, contents, self._form)
            )

    # -- what goes wrong ------------------------------------------------------------------------

    def _check_deadlines(self) -> None:
        now_s = time.monotonic()
        for process in list(self._busy.values()):
            if process.deadline_s > now_s:
                continue
            if not process.ready:
                self._failed_start(process, "it took longer than start_timeout_s")
            elif process.pending:
                error = TimedOutError(
                    f"cannot parse this file within {self._limits.parse_timeout_s:g} s, the limit "
                    "parse_timeout_s; make its expressions or what it includes smaller"
                )
                self._give_up(process, error)
                self._end(process)

    def _ended(self, process: ParseProcess) -> None:
        if not process.ready:
            self._failed_start(process, "")
            return
        how = self._end(process, _END_GRACE_S)
        if process.was_idle:  # it may have ended while it was idle, so no file is to blame
            self._left.extendleft(reversed(process.pending))
        elif process.pending:
            why = f"cannot parse this file: the process that parsed it ended ({how})"
            self._give_up(process, JobFileError(why))

    def _give_up(self, process: ParseProcess, error: OrchgitError) -> None:
        """Refuses the file that the process was at. Another process parses the others it was
        given."""
        self._set_result(process.pending.popleft(), error)
        self._left.extendleft(reversed(process.pending))
        process.pending.clear()
        self._failed += 1
        if self._failed >= self._limits.max_lost_processes:
            self._give_up_the_rest(
                f"{self._failed} files before it took too long or ended their process, the limit "
                "max_lost_processes; repair those first"
            )

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps <= self._limits.max_steps:
            return
        for process in list(self._busy.values()):
            self._left.extendleft(reversed(process.pending))
            process.pending.clear()
            self._end(process)
        self._give_up_the_rest(
            f"the files before it took {self._steps} steps of evaluation, above the limit "
            "max_steps of one commit; make their loops and collections smaller"
        )

    def _give_up_the_rest(self, why: str) -> None:
        """Refuses the files that no process has; processes finish the files that they have."""
        error = JobFileError(f"cannot parse this file: {why}")
        while self._left:
            self._set_result(self._left.popleft(), error)

    def _failed_start(self, process: ParseProcess, why: str) -> None:
        how = self._end(process, _END_GRACE_S if not why else 0.0)
        self._failed_starts += 1
        if self._failed_starts >= self._limits.max_failed_starts:
            raise _no_process(why or how)


def _no_process(why: str) -> UnavailableError:
    return UnavailableError(
        f"cannot parse job files: the processes for it do not start ({why}); see that the server "
        "may start processes and has memory for them, then push again"
    )


def _look_up(files: FileAccess, lookup: FileLookup) -> LookupResult:
    """Returns what a file function of the process asked for."""
    try:
        match lookup.what:
            case "read":
                return LookupResult(content=files.read(lookup.path))
            case "exists":
                return LookupResult(there=files.exists(lookup.path))
            case "glob":
                return LookupResult(paths=files.glob(lookup.path, lookup.pattern))
            case _:
                return LookupResult(text=files.absolute(lookup.path))
    except FileNotFoundError as error:
        return LookupResult(missing=str(error))
    except OSError as error:
        return LookupResult(failed=str(error))
