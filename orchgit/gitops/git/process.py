"""Running git: always a child with an argument list, a clean environment, limits and a time-out.

The environment holds nothing of the server's. The only config git reads is the file written here
and the repository's own, which no repository content can change: no hooks, no external protocols,
every object checked on the way in.
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
from orchgit.gitops.git.urls import redact

_CONFIG = """\
[core]
\thooksPath = /dev/null
\tfsyncMethod = fsync
\tfsync = committed,loose-object
\talternateRefsCommand =
[transfer]
\tfsckObjects = true
\thideRefs = refs/orchgit
\tadvertiseSID = false
[protocol]
\tallow = never
[protocol "file"]
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
_TELLING = re.compile(r"^(fatal|error|ssh|remote):|denied|verification failed|not resolve")


@dataclass(frozen=True, slots=True)
class GitResult:
    """What a finished git said; `stderr` is already free of credentials."""

    returncode: int
    stdout: bytes
    stderr: str


class GitProcess:
    """Starts git children for one directory of mirrors."""

    def __init__(self, home: Path, limits: GitLimits) -> None:
        self._home = home
        self.limits = limits

    def prepare(self) -> None:
        """Write the config that every child reads; `safe.directory` lets local sources be read."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._home / "gitconfig").write_text(_CONFIG, encoding="ascii")

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
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
        """A running git with pipes; the leader of a process group, which `kill` ends whole."""
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
        self._limit(process.pid, max_file_bytes or self.limits.max_fetch_bytes)
        return process

    def _limit(self, pid: int, max_file_bytes: int) -> None:
        """Applied before any data is fed; children that git starts later inherit them."""
        limits = {
            resource.RLIMIT_AS: self.limits.max_git_memory_bytes,
            resource.RLIMIT_FSIZE: max_file_bytes,
            resource.RLIMIT_CORE: 0,
        }
        for which, value in limits.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, which, (value, value))

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
        """Run git to its end. TimedOutError and TooLargeError kill it and all it started."""
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
        """git's output as it comes. SourceError at the end if git failed: what came before is then
        worth nothing."""
        process = await self.start(args)
        feeding = asyncio.create_task(_feed(process, stdin))
        telling = asyncio.create_task(_read_tail(process))
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
            stderr = await telling
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
        """`run`, and a SourceError with git's own last words if it failed."""
        result = await self.run(args, timeout_s=timeout_s, cwd=cwd, env=env, stdin=stdin)
        if result.returncode != 0:
            raise SourceError(f"cannot run git {_verb(args)}: {last_words(result.stderr)}")
        return result.stdout


def _verb(args: Sequence[str]) -> str:
    """The first argument that is no option: no path of the server's is shown."""
    return next((arg for arg in args if not arg.startswith("-")), "")


def last_words(stderr: str) -> str:
    """The lines of git's stderr that say what went wrong, on one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines
    return "; ".join(telling[-3:])[:600] or "it said nothing"


async def kill(process: Child) -> None:
    """End the process and its group if it still runs, and reap it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # A pipe that nobody reads stays paused, and open.
    for pipe in (process.stdout, process.stderr):
        await _drain(pipe)
    await process.wait()


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    """Read to the end what is left, unless somebody else does."""
    with contextlib.suppress(RuntimeError):
        while pipe is not None and await pipe.read(_STREAM_BYTES):
            pass


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
        return  # git ended early; its exit status tells why


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
