"""The whole state as one file: `GET` saves it, `PUT` restores it.

`?git` includes the objects of the cluster's own repositories; Nomad's clients do not ask for them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import IO

from starlette.responses import Response, StreamingResponse

from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY
from orchgit.api.routing import endpoint
from orchgit.errors import NotLeaderError, RefusedError, TooLargeError, UnavailableError
from orchgit.services.cluster.snapshots import Repositories, restore_snapshot, save_snapshot

MAX_ARCHIVE_BYTES = 64 << 30
_GZIP_MAGIC, _GZIP_HEAD_BYTES = b"\x1f\x8b", 10
_READ_BYTES = 256 << 10


async def save(call: ApiCall) -> Response:
    repositories = _repositories(call) if call.flag("git") else None
    region, stale = call.api.server.region, call.flag("stale")
    saved = await save_snapshot(call.context, region, stale, repositories)
    headers = {
        **VARY,
        "Digest": saved.digest,
        "Content-Length": str(saved.size),
        "X-Nomad-Index": str(saved.meta.index),
        **call.contact_headers(),
    }
    return StreamingResponse(_content(saved.file), headers=headers, media_type="application/x-gzip")


def _repositories(call: ApiCall) -> Repositories | None:
    return call.api.gitops.backup if call.api.gitops is not None else None


async def _content(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while data := await asyncio.to_thread(file.read, _READ_BYTES):
            yield data


async def restore(call: ApiCall) -> Response:
    state = call.context.state
    if not state.cluster.is_leader:
        raise NotLeaderError(
            "cannot restore here: this server does not lead", state.cluster.leader_address
        )
    with tempfile.TemporaryFile(dir=state.store.path.parent) as file:
        try:
            await _receive(call, file)
        except OSError as error:
            raise UnavailableError(
                f"cannot take the snapshot: {error.strerror} ({state.store.path.parent})"
            ) from error
        _check_begin(file)
        file.seek(0)
        keyring = call.services.keyring
        force = call.flag("force")
        restored = await restore_snapshot(call.context, keyring, file, force, _repositories(call))
    return call.empty(index=restored.index)


def _check_begin(file: IO[bytes]) -> None:
    """Raises RefusedError, in the words that clients know, for what was never compressed."""
    file.seek(0)
    begin = file.read(_GZIP_HEAD_BYTES)
    problem = "" if begin.startswith(_GZIP_MAGIC) else "gzip: invalid header"
    if len(begin) < _GZIP_HEAD_BYTES:
        problem = "unexpected EOF"
    if problem:
        raise RefusedError(
            f"failed to restore from snapshot: failed to decompress snapshot: {problem}"
        )


async def _receive(call: ApiCall, file: IO[bytes]) -> None:
    size = 0
    async for chunk in call.request.stream():
        size += len(chunk)
        if size > MAX_ARCHIVE_BYTES:
            raise TooLargeError(f"cannot take the snapshot: it has more than {MAX_ARCHIVE_BYTES} B")
        await asyncio.to_thread(file.write, chunk)


ENDPOINTS = [endpoint("/v1/operator/snapshot", get=save, put=restore)]
