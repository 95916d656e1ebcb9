"""Clone and fetch: runs `git http-backend` and streams its CGI answer as an HTTP response."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from orchgit.child import Child
from orchgit.gitops.git.process import GitProcess, kill
from orchgit.gitops.mirrors.mirror import Mirror

_log = structlog.get_logger(component="gitops")

_MAX_HEADER_BYTES = 16_384
_MAX_WANTS_BYTES = 32 * 1024 * 1024
_PASSED_ON = ("content-type", "expires", "pragma", "cache-control", "www-authenticate")


async def serve_upload_pack(git: GitProcess, mirror: Mirror, request: Request) -> Response:
    """Answers `info/refs?service=git-upload-pack` and `POST git-upload-pack`: 413 for a request
    that is too large, 500 if git gives no answer."""
    wants = await _read_wants(request)
    if wants is None:
        text = f"cannot answer a fetch that asks with more than {_MAX_WANTS_BYTES} bytes\n"
        return PlainTextResponse(text, 413)
    process = await git.start(["http-backend"], env=_cgi_environment(mirror, request))
    feeding = asyncio.create_task(_feed(process, wants))
    try:
        async with asyncio.timeout(git.limits.pack_timeout_s):
            status, headers = await _read_headers(process)
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        feeding.cancel()
        await kill(process)
        _log.warning("git http-backend gave no answer", source=mirror.name, error=repr(error))
        return PlainTextResponse("cannot read this repository: try again\n", 500)
    body = _body(process, feeding, git.limits.pack_timeout_s)
    return StreamingResponse(body, status, headers)


def _cgi_environment(mirror: Mirror, request: Request) -> dict[str, str]:
    """Returns the variables that upload-pack needs. Nothing that a client sends can name another
    service or path."""
    service = "info/refs" if request.method == "GET" else "git-upload-pack"
    return {
        "GIT_PROJECT_ROOT": str(mirror.path.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{mirror.path.name}/{service}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": "service=git-upload-pack" if request.method == "GET" else "",
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
    }


async def _read_wants(request: Request) -> bytes | None:
    """Returns the whole request, or None if it is too large.

    The request must be read before the response starts: a started response listens for the client's
    disconnect, and would swallow the rest of the request.
    """
    wants = bytearray()
    async for chunk in request.stream():
        wants += chunk
        if len(wants) > _MAX_WANTS_BYTES:
            return None
    return bytes(wants)


async def _feed(process: Child, wants: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has read what it wanted
        process.stdin.write(wants)
        await process.stdin.drain()
        process.stdin.close()


async def _read_headers(process: Child) -> tuple[int, dict[str, str]]:
    assert process.stdout is not None
    status = 200
    headers: dict[str, str] = {}
    read = 0
    while True:
        line = (await process.stdout.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")
        read += len(line)
        if not line or read > _MAX_HEADER_BYTES:
            return status, headers
        name, _, value = line.partition(":")
        if name.lower() == "status":
            status = int(value.split()[0])
        elif name.lower() in _PASSED_ON:
            headers[name] = value.strip()


async def _body(
    process: Child, feeding: asyncio.Task[None], timeout_s: float
) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    draining = asyncio.create_task(_drain_stderr(process))
    try:
        async with asyncio.timeout(timeout_s):
            while chunk := await process.stdout.read(65_536):
                yield chunk
    finally:
        feeding.cancel()
        await kill(process)
        await draining


async def _drain_stderr(process: Child) -> None:
    """Reads stderr, on which git would block otherwise."""
    assert process.stderr is not None
    while await process.stderr.read(65_536):
        pass
