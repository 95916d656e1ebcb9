"""Parses job files of the API's callers in a process that no commit uses."""

from __future__ import annotations

import asyncio

from orchgit.errors import InvalidInputError, TimedOutError, UnavailableError
from orchgit.gitops.parsing.messages import Form
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.port import Inputs, JobFile, VarFile
from orchgit.gitops.parsing.process import ParseLimits

_LIMITS = ParseLimits(parse_processes=1, parse_timeout_s=10.0, idle_s=60.0)
_MAX_WAITING = 32


class _NoFiles:
    """The files that a request's job file may read: none."""

    def read(self, path: str) -> bytes:
        raise OSError("a request has no files")

    def exists(self, path: str) -> bool:
        return False

    def glob(self, base: str, pattern: str) -> list[str]:
        return []

    def absolute(self, path: str) -> str:
        return path


class JobTexts:
    """Parses one text after the other, so that expensive texts delay only such callers."""

    def __init__(self, limits: ParseLimits = _LIMITS) -> None:
        self._pool = ParsePool(limits)
        self._turn = asyncio.Lock()
        self._work: set[asyncio.Task[bytes]] = set()

    async def spec(self, text: bytes, variables: bytes, with_defaults: bool) -> bytes:
        """Returns the job as the API's JSON.

        Raises JobFileError, InvalidInputError for a text that takes too long, and UnavailableError
        while too many wait.
        """
        if len(self._work) >= _MAX_WAITING:
            raise UnavailableError(
                f"cannot parse the job: {_MAX_WAITING} others wait for it already; try again"
            )
        file = JobFile("input.hcl", lambda: text, _NoFiles())
        var_files = [VarFile("input.vars.hcl", variables)] if variables else []
        form = Form.SPEC_WITH_DEFAULTS if with_defaults else Form.SPEC
        work = asyncio.create_task(self._parse(file, Inputs(var_files=var_files), form))
        self._work.add(work)
        work.add_done_callback(self._done)
        # A caller that goes away ends nothing: the thread goes on, and counts until it is done.
        return await asyncio.shield(work)

    async def _parse(self, file: JobFile, inputs: Inputs, form: Form) -> bytes:
        async with self._turn:
            try:
                return await asyncio.to_thread(self._pool.spec, file, inputs, form)
            except TimedOutError as error:
                raise InvalidInputError(str(error)) from error

    def _done(self, work: asyncio.Task[bytes]) -> None:
        self._work.discard(work)
        if not work.cancelled():
            work.exception()  # seen here too, since the caller may be gone

    async def close(self) -> None:
        """Refuses the callers that wait for a turn; finishes the current text first."""
        for work in self._work:
            work.cancel()
        await asyncio.to_thread(self._pool.close)
