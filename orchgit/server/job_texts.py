"""Job files of the API's callers, parsed in a process that they share with no commit."""

from __future__ import annotations

import asyncio

from orchgit.errors import InvalidInputError, TimedOutError, UnavailableError
from orchgit.gitops.parse_frames import Form
from orchgit.gitops.parse_pool import ParsePool
from orchgit.gitops.parse_process import ParseLimits
from orchgit.gitops.parsing import Inputs, JobFile, VarFile

_LIMITS = ParseLimits(parse_processes=1, parse_timeout_s=5.0, idle_s=60.0)
_MAX_WAITING = 32


class _NoFiles:
    """What a text of a request may read: nothing."""

    def read(self, path: str) -> bytes:
        raise OSError("a request has no files")

    def exists(self, path: str) -> bool:
        return False

    def glob(self, base: str, pattern: str) -> list[str]:
        return []

    def absolute(self, path: str) -> str:
        return path


class JobTexts:
    """One text after the other: whoever sends expensive ones keeps only such callers waiting."""

    def __init__(self, limits: ParseLimits = _LIMITS) -> None:
        self._pool = ParsePool(limits)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def spec(self, text: bytes, variables: bytes, with_defaults: bool) -> bytes:
        """The job as the API's JSON. Raises JobFileError, InvalidInputError for a text that takes
        too long, and UnavailableError while too many wait."""
        if self._waiting >= _MAX_WAITING:
            raise UnavailableError(
                f"cannot parse the job: {_MAX_WAITING} others wait for it already; try again"
            )
        file = JobFile("input.hcl", lambda: text, _NoFiles())
        var_files = [VarFile("input.vars.hcl", variables)] if variables else []
        form = Form.SPEC_WITH_DEFAULTS if with_defaults else Form.SPEC
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(
                    self._pool.spec, file, Inputs(var_files=var_files), form
                )
        except TimedOutError as error:
            raise InvalidInputError(str(error)) from error
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.close)
