"""A pool of processes that parse job files, each file within limits of time and memory.

A server never evaluates a job file in its own process. The pool keeps processes warm as
`ParseLimits` says, starts more for many files, and ends idle ones. A file that takes too long, or
crashes its process, is refused; the other files go on in a new process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from orchgit.errors import OrchgitError
from orchgit.gitops.parsing.messages import Form, JobSpecJson, PolicyFound
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from orchgit.gitops.parsing.process import ParseLimits, ParseProcess
from orchgit.gitops.parsing.run import ParseResult, ParseRun
from orchgit.model.repository_policy import RepositoryPolicy


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
        return [result for result in results if not isinstance(result, (JobSpecJson, PolicyFound))]

    def spec(self, file: JobFile, inputs: Inputs, form: Form) -> bytes:
        """Returns the job of one file as the API's JSON. Raises JobFileError for a bad file, and
        TimedOutError for one that takes too long."""
        (result,) = self._run([file], inputs, form)
        if isinstance(result, OrchgitError):
            raise result
        assert isinstance(result, JobSpecJson)
        return result.body

    def policy(self, file: JobFile) -> RepositoryPolicy:
        """Returns the policy of an `orchgit.hcl`. Raises JobFileError for a bad file, and
        TimedOutError for one that takes too long."""
        (result,) = self._run([file], Inputs(), Form.POLICY)
        if isinstance(result, OrchgitError):
            raise result
        assert isinstance(result, PolicyFound)
        return result.policy

    def _run(self, files: Sequence[JobFile], inputs: Inputs, form: Form) -> list[ParseResult]:
        with self._lock:
            self._stop_timer()
            run = ParseRun(files, inputs, form, self.limits, self._idle)
            try:
                return run.results()
            finally:
                run.end_busy()
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
