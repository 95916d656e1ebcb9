"""The parsing process: parses job files for a server. It has no secrets and opens no file."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from jobspec.canonicalize import canonicalize
from jobspec.errors import JobFileErrors
from jobspec.evaluation.budget import MAX_STEPS
from jobspec.parse import parse_job
from orchgit.errors import InvariantError, JobFileError, NoJobError, OrchgitError
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.messages import (
    MAX_FRAME_BYTES,
    FileLookup,
    Form,
    JobSpecJson,
    LookupResult,
    ParseFailure,
    ParseRequest,
    ParseSuccess,
    PolicyFound,
    ServerMessage,
    WorkerMessage,
    WorkerReady,
    framed,
)
from orchgit.gitops.parsing.policy_parser import parse_policy
from orchgit.gitops.parsing.port import Inputs, JobFile, VarFile
from orchgit.length_frames import read_frame


class _PipeClosed(Exception):
    """The server closed the pipe."""


class ParseWorker:
    """Answers requests until the server closes the pipe.

    It is also the `FileAccess` of the files it parses: it asks the server for each look into the
    commit's tree, and the server records the look.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._decoder: msgspec.msgpack.Decoder[ServerMessage] = msgspec.msgpack.Decoder(
            ServerMessage
        )
        self._parser = JobspecParser()
        self._waiting: deque[ParseRequest] = deque()

    def serve(self) -> None:
        """Answers requests until the pipe is closed."""
        self._send(WorkerReady())
        try:
            while True:
                request = self._waiting.popleft() if self._waiting else self._receive()
                assert isinstance(request, ParseRequest)
                var_files = [VarFile(name, content) for name, content in request.var_files]
                inputs = Inputs(request.variables, var_files)
                for path, content in request.files:
                    self._send(self._within_memory(path, content, inputs, request.form))
        except _PipeClosed:
            return

    def _within_memory(
        self, path: str, content: bytes, inputs: Inputs, form: Form
    ) -> WorkerMessage:
        try:
            if form is Form.JOB:
                return self._parsed(path, content, inputs)
            if form is Form.POLICY:
                return PolicyFound(parse_policy(content))
            spec = parse_job(
                content,
                filename=path,
                variables=inputs.variables,
                var_files=[(each.name, each.content) for each in inputs.var_files],
            ).spec
            if form is Form.SPEC_WITH_DEFAULTS:
                spec = canonicalize(spec)
            return JobSpecJson(msgspec.json.encode(spec))
        except JobFileError as error:
            return ParseFailure(str(error), list(error.problems))
        except MemoryError:
            return ParseFailure(
                "cannot parse this file: it needs more memory than the limit "
                "parse_memory_bytes allows; make its expressions smaller",
                [],
                MAX_STEPS,
            )

    def _parsed(self, path: str, content: bytes, inputs: Inputs) -> WorkerMessage:
        try:
            parsed = self._parser.parse(JobFile(path, lambda: content, self), inputs)
        except JobFileError as error:
            cause = error.__cause__
            steps = cause.steps if isinstance(cause, JobFileErrors) else 0
            is_job_file = not isinstance(error, NoJobError)
            return ParseFailure(str(error), list(error.problems), steps, is_job_file)
        except OrchgitError as error:
            return ParseFailure(str(error), [])
        return ParseSuccess(parsed.job, parsed.line, parsed.steps, dict(parsed.group_lines))

    # -- the commit's tree, as file functions see it ------------------------------------------

    def read(self, path: str) -> bytes:
        return self._look_up(FileLookup("read", path)).content

    def exists(self, path: str) -> bool:
        return self._look_up(FileLookup("exists", path)).there

    def glob(self, base: str, pattern: str) -> list[str]:
        return self._look_up(FileLookup("glob", base, pattern)).paths

    def absolute(self, path: str) -> str:
        return self._look_up(FileLookup("absolute", path)).text

    def _look_up(self, lookup: FileLookup) -> LookupResult:
        self._send(lookup)
        result = self._receive()
        while isinstance(result, ParseRequest):
            self._waiting.append(result)
            result = self._receive()
        if result.missing:
            raise FileNotFoundError(result.missing)
        if result.failed:
            raise OSError(result.failed)
        return result

    # -- frames -------------------------------------------------------------------------------

    def _send(self, message: msgspec.Struct) -> None:
        self._outgoing.write(framed(message))
        self._outgoing.flush()

    def _receive(self) -> ServerMessage:
        try:
            return self._decoder.decode(read_frame(self._incoming, MAX_FRAME_BYTES))
        except EOFError:
            raise _PipeClosed from None


def main(arguments: Sequence[str]) -> None:
    """Serves on stdin and stdout."""
    if arguments:
        raise InvariantError("cannot start: this program takes no arguments")
    # The pipe is for answers only: what the parser prints must not reach it.
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    ParseWorker(sys.stdin.buffer, outgoing).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
