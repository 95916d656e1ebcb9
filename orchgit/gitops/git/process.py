"""Runs git as a child process with an argument list, a clean environment, limits and a time-out.

The environment holds nothing of the server's. git reads the config written here and the
repository's own, which no content of a repository can change: no hooks, no external protocols,
every object checked as it comes in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchgit.child import PIPE, Child, start_child
from orchgit.errors import SourceError, TimedOutError, TooLargeError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.text_files import TextFiles
from orchgit.gitops.git.urls import redact

_CONFIG = """\
[core]
\thooksPath = /dev/null
\tfsyncMethod = fsync
\tfsync = committed,loose-object
\talternateRefsCommand =
\tbigFileThreshold = 16m
[transfer]
\tfsckObjects = true
\thideRefs = refs/orchgit
\tadvertiseSID = false
[protocol]
\tallow = never
[protocol "file"]
\tallow = always
[protocol "git"]
\tallow = always
[protocol "http"]
\tallow = always
[protocol "https"]
\tallow = always
[protocol "ssh"]
\tallow = always
[http]
\tfollowRedirects = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fetch]
\trecurseSubmodules = false
\twriteCommitGraph = false
[submodule]
\trecurse = false
[safe]
\tdirectory = *
"""
_STDERR_KEPT = 8_192
_STREAM_BYTES = 256 * 1024
_ERROR_LINE = re.compile(r"^(fatal|error|ssh|remote):|denied|verification failed|not resolve")


@dataclass(frozen=True, slots=True)
class GitResult:
    """What a finished git wrote; credentials in `stderr` are redacted."""

    returncode: int
    stdout: bytes
    stderr: str


class GitProcess:
    """Starts git children for one directory of mirrors."""

    def __init__(self, home: Path, limits: GitLimits) -> None:
        self._home = home
        self.limits = limits
        self.files = TextFiles(home / "remote")

    def prepare(self) -> None:
        """Writes the config that every child reads; its `safe.directory` allows local sources of
        other users."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._home / "gitconfig").write_text(_CONFIG, encoding="ascii")

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Returns the whole environment of a child."""
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(self._home),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._home / "gitconfig"),
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_OPTIONAL_LOCKS": "0",
            **(extra or {}),
        }

    async def start(
        self,
        args: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        max_file_bytes: int = 0,
    ) -> Child:
        """Starts git with pipes, as the leader of a process group, which `kill` ends whole.

        `max_file_bytes` bounds each file that git writes; 0: `max_fetch_bytes`.
        """
        process = await start_child(
            "git",
            *args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd or self._home,
            env=self.environment(env),
            start_new_session=True,
        )
        # Set before any data is fed; children that git starts later inherit them.
        limits = {
            resource.RLIMIT_AS: self.limits.max_git_memory_bytes,
            resource.RLIMIT_FSIZE: max_file_bytes or self.limits.max_fetch_bytes,
            resource.RLIMIT_CORE: 0,
        }
        for which, value in limits.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, which, (value, value))
        return process

    async def run(
        self,
        args: Sequence[str],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: AsyncIterator[bytes] | bytes | None = None,
        max_output_bytes: int = 16 * 1024 * 1024,
        max_file_bytes: int = 0,
    ) -> GitResult:
        """Runs git to its end, whatever its exit status. Raises TimedOutError and, for an answer
        above `max_output_bytes`, TooLargeError; git and all that it started are killed then."""
        process = await self.start(args, cwd=cwd, env=env, max_file_bytes=max_file_bytes)
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr, _ = await asyncio.gather(
                    _read_capped(process, max_output_bytes),
                    _read_tail(process),
                    _feed(process, stdin),
                )
                returncode = await process.wait()
        except TimeoutError:
            raise TimedOutError(
                f"cannot finish git {_verb(args)} within its limit of {timeout_s:g} s"
            ) from None
        finally:
            await kill(process)
        return GitResult(returncode, stdout, redact(stderr.decode("utf-8", "replace")))

    async def stream(
        self, args: Sequence[str], *, timeout_s: float, stdin: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Yields git's output as it comes. Raises SourceError at the end if git failed; what was
        yielded is then invalid."""
        process = await self.start(args)
        feeding = asyncio.create_task(_feed(process, stdin))
        reading = asyncio.create_task(_read_tail(process))
        assert process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                while chunk := await process.stdout.read(_STREAM_BYTES):
                    yield chunk
                returncode = await process.wait()
        except TimeoutError:
            raise TimedOutError(
                f"cannot finish git {_verb(args)} within its limit of {timeout_s:g} s"
            ) from None
        finally:
            feeding.cancel()
            await kill(process)
            stderr = await reading
        if returncode != 0:
            words = last_words(redact(stderr.decode("utf-8", "replace")))
            raise SourceError(f"cannot run git {_verb(args)}: {words}")

    async def check(
        self,
        args: Sequence[str],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: AsyncIterator[bytes] | bytes | None = None,
    ) -> bytes:
        """Runs git and returns its output. Raises SourceError with git's own words if it failed."""
        result = await self.run(args, timeout_s=timeout_s, cwd=cwd, env=env, stdin=stdin)
        if result.returncode != 0:
            raise SourceError(f"cannot run git {_verb(args)}: {last_words(result.stderr)}")
        return result.stdout


def _verb(args: Sequence[str]) -> str:
    """Returns the first argument that is no option; errors show no path of the server's."""
    return next((arg for arg in args if not arg.startswith("-")), "")


def last_words(stderr: str) -> str:
    """Returns the lines of git's stderr that say what went wrong, on one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)] or lines
    return "; ".join(errors[-3:])[:600] or "it said nothing"


async def kill(process: Child) -> None:
    """Kills the process and its group if it still runs, and reaps it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # A pipe that nobody reads stays paused, and open.
    for pipe in (process.stdout, process.stderr):
        with contextlib.suppress(RuntimeError):  # another task reads it
            while pipe is not None and await pipe.read(_STREAM_BYTES):
                pass
    await process.wait()


async def _feed(process: Child, data: AsyncIterator[bytes] | bytes | None) -> None:
    assert process.stdin is not None
    try:
        if isinstance(data, bytes):
            process.stdin.write(data)
            await process.stdin.drain()
        elif data is not None:
            async for chunk in data:
                process.stdin.write(chunk)
                await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        return  # git ended early; its exit status says why


async def _read_capped(process: Child, limit: int) -> bytes:
    assert process.stdout is not None
    chunks: list[bytes] = []
    size = 0
    while chunk := await process.stdout.read(65_536):
        size += len(chunk)
        if size > limit:
            raise TooLargeError(f"cannot read git's answer: it is larger than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _read_tail(process: Child) -> bytes:
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(65_536):
        kept = (kept + chunk)[-_STDERR_KEPT:]
    return kept
