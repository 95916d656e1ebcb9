"""The built-in git remote over smart HTTP: `/git/<source>.git/...`.

Reading goes through `git http-backend`. Writing speaks receive-pack's protocol here, around
`git index-pack`: that is what lets one connection show the plan, commit the log entry and follow
the rollout, and saves the three processes git would start.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchgit.errors import InvalidInputError, NotFoundError, OrchgitError, UnavailableError
from orchgit.gitops.git.pktline import FLUSH, Band, ByteReader, band
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.gitops.remote.http_backend import serve_upload_pack
from orchgit.gitops.remote.push import PushReceiver, PushResult
from orchgit.gitops.remote.push_options import DETACH
from orchgit.gitops.remote.receive_protocol import PushRequest, advertisement, read_request, report
from orchgit.printable import printable
from orchgit.services.context import UseCaseContext

_log = structlog.get_logger(component="gitops")

_KEEP_ALIVE_S = 5.0
_NO_CACHE = {"Cache-Control": "no-cache, max-age=0, must-revalidate", "Pragma": "no-cache"}
_OVERSIZE_DRAINED = 16
"""A push over the limit is read to its end, at most this many times the limit, so that its author
reads why it was refused and not that the connection broke."""


@dataclass(frozen=True, slots=True)
class GitRemote:
    """The routes of the remote. Pushes are taken by the leader only."""

    context: UseCaseContext
    mirrors: MirrorStore
    git: GitProcess
    receiver: PushReceiver
    synchronizer: MirrorSynchronizer
    warm_up: Callable[[], None]
    """Called when a push begins: job files will be parsed a moment later."""

    def routes(self) -> list[Route]:
        prefix = "/git/{name}.git"
        return [
            Route(f"{prefix}/info/refs", self.info_refs, methods=["GET"]),
            Route(f"{prefix}/git-upload-pack", self.upload_pack, methods=["POST"]),
            Route(f"{prefix}/git-receive-pack", self.receive_pack, methods=["POST"]),
        ]

    def _mirror(self, request: Request) -> Mirror:
        name = request.path_params["name"]
        with self.context.snapshot() as snapshot:
            source = snapshot.sources.get(name)
        return self.mirrors.served(name, source.kind if source is not None else None)

    async def info_refs(self, request: Request) -> Response:
        try:
            mirror = self._mirror(request)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        service = request.query_params.get("service", "")
        try:
            await self.synchronizer.wait_until_current(mirror.name)
        except OrchgitError as error:
            return PlainTextResponse(f"{error}\n", 503, headers={"Retry-After": "5"})
        if service == "git-upload-pack":
            return await serve_upload_pack(self.git, mirror, request)
        if service != "git-receive-pack":
            return PlainTextResponse(
                "cannot serve the dumb protocol: use git 1.6.6 or newer\n", 403
            )
        asyncio.get_running_loop().run_in_executor(None, self.warm_up)
        content = advertisement(await self.synchronizer.shown_refs(mirror))
        media_type = "application/x-git-receive-pack-advertisement"
        return Response(content, media_type=media_type, headers=_NO_CACHE)

    async def upload_pack(self, request: Request) -> Response:
        try:
            mirror = self._mirror(request)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return await serve_upload_pack(self.git, mirror, request)

    async def receive_pack(self, request: Request) -> Response | PushAnswer:
        try:
            mirror = self._mirror(request)
            reader = ByteReader(_body(request), self.git.limits.max_push_bytes, "max_push_bytes")
            push = await read_request(reader)
        except NotFoundError as error:
            return PlainTextResponse(f"{error}\n", 404)
        except OrchgitError as error:
            return PlainTextResponse(f"{error}\n", 400)
        media_type = "application/x-git-receive-pack-result"
        if not push.commands:
            return Response(b"", media_type=media_type, headers=_NO_CACHE)
        if not {"report-status", "side-band-64k"} <= push.capabilities:
            text = "cannot push with this client: it lacks side-band-64k\n"
            return PlainTextResponse(text, 400)
        return PushAnswer(self, mirror, push, reader, _pusher(request))


class PushAnswer:
    """An ASGI response that carries out the push while it is being sent."""

    def __init__(
        self,
        remote: GitRemote,
        mirror: Mirror,
        push: PushRequest,
        reader: ByteReader,
        pusher: str,
    ) -> None:
        self._remote = remote
        self._mirror = mirror
        self._push = push
        self._reader = reader
        self._pusher = pusher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = _BandStream(send)
        result = await self._receive(stream)
        await stream.start()
        await stream.write(report(result.unpack_error, result.refusals))
        if result.rollout is not None and DETACH not in self._push.options:
            await self._follow(result, stream, receive)
        elif result.rollout is not None:
            await stream.say(
                f"continues in the background: orchgit rollout watch {result.rollout.id[:8]}"
            )
        await stream.end()

    async def _receive(self, stream: _BandStream) -> PushResult:
        """The push goes on when the client is gone: it may be committed already."""
        commands = self._push.commands
        try:
            if not self._remote.context.state.is_leader:
                raise UnavailableError("cannot push here: this server is not the leader")
            result = await self._remote.receiver.receive(
                self._mirror, self._push, self._reader.rest(), self._pusher, stream.say
            )
        except OrchgitError as error:
            result = PushResult([(c.ref, "nothing was changed") for c in commands], str(error))
        except Exception as error:  # noqa: BLE001 - the edge: every error becomes an answer
            _log.exception("a push broke", source=self._mirror.name)
            text = (
                f"cannot finish the push: internal error ({type(error).__name__}: {error}); "
                "`orchgit rollout list` shows whether the commit was applied"
            )
            result = PushResult([(c.ref, "failed") for c in commands], text)
        if result.unpack_error:
            await self._drain()
            await stream.say(result.unpack_error)
        return result

    async def _drain(self) -> None:
        with contextlib.suppress(OrchgitError):
            limit = self._remote.git.limits.max_push_bytes * _OVERSIZE_DRAINED
            self._reader.allow(limit)
            async for _ in self._reader.rest():
                pass

    async def _follow(self, result: PushResult, stream: _BandStream, receive: Receive) -> None:
        assert result.rollout is not None
        following = asyncio.create_task(
            self._remote.receiver.follow(result.rollout, stream.say), name="push follow"
        )
        gone = asyncio.create_task(_until_disconnect(receive), name="push client")
        try:
            while not following.done() and not gone.done():
                done, _ = await asyncio.wait(
                    (following, gone),
                    timeout=_KEEP_ALIVE_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    await stream.keep_alive()
            if following.done():
                following.result()
        except OrchgitError as error:
            await stream.say(f"cannot follow the rollout further: {error}")
        finally:
            for task in (following, gone):
                task.cancel()
            await asyncio.gather(following, gone, return_exceptions=True)


class _BandStream:
    """Sends bands as the body of one response; started by the first of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def start(self) -> None:
        if self._started:
            return
        self._started = True
        headers = [(b"content-type", b"application/x-git-receive-pack-result")]
        headers += [(name.lower().encode(), value.encode()) for name, value in _NO_CACHE.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def say(self, text: str) -> None:
        """Lines for the person who pushed; git shows each as `remote: ...`, on a terminal."""
        await self.start()
        await self.write(b"".join(band(Band.PROGRESS, f"{printable(text)}\n".encode())))

    async def keep_alive(self) -> None:
        await self.write(b"0005\x01")

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": FLUSH, "more_body": False})


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as error:
        raise InvalidInputError("cannot read the push: the client went away") from error


async def _body(request: Request) -> AsyncIterator[bytes]:
    """The request's body, unzipped if need be: the reader counts what comes out of here."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        async for chunk in _chunks(request):
            yield chunk
        return
    if encoding not in ("gzip", "x-gzip"):
        raise InvalidInputError(f"cannot read a body encoded as {encoding!r}: send it as it is")
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
    async for chunk in _chunks(request):
        data = chunk
        while data:
            try:
                yield inflate.decompress(data, 65_536)
            except zlib.error as error:
                raise InvalidInputError("cannot read the push: its gzip is broken") from error
            data = inflate.unconsumed_tail


def _pusher(request: Request) -> str:
    """Who pushes, as far as the request says."""
    host = request.client.host if request.client is not None else ""
    _log.debug("push", client=host)
    return host
