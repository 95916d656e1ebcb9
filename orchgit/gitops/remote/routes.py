"""The routes of the built-in git remote: smart HTTP at `/git/<source>.git/...`.

Clone and fetch go through `git http-backend`. A push speaks receive-pack's protocol here, around
`git index-pack`: so one connection shows the plan, commits the log entry and follows the rollout,
and git starts three processes fewer.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchgit.errors import InvalidInputError, NotFoundError, OrchgitError
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.gates.approvals import MAX_NAME_LENGTH
from orchgit.gitops.git.pktline import ByteReader
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.remote.http_backend import serve_upload_pack
from orchgit.gitops.remote.push import PushReceiver
from orchgit.gitops.remote.push_progress import PushProgress
from orchgit.gitops.remote.push_response import NO_CACHE, RESULT_TYPE, PushResponse
from orchgit.gitops.remote.receive_protocol import advertisement, read_request


@dataclass(frozen=True, slots=True)
class GitRemote:
    """The routes of the remote. Any server serves clones; only the leader takes pushes.

    `warm_up` is called when a push begins, since job files will be parsed a moment later.
    """

    services: CommitServices
    receiver: PushReceiver
    progress: PushProgress
    warm_up: Callable[[], None]

    def routes(self) -> list[Route]:
        prefix = "/git/{name}.git"
        return [
            Route(f"{prefix}/info/refs", self.info_refs, methods=["GET"]),
            Route(f"{prefix}/git-upload-pack", self.upload_pack, methods=["POST"]),
            Route(f"{prefix}/git-receive-pack", self.receive_pack, methods=["POST"]),
        ]

    def _mirror(self, request: Request) -> Mirror:
        """Raises NotFoundError unless the path names a built-in repository."""
        name = request.path_params["name"]
        with self.services.context.snapshot() as snapshot:
            sources = snapshot.sources.of_repository(name)
        return self.services.mirrors.served(name, sources[0].kind if sources else None)

    async def info_refs(self, request: Request) -> Response:
        """Lists the refs, for a clone, fetch or push; 503 while objects of them are missing."""
        synchronizer = self.services.synchronizer
        try:
            mirror = self._mirror(request)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        service = request.query_params.get("service", "")
        try:
            await synchronizer.wait_until_current(mirror.name)
        except OrchgitError as error:
            return PlainTextResponse(f"{error}\n", 503, headers={"Retry-After": "5"})
        if service == "git-upload-pack":
            return await serve_upload_pack(self.services.git, mirror, request)
        if service != "git-receive-pack":
            return PlainTextResponse(
                "cannot serve the dumb protocol: use git 1.6.6 or newer\n", 403
            )
        asyncio.get_running_loop().run_in_executor(None, self.warm_up)
        content = advertisement(await synchronizer.shown_refs(mirror))
        media_type = "application/x-git-receive-pack-advertisement"
        return Response(content, media_type=media_type, headers=NO_CACHE)

    async def upload_pack(self, request: Request) -> Response:
        """Sends the objects of a clone or fetch."""
        try:
            mirror = self._mirror(request)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return await serve_upload_pack(self.services.git, mirror, request)

    async def receive_pack(self, request: Request) -> Response | PushResponse:
        """Takes a push. Its body is limited to `max_push_bytes`, counted after decompression."""
        limit = self.services.git.limits.max_push_bytes
        try:
            mirror = self._mirror(request)
            reader = ByteReader(_body(request), limit, "max_push_bytes")
            push = await read_request(reader)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        except OrchgitError as error:
            return PlainTextResponse(f"{error}\n", 400)
        if not push.commands:
            return Response(b"", media_type=RESULT_TYPE, headers=NO_CACHE)
        if not {"report-status", "side-band-64k"} <= push.capabilities:
            text = "cannot push with this client: it lacks side-band-64k\n"
            return PlainTextResponse(text, 400)
        pusher = claimed_user(request)
        return PushResponse(self.receiver, self.progress, mirror, push, reader, pusher)


def claimed_user(request: Request) -> str:
    """Returns who a request claims to come from: the user of its login, whose password nobody
    checks, or else the client's address."""
    scheme, _, login = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user = base64.b64decode(login, validate=True).decode().partition(":")[0].strip()
        except ValueError:
            user = ""
        if user and user.isprintable() and len(user) <= MAX_NAME_LENGTH:
            return user
    return request.client.host if request.client is not None else ""


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Yields the request's body, unzipped if it is gzip, in pieces of at most 64 KiB then."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise InvalidInputError(f"cannot read a body encoded as {encoding!r}: send it as it is")
    inflate = None if encoding == "identity" else zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        async for chunk in request.stream():
            if inflate is None:
                yield chunk
                continue
            data = chunk
            while data:
                yield inflate.decompress(data, 65_536)
                data = inflate.unconsumed_tail
    except ClientDisconnect as error:
        raise InvalidInputError("cannot read the push: the client went away") from error
    except zlib.error as error:
        raise InvalidInputError("cannot read the push: its gzip is broken") from error
