"""The HTTP response to a push: text and the report of git's protocol, streamed as the push goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass

import structlog
from starlette.types import Receive, Scope, Send

from orchgit.errors import OrchgitError
from orchgit.gitops.git.pktline import FLUSH, Band, ByteReader, band
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.remote.push import Pusher, PushReceiver, PushResult, RemoteUser
from orchgit.gitops.remote.push_options import DETACH
from orchgit.gitops.remote.push_progress import PushProgress
from orchgit.gitops.remote.push_text import waiting_lines
from orchgit.gitops.remote.receive_protocol import PushRequest, report
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.printable import printable

RESULT_TYPE = "application/x-git-receive-pack-result"
NO_CACHE = {"Cache-Control": "no-cache, max-age=0, must-revalidate", "Pragma": "no-cache"}
_KEEP_ALIVE_S = 5.0
_MAX_OVERSIZE = 4
"""How many times the limit a push over the limit is read on, so that its author reads why it was
refused instead of a broken connection."""

_log = structlog.get_logger(component="gitops")


@dataclass(frozen=True, slots=True)
class PushResponse:
    """An ASGI response that carries out the push while it is sent."""

    receiver: PushReceiver
    progress: PushProgress
    mirror: Mirror
    push: PushRequest
    reader: ByteReader
    user: RemoteUser

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = _BandStream(send)
        result = await self._receive(stream)
        await stream.start()
        await stream.write(report(result.unpack_error, result.refusals))
        for rollout in result.rollouts:
            await self._follow(rollout, stream, receive, len(result.rollouts) > 1)
        await stream.end()

    async def _follow(
        self, rollout: Rollout, stream: _BandStream, receive: Receive, is_one_of_many: bool
    ) -> None:
        """Shows how the rollout goes on, unless the client asked not to wait, or the rollout waits
        for something that may take days."""
        if is_one_of_many:
            await stream.say(f"Source {rollout.source}:")
        if rollout.is_waiting:
            await stream.say("\n".join(waiting_lines(rollout)))
        elif DETACH in self.push.options:
            await stream.say(
                f"The rollout continues in the background: orchgit rollout watch {rollout.id[:8]}"
            )
        if DETACH in self.push.options or rollout.status == RolloutStatus.PENDING:
            return
        following = self.progress.follow(rollout, stream.say)
        await _until_done_or_disconnected(following, stream, receive)

    async def _receive(self, stream: _BandStream) -> PushResult:
        """Carries the push out, to its end even if the client leaves: it may be committed."""
        try:
            pusher = Pusher(self.user.name, stream.say, self.user.caller)
            result = await self.receiver.receive(self.mirror, self.push, self.reader.rest(), pusher)
        except OrchgitError as error:
            result = self._refused("nothing was changed", str(error))
        except Exception as error:  # noqa: BLE001 - the edge: every error becomes an answer
            _log.exception("a push failed with an internal error", source=self.mirror.name)
            text = (
                f"cannot finish the push: internal error ({type(error).__name__}: {error}); "
                "`orchgit rollout list` shows whether the commit was applied"
            )
            result = self._refused("failed", text)
        if result.unpack_error:
            with contextlib.suppress(OrchgitError):
                self.reader.allow(self.receiver.services.git.limits.max_push_bytes * _MAX_OVERSIZE)
                async for _ in self.reader.rest():
                    pass
            await stream.say(result.unpack_error)
        return result

    def _refused(self, why: str, unpack_error: str) -> PushResult:
        return PushResult([(each.ref, why) for each in self.push.commands], unpack_error)


class _BandStream:
    """Sends bands of git's protocol as the body of one response; the first one starts it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False

    async def start(self) -> None:
        if self._started:
            return
        self._started = True
        headers = [(b"content-type", RESULT_TYPE.encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in NO_CACHE.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def say(self, text: str) -> None:
        """Sends lines for the person who pushed; git shows each as `remote: ...`. The text is made
        safe for a terminal."""
        await self.start()
        await self.write(b"".join(band(Band.PROGRESS, f"{printable(text)}\n".encode())))

    async def keep_alive(self) -> None:
        await self.write(b"0005\x01")

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": FLUSH, "more_body": False})


async def _until_done_or_disconnected(
    following: Coroutine[None, None, None], stream: _BandStream, receive: Receive
) -> None:
    """Runs `following` to its end, or until the client disconnects; sends keep-alives meanwhile."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    follow = asyncio.create_task(following, name="push follow")
    gone = asyncio.create_task(disconnected(), name="push client")
    try:
        while not follow.done() and not gone.done():
            done, _ = await asyncio.wait(
                (follow, gone), timeout=_KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                await stream.keep_alive()
        if follow.done():
            follow.result()
    except OrchgitError as error:
        await stream.say(f"cannot follow the rollout further: {error}")
    finally:
        for task in (follow, gone):
            task.cancel()
        await asyncio.gather(follow, gone, return_exceptions=True)
