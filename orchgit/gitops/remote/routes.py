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

from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError, OrchgitError
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.gates.approvals import MAX_NAME_LENGTH
from orchgit.gitops.git.pktline import ByteReader
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.remote.access import OPEN, PUSH, READ, Callers, GitCaller, secret_of
from orchgit.gitops.remote.http_backend import serve_upload_pack
from orchgit.gitops.remote.push import PushReceiver, RemoteUser
from orchgit.gitops.remote.push_progress import PushProgress
from orchgit.gitops.remote.push_response import NO_CACHE, RESULT_TYPE, PushResponse
from orchgit.gitops.remote.receive_protocol import advertisement, read_request
from orchgit.query_values import first_values


@dataclass(frozen=True, slots=True)
class GitRemote:
    """The routes of the remote. Any server serves clones; only the leader takes pushes.

    `warm_up` is called when a push begins, since job files will be parsed a moment later.
    """

    services: CommitServices
    receiver: PushReceiver
    progress: PushProgress
    warm_up: Callable[[], None]
    callers: Callers | None = None
    """Finds who is behind a token; None: everyone may do everything."""

    def routes(self) -> list[Route]:
        prefix = "/git/{name}.git"
        return [
            Route(f"{prefix}/info/refs", self.info_refs, methods=["GET"]),
            Route(f"{prefix}/git-upload-pack", self.upload_pack, methods=["POST"]),
            Route(f"{prefix}/git-receive-pack", self.receive_pack, methods=["POST"]),
        ]

    def _admitted(self, request: Request) -> tuple[Mirror, GitCaller]:
        """Returns the built-in repository that the path names, and who asks for it.

        Raises NotFoundError unless there is one that the caller may read, and LoginError where a
        token may help.
        """
        name = request.path_params["name"]
        with self.services.context.snapshot() as snapshot:
            sources = snapshot.sources.of_repository(name)
        secret = secret_of(request.scope["headers"])
        caller = OPEN if self.callers is None else self.callers(secret)
        if caller is None:
            raise LoginError("cannot log in: the token is unknown or has expired")
        if not caller.may_read(sources):
            if not secret:
                raise LoginError(
                    "cannot read a repository without a token: give it as the password of the login"
                )
            raise NotFoundError(
                f"cannot find a git repository named {name!r} that this token may read "
                f"({READ} or {PUSH} in the namespace of one of its sources)"
            )
        return self.services.mirrors.served(name, sources[0].kind if sources else None), caller

    async def info_refs(self, request: Request) -> Response:
        """Lists the refs, for a clone, fetch or push; 503 while objects of them are missing."""
        synchronizer = self.services.synchronizer
        try:
            mirror, caller = self._admitted(request)
        except OrchgitError as error:
            return _refused(error)
        service = first_values(request.scope["query_string"]).get("service", "")
        if service == "git-receive-pack" and not caller.may_push(
            self.services.applier.sources_of(mirror.name)
        ):
            text = f"cannot push: the token lacks {PUSH} in the namespaces of the sources\n"
            return PlainTextResponse(text, 403)
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
            mirror, _ = self._admitted(request)
        except OrchgitError as error:
            return _refused(error)
        return await serve_upload_pack(self.services.git, mirror, request)

    async def receive_pack(self, request: Request) -> Response | PushResponse:
        """Takes a push. Its body is limited to `max_push_bytes`, counted after decompression."""
        limit = self.services.git.limits.max_push_bytes
        try:
            mirror, caller = self._admitted(request)
            reader = ByteReader(_body(request), limit, "max_push_bytes")
            push = await read_request(reader)
        except OrchgitError as error:
            return _refused(error)
        if not push.commands:
            return Response(b"", media_type=RESULT_TYPE, headers=NO_CACHE)
        if not {"report-status", "side-band-64k"} <= push.capabilities:
            text = "cannot push with this client: it lacks side-band-64k\n"
            return PlainTextResponse(text, 400)
        author = caller.author
        name = claimed_user(request) if author is None else author.name or author.accessor_id
        pusher = RemoteUser(name, caller)
        return PushResponse(self.receiver, self.progress, mirror, push, reader, pusher)


class LoginError(NotAllowedError):
    """The request has no token, or one of nobody's."""


def _refused(error: OrchgitError) -> Response:
    headers = None
    if isinstance(error, LoginError):
        status, headers = 401, {"WWW-Authenticate": 'Basic realm="orchgit"'}
    elif isinstance(error, NotFoundError):
        status = 404
    else:
        status = 400
    return PlainTextResponse(f"{error}\n", status, headers=headers)


def claimed_user(request: Request) -> str:
    """Returns who a request claims to come from while access control is off: the user of its login,
    whose password nobody checks, or else the client's address."""
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
