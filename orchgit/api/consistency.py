"""Has every request answered by the server that may answer it: this one, the leader, or another.

An ASGI app in front of the API. A request for the leader is forwarded whole; a forwarded request is
never forwarded again. A request is tried again, at the next leader, only while it cannot have
written anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.api.errors import text_response
from orchgit.api.placing import Place, is_safe, place_of, server_asked
from orchgit.clock import Clock
from orchgit.errors import NotLeaderError, OrchgitError
from orchgit.http_status import status_of
from orchgit.replication.leadership import WhileLeading
from orchgit.replication.proposal import RequestWrites

ELECTION_WAIT_S = 5.0
"""How long a request waits for a leader."""
WRITES = "orchgit.request_writes"
"""The key of a request's scope for its `RequestWrites`, where another server may be asked
instead."""
_RETRY_S = 0.025
_MAX_KEPT_BYTES = 1 << 20
"""A body up to this size is kept, to be sent to the next leader again."""

Forward = Callable[[Scope, Receive, Send, float], Awaitable[None]]
"""(scope, receive, send, seconds to wait for a leader). Raises NotLeaderError if nothing of the
request was done; another OrchgitError if that is not known, or cannot be."""


class LeadershipPort(Protocol):
    """What this server knows of its leadership."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def leads_for_certain(self) -> bool:
        """Whether no other server can lead by now; costs next to nothing to ask."""
        ...

    async def read_index(self) -> int:
        """Returns when a majority has confirmed that this server leads."""
        ...

    def while_leading(self) -> WhileLeading:
        """Ends what runs inside, with NotLeaderError, as soon as this server does not lead."""
        ...


class Consistency:
    """Answers a request here, or forwards it to the leader.

    `knows_node` says whether this server knows the node of a `/v1/client` request. `app_of` returns
    what has another server answer, by its name or id; None where that is no other server.
    """

    def __init__(
        self,
        app: ASGIApp,
        leading: LeadershipPort,
        knows_node: Callable[[Scope], bool],
        forward: Forward,
        app_of: Callable[[str], ASGIApp | None],
        clock: Clock,
    ) -> None:
        self._app = app
        self._leading = leading
        self._knows_node = knows_node
        self._forward = forward
        self._app_of = app_of
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = self._place(scope)
        if place is Place.HERE:
            await self._app(scope, receive, send)
            return
        try:
            if place is Place.SERVER:
                app = self._app_of(server_asked(scope["query_string"])) or self._app
                await app(scope, receive, send)
                return
            await self._by_leader(scope, receive, send, place)
        except NotLeaderError:
            if place is Place.REPOSITORY:
                # An older clone is better than none, and git shows which commit it has.
                await self._app(scope, receive, send)
                return
            await text_response("No cluster leader", 500)(scope, receive, send)
        except OrchgitError as error:
            await text_response(str(error), status_of(error))(scope, receive, send)

    async def forwarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request that another server forwarded.

        Raises NotLeaderError if this server does not lead and the request has written nothing.
        """
        place = place_of(scope["method"], scope["path"], scope["query_string"])
        if place is Place.SERVER:
            await self._app(scope, receive, send)
            return
        await self._as_leader(scope, receive, send, place)

    def _place(self, scope: Scope) -> Place:
        if scope["type"] != "http":
            return Place.HERE
        place = place_of(scope["method"], scope["path"], scope["query_string"])
        if place is Place.NODE:
            return Place.HERE if self._knows_node(scope) else Place.LEADER
        return place

    async def _by_leader(self, scope: Scope, receive: Receive, send: Send, place: Place) -> None:
        body = _Body(receive)
        began_s = self._clock.monotonic_s()
        left_s = ELECTION_WAIT_S
        while True:
            try:
                if self._leading.is_leader:
                    return await self._as_leader(scope, body.read, send, place)
                return await self._forward(scope, body.read, send, max(left_s, 0.0))
            except NotLeaderError:
                if left_s <= 0 or not body.rewind():
                    raise
            await self._clock.sleep(_RETRY_S)
            left_s = began_s + ELECTION_WAIT_S - self._clock.monotonic_s()

    async def _as_leader(self, scope: Scope, receive: Receive, send: Send, place: Place) -> None:
        if not self._leading.is_leader:
            raise NotLeaderError("cannot answer here: this server does not lead")
        is_read = is_safe(scope["method"])
        if place is Place.CURRENT or (is_read and not self._leading.leads_for_certain):
            await self._leading.read_index()
        scope[WRITES] = RequestWrites()
        if is_read and b"index=" in scope["query_string"]:
            await self._while_leading(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _while_leading(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends a blocking query when leadership is lost: it might wait for changes that never
        come."""
        async with self._leading.while_leading() as leading:

            async def noting(message: Message) -> None:
                leading.go_on()
                await send(message)

            await self._app(scope, receive, noting)


class _Body:
    """A request's body, kept while it is small, to be read again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[Message] = []
        self._bytes = 0
        self._next = 0

    async def read(self) -> Message:
        if self._next < len(self._kept):
            self._next += 1
            return self._kept[self._next - 1]
        message = await self._receive()
        if message["type"] == "http.request":
            self._keep(message)
        return message

    def _keep(self, message: Message) -> None:
        self._bytes += len(message.get("body", b""))
        if self._bytes > _MAX_KEPT_BYTES:
            self._kept.clear()
            return
        self._kept.append(message)
        self._next = len(self._kept)

    def rewind(self) -> bool:
        """Starts again at the beginning; returns False if that is not kept any more."""
        self._next = 0
        return self._bytes <= _MAX_KEPT_BYTES


__all__ = ["ELECTION_WAIT_S", "WRITES", "Consistency", "Forward", "LeadershipPort"]
