"""`/v1/client/fs/...`: listing and reading an allocation's files."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import os
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agent.paths import MissingFileError, open_inside
from agent.serve.frames import Frames, follow_file
from agent.serve.replies import Handler, json_reply, number
from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError, OrchgitError
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent

CHUNK_BYTES = 64 * 1024
_NO_LIMIT = -1
_INERT = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "X-XSS-Protection": "1; mode=block",
}
"""A file's bytes are its task's: no browser may take them for a page."""
_PROHIBITED = ("secrets", "private")
_SNIFF_BYTES = 512


def routes(agent: Agent) -> list[BaseRoute]:
    fs = _Files(agent)
    return [
        Route("/v1/client/fs/ls/{alloc_id}", fs.ls),
        Route("/v1/client/fs/stat/{alloc_id}", fs.stat),
        Route("/v1/client/fs/cat/{alloc_id}", _told_as_text(fs.cat)),
        Route("/v1/client/fs/readat/{alloc_id}", _told_as_text(fs.read_at)),
        Route("/v1/client/fs/stream/{alloc_id}", fs.stream),
    ]


def _told_as_text(handler: Handler) -> Handler:
    """Returns the handler with errors as bodies of status 200, as clients of Nomad know them."""

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except OrchgitError as error:
            return PlainTextResponse(str(error))

    return told


class _Files:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def ls(self, request: Request) -> Response:
        """Without a path: the top directory."""
        path = first_values(request.scope["query_string"]).get("path") or "/"
        fd = self._open(request, path, os.O_RDONLY | os.O_DIRECTORY, action="open")
        return await asyncio.to_thread(_listing, fd)

    async def stat(self, request: Request) -> Response:
        path = _path(request)
        fd = self._open(request, path)
        try:
            top = str(request.path_params["alloc_id"])
            info = _info(os.path.basename(path.rstrip("/")) or top, os.fstat(fd))
            start = b"\0" if info["IsDir"] else os.pread(fd, _SNIFF_BYTES, 0)
            info["ContentType"] = _content_type(str(info["Name"]), start)
        finally:
            os.close(fd)
        return json_reply(info)

    async def cat(self, request: Request) -> Response:
        return _body(self._open_file(request), 0, None)

    async def read_at(self, request: Request) -> Response:
        """`limit` bytes from `offset` on; a limit of -1 means: to the end."""
        offset = number(request, "offset")
        limit = number(request, "limit", least=_NO_LIMIT)
        return _body(self._open_file(request), offset, None if limit == _NO_LIMIT else limit)

    async def stream(self, request: Request) -> Response:
        path = _path(request)
        offset = number(request, "offset", 0)
        origin = first_values(request.scope["query_string"]).get("origin", "start")
        if origin not in ("start", "end"):
            raise InvalidInputError('cannot stream: origin must be "start" or "end"')
        follow = first_values(request.scope["query_string"]).get("follow", "true") == "true"
        fd = self._open_file(request)
        size = os.fstat(fd).st_size
        offset = max(0, size - offset) if origin == "end" else min(offset, size)
        body = follow_file(fd, offset, Frames(path, plain=False), follow, self._agent.clock)
        return StreamingResponse(body, media_type="text/plain")

    def _open_file(self, request: Request) -> int:
        fd = self._open(request, _path(request))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise InvalidInputError(f'file "{_path(request)}" is a directory')
        return fd

    def _open(
        self, request: Request, path: str, flags: int = os.O_RDONLY, action: str = "stat"
    ) -> int:
        runner = self._agent.allocations.get(request.path_params["alloc_id"])
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if len(parts) > 1 and parts[1] in _PROHIBITED and parts[0] in runner.tasks:
            raise NotAllowedError(f"Reading secret file prohibited: {path}")
        if runner.local.files_removed:
            raise NotFoundError("cannot read: the allocation's files have been garbage collected")
        root = runner.context.paths.root
        try:
            return open_inside(root, path, flags)
        except MissingFileError:
            shown = os.path.join(root, *parts)
            raise NotFoundError(f"{action} {shown}: no such file or directory") from None


def _path(request: Request) -> str:
    path = first_values(request.scope["query_string"]).get("path", "")
    if not path:
        raise InvalidInputError("must provide a file name")
    return path


def _info(name: str, status: os.stat_result) -> dict[str, object]:
    return {
        "Name": name,
        "IsDir": stat.S_ISDIR(status.st_mode),
        "Size": status.st_size,
        "FileMode": stat.filemode(status.st_mode),
        "ModTime": datetime.fromtimestamp(status.st_mtime, UTC),
    }


def _listing(fd: int) -> Response:
    """The entries of a directory, which is closed then; those that go meanwhile are left out."""
    infos = []
    try:
        for name in sorted(os.listdir(fd)):
            with contextlib.suppress(FileNotFoundError):
                infos.append(_info(name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
    finally:
        os.close(fd)
    return json_reply(infos)


def _content_type(name: str, start: bytes) -> str:
    guessed, _ = mimetypes.guess_type(name)
    if guessed:
        return f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed
    return "application/octet-stream" if b"\0" in start else "text/plain; charset=utf-8"


def _body(fd: int, offset: int, limit: int | None) -> Response:
    """A file's bytes. What fits one chunk is answered with its length, the rest in chunks."""
    size = max(0, os.fstat(fd).st_size - offset)
    wanted = size if limit is None else min(size, limit)
    if wanted <= CHUNK_BYTES:
        try:
            data = os.pread(fd, wanted, offset) if wanted else b""
        finally:
            os.close(fd)
        return PlainTextResponse(data, headers=_INERT)
    return StreamingResponse(
        _chunks(fd, offset, wanted), media_type="text/plain; charset=utf-8", headers=_INERT
    )


async def _chunks(fd: int, offset: int, wanted: int) -> AsyncIterator[bytes]:
    try:
        while wanted > 0 and (data := os.pread(fd, min(wanted, CHUNK_BYTES), offset)):
            offset += len(data)
            wanted -= len(data)
            yield data
    finally:
        os.close(fd)
