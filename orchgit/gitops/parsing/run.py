"""One set of files, parsed by processes of a pool within limits of time, steps and crashes."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence

import msgspec

from jobspec.files import FileAccess
from orchgit.errors import (
    InvariantError,
    JobFileError,
    NoJobError,
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
    PolicyFound,
    WorkerMessage,
    WorkerReady,
)
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from orchgit.gitops.parsing.process import ParseLimits, ParseProcess

_CHUNK_FILES = 16
_END_GRACE_S = 1.0
"""How long a process whose pipe is closed may take to end by itself."""

ParseResult = ParsedFile | JobSpecJson | PolicyFound | OrchgitError


class ParseRun:
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
        self._results: list[ParseResult | None] = [None] * len(files)
        self._left = deque(range(len(files)))
        self._open = len(files)
        self._failed_starts = 0
        self._failed_files = 0
        self._steps = 0
        self._poll = select.poll()

    def results(self) -> list[ParseResult]:
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

    def end_busy(self) -> None:
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
                process.begin_file()
                self._send_files(process)
                if not process.pending:
                    self._release(process)

    def _idle_process(self) -> ParseProcess | None:
        """Returns an idle process that holds little memory: what files leave adds up."""
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
            self._handle_end(process)
            return
        if any(not isinstance(answer, FileLookup) for answer in answers):
            process.begin_file()
            self._send_files(process)
            if not process.pending:
                self._release(process)

    def _handle(self, process: ParseProcess, answer: WorkerMessage) -> None:
        match answer:
            case WorkerReady():
                process.ready, self._failed_starts = True, 0
            case FileLookup():
                process.send(_look_up(self._files[process.pending[0]].files, answer))
            case ParseSuccess(job, line, steps, group_lines):
                parsed = ParsedFile(job, line, steps, group_lines)
                self._set_result(process.pending.popleft(), parsed)
                self._count_steps(steps)
            case JobSpecJson() | PolicyFound():
                self._set_result(process.pending.popleft(), answer)
            case ParseFailure(message, problems, steps, is_job_file):
                error = (JobFileError if is_job_file else NoJobError)(message, problems)
                self._set_result(process.pending.popleft(), error)
                self._count_steps(steps)

    def _set_result(self, number: int, result: ParseResult) -> None:
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
            elif process.pending and not process.has_time_left():
                error = TimedOutError(
                    f"cannot parse this file within {self._limits.parse_timeout_s:g} s, the limit "
                    "parse_timeout_s of processor time; make its expressions or what it includes "
                    "smaller"
                )
                self._give_up(process, error)
                self._end(process)

    def _handle_end(self, process: ParseProcess) -> None:
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
        self._failed_files += 1
        if self._failed_files >= self._limits.max_lost_processes:
            self._give_up_the_rest(
                f"{self._failed_files} files before it took too long or ended their process, the "
                "limit max_lost_processes; repair those first"
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
