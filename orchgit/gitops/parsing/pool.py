"""Job files parsed by processes of their own, each file within limits of time and memory.

No server evaluates a job file itself, however few there are. One process is kept warm where the
limits say so; more are started when there is much to do, and ended when they were idle for a while.
A file that takes too long, or ends its process, is refused; the others go on in a new process.
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
    ParsedJob,
    ParseFailure,
    ParseRequest,
    Ready,
    WorkerMessage,
)
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from orchgit.gitops.parsing.process import ParseLimits, ParseProcess

_CHUNK_FILES = 16
_END_GRACE_S = 1.0
"""For a process whose pipe is closed already: it is about to end by itself."""
_Result = ParsedFile | JobSpecJson | OrchgitError


class ParsePool:
    """Safe to use from several threads; one set of files is parsed at a time."""

    def __init__(self, limits: ParseLimits | None = None) -> None:
        self.limits = limits or ParseLimits()
        self._lock = threading.Lock()
        self._idle: list[ParseProcess] = []
        self._timer: threading.Timer | None = None

    def parse(self, files: Sequence[JobFile], inputs: Inputs) -> list[ParsedFile | OrchgitError]:
        """An answer for each file, in order. Raises UnavailableError when no process starts."""
        results = self._run(files, inputs, Form.JOB)
        return [result for result in results if not isinstance(result, JobSpecJson)]

    def spec(self, file: JobFile, inputs: Inputs, form: Form) -> bytes:
        """The job of one file as the API's JSON. Raises JobFileError, and TimedOutError where
        reading it takes too long. Its functions read no files."""
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
                self._start_timer(self.limits.idle_s, self._rest)

    def warm_up(self) -> None:
        """Work is about to come: start what is kept warm, and keep it for `warm_idle_s`. Returns
        before the processes are ready."""
        if not self._lock.acquire(blocking=False):
            return  # there is work already
        try:
            with suppress(OSError):  # the next use tries again, and reports it
                while len(self._idle) < self.limits.warm:
                    self._idle.append(ParseProcess(self.limits))
            self._start_timer(self.limits.warm_idle_s, self._cool_down)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the processes; the next use starts new ones."""
        with self._lock:
            self._stop_timer()
            while self._idle:
                self._idle.pop().end()

    def _rest(self) -> None:
        """There was no work for a while: only what is kept warm stays."""
        with self._lock:
            while len(self._idle) > self.limits.warm:
                self._idle.pop().end()
            for process in list(self._idle):
                if process.memory_bytes > self.limits.warm_memory_bytes:
                    self._idle.remove(process)
                    process.end()
            self._start_timer(self.limits.warm_idle_s, self._cool_down)

    def _cool_down(self) -> None:
        """There was no work for long: nothing stays, since a process costs 12 MB."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def process_ids(self) -> list[int]:
        """Of those that wait for work."""
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
    """One set of files. Everything happens in the calling thread, when a pipe has something."""

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
        self._lost = 0
        self._steps = 0
        self._poll = select.poll()

    def results(self) -> list[_Result]:
        while self._open:
            self._employ()
            if not self._open:
                break
            if not self._busy:
                raise InvariantError("cannot go on parsing: files are left and nobody has them")
            self._wait()
            self._check_deadlines()
        for process in list(self._busy.values()):
            self._release(process)
        return [result for result in self._results if result is not None]

    def end_the_busy(self) -> None:
        """Of a run that was broken off: nobody waits for their answers any more."""
        for process in list(self._busy.values()):
            self._dismiss(process)

    # -- processes ------------------------------------------------------------------------------

    def _employ(self) -> None:
        """As many processes as are worth their start."""
        limits = self._limits
        wanted = min(limits.processes, -(-len(self._left) // limits.files_a_process))
        for _ in range(wanted - len(self._busy)):
            process = self._rested() or self._started()
            if not process.ready:
                process.deadline_s = time.monotonic() + limits.start_timeout_s
            self._busy[process.stdout] = process
            self._poll.register(process.stdout, select.POLLIN)
            self._poll.register(process.stderr, select.POLLIN)
            if process.ready:
                process.deadline_s = time.monotonic() + self._limits.parse_timeout_s
                self._supply(process)
                if not process.pending:
                    self._release(process)

    def _rested(self) -> ParseProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            process.end()
        return None

    def _started(self) -> ParseProcess:
        try:
            return ParseProcess(self._limits)
        except OSError as error:
            raise _no_process(str(error)) from error

    def _release(self, process: ParseProcess) -> None:
        self._forget(process)
        if process.ready:
            process.rested = True
            self._idle.append(process)
        else:
            process.end()

    def _dismiss(self, process: ParseProcess, grace_s: float = 0.0) -> str:
        self._forget(process)
        return process.end(grace_s)

    def _forget(self, process: ParseProcess) -> None:
        del self._busy[process.stdout]
        self._poll.unregister(process.stdout)
        self._poll.unregister(process.stderr)

    # -- waiting --------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until a pipe has something, or a deadline is over."""
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
                process.listen()
            if process.stdout in readable:
                self._take_answers(process)

    def _take_answers(self, process: ParseProcess) -> None:
        try:
            answers = process.answers()
            for answer in answers:
                process.rested = False
                self._take(process, answer)
                if process.stdout not in self._busy:
                    return
        except (EOFError, msgspec.MsgspecError):
            self._ended(process)
            return
        if any(not isinstance(answer, FileLookup) for answer in answers):
            process.deadline_s = time.monotonic() + self._limits.parse_timeout_s
            self._supply(process)
            if not process.pending:
                self._release(process)

    def _take(self, process: ParseProcess, answer: WorkerMessage) -> None:
        match answer:
            case Ready():
                process.ready, self._failed_starts = True, 0
            case FileLookup():
                process.send(_look(self._files[process.pending[0]].files, answer))
            case ParsedJob(job, line, steps):
                self._settle(process.pending.popleft(), ParsedFile(job, line, steps))
                self._spend(steps)
            case JobSpecJson():
                self._settle(process.pending.popleft(), answer)
            case ParseFailure(message, problems, steps):
                self._settle(process.pending.popleft(), JobFileError(message, problems))
                self._spend(steps)

    def _settle(self, number: int, result: _Result) -> None:
        self._results[number] = result
        self._open -= 1

    def _supply(self, process: ParseProcess) -> None:
        """The next files, before it has done the last ones, so that it never waits for them."""
        if len(process.pending) > _CHUNK_FILES // 2:
            return
        contents: list[tuple[str, bytes]] = []
        while self._left and len(contents) < _CHUNK_FILES:
            number = self._left.popleft()
            file = self._files[number]
            try:
                contents.append((file.path, file.read()))
            except OrchgitError as error:
                self._settle(number, error)
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
                self._give_up(process, _too_slow(self._limits.parse_timeout_s))
                self._dismiss(process)

    def _ended(self, process: ParseProcess) -> None:
        if not process.ready:
            self._failed_start(process, "")
            return
        how = self._dismiss(process, _END_GRACE_S)
        if process.rested:  # it may have ended while it waited: no file is to blame for that
            self._left.extendleft(reversed(process.pending))
        elif process.pending:
            why = f"cannot parse this file: the process that parsed it ended ({how})"
            self._give_up(process, JobFileError(why))

    def _give_up(self, process: ParseProcess, error: OrchgitError) -> None:
        """Refuse the file it was at; the others that it had been given are parsed by the next."""
        self._settle(process.pending.popleft(), error)
        self._left.extendleft(reversed(process.pending))
        process.pending.clear()
        self._lost += 1
        if self._lost >= self._limits.max_lost_processes:
            self._give_up_the_rest(
                f"{self._lost} files before it took too long or ended their process, the limit "
                "max_lost_processes; repair those first"
            )

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps <= self._limits.max_steps:
            return
        for process in list(self._busy.values()):
            self._left.extendleft(reversed(process.pending))
            process.pending.clear()
            self._dismiss(process)
        self._give_up_the_rest(
            f"the files before it took {self._steps} steps of evaluation, above the limit "
            "max_steps of one commit; make their loops and collections smaller"
        )

    def _give_up_the_rest(self, why: str) -> None:
        """Processes that were given files already go on with them."""
        error = JobFileError(f"cannot parse this file: {why}")
        while self._left:
            self._settle(self._left.popleft(), error)

    def _failed_start(self, process: ParseProcess, why: str) -> None:
        how = self._dismiss(process, _END_GRACE_S if not why else 0.0)
        self._failed_starts += 1
        if self._failed_starts >= self._limits.max_failed_starts:
            raise _no_process(why or how)


def _too_slow(limit_s: float) -> OrchgitError:
    return TimedOutError(
        f"cannot parse this file within {limit_s:g} s, the limit parse_timeout_s; make its "
        "expressions or what it includes smaller"
    )


def _no_process(why: str) -> UnavailableError:
    return UnavailableError(
        f"cannot parse job files: the processes for it do not start ({why}); see that the server "
        "may start processes and has memory for them, then push again"
    )


def _look(files: FileAccess, ask: FileLookup) -> LookupResult:
    """What a file function asked for, found as if it had been called here."""
    try:
        match ask.what:
            case "read":
                return LookupResult(content=files.read(ask.path))
            case "exists":
                return LookupResult(there=files.exists(ask.path))
            case "glob":
                return LookupResult(paths=files.glob(ask.path, ask.pattern))
            case _:
                return LookupResult(text=files.absolute(ask.path))
    except FileNotFoundError as error:
        return LookupResult(missing=str(error))
    except OSError as error:
        return LookupResult(failed=str(error))
