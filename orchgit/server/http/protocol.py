"""One HTTP/1.1 connection: uvicorn's protocol, with limits on what a client may send, and when.

A request's URL and headers are at most `MAX_HEAD_BYTES`, of `MAX_HEADERS` headers. They are
complete within `HEAD_TIMEOUT_S`, and a body brings `BODY_BYTES` each `BODY_TIMEOUT_S`. The parser
gets what is read in slices, so that an endless head is refused after little work.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from orchgit.api.kept_answers import KEEP
from orchgit.server.http.clients import HttpClients
from orchgit.server.http.coalescing_transport import CoalescingTransport
from orchgit.server.http.kept_requests import KeptRequests

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 200
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 60.0
BODY_BYTES = 1024
UNREAD_S = 120.0
"""How long a reader of the event stream may take next to nothing of what waits for it."""
_EVENTS = "/v1/event/stream"
_SLICE_BYTES = 16 << 10
_LINGER_S = 1.0
"""A connection that is closed while the client still sends is reset, and the answer may be lost."""

_TOO_LARGE = (
    431,
    b"cannot take the request: its URL and headers together may have "
    b"%d bytes and %d headers\n" % (MAX_HEAD_BYTES, MAX_HEADERS),
)
_TOO_SLOW = (408, b"cannot wait any longer for the rest of the request\n")
_TOO_MANY = (
    429,
    b"cannot take another connection from this address: it has as many as "
    b"limits.http_max_conns_per_client allows; close some, or use those that are open\n",
)
_REASONS = {
    408: b"Request Timeout",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
}


_parse = HttpToolsProtocol.data_received
_begin = HttpToolsProtocol.on_headers_complete
_complete = HttpToolsProtocol.on_message_complete
"""Bound here since it is called for every request: no lookup by `super()`."""


class TooLargeHeadError(Exception):
    """Raised inside the parser, which reports it as an error of its own."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a coalescing transport, with limits.

    `counted` is the client's address, if it is counted already.
    """

    def __init__(
        self,
        counted: str | None = None,
        *,
        clients: HttpClients,
        kept: KeptRequests | None = None,
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self._clients = clients
        self._kept = kept
        self._gave_kept = False
        """Whether the request that is being read has been answered by `_kept`."""
        self._counted = counted
        self._is_too_large = False
        self._refused: tuple[int, bytes] | None = None
        self._head_began_s: float | None = None
        """When the incomplete head began. A head that begins in the packet that ends another
        request is left to the time-out of idle connections."""
        self._progressed = False
        """Whether the current slice brought the end of a head, a piece of a body, or its end."""
        self._without_progress = 0
        """Bytes of a head, or between the pieces of a body (chunk extensions, trailers), since the
        last progress."""
        self._body_bytes = 0
        self._body_mark: tuple[float, int] | None = None
        self._unread: asyncio.TimerHandle | None = None
        """Ends the connection of an event stream that its client does not read."""

    # -- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(CoalescingTransport(cast(asyncio.Transport, transport)))
        self._head_began_s = self.loop.time()
        address = self.client[0] if self.client else ""
        if self._counted is not None:
            return
        if self._clients.enter(address):
            self._counted = address
        else:
            self._refuse(_TOO_MANY)

    def pause_writing(self) -> None:
        super().pause_writing()
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if cycle is not None and cycle.scope["path"] == _EVENTS:
            # Closing would wait for the client to read what is buffered.
            self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_unread()
        self._leave()

    def data_received(self, data: bytes) -> None:
        if len(data) > _SLICE_BYTES or self._refused is not None:
            self._take_slices(data)
            return
        self._progressed = False
        _parse(self, data)
        if self._progressed:
            self._without_progress = 0
        else:
            self._note_no_progress(len(data))

    def _take_slices(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            if self._refused is not None or self.transport.get_protocol() is not self:
                return
            self.data_received(data[start : start + _SLICE_BYTES])

    def _note_no_progress(self, size: int) -> None:
        self._without_progress += size
        if self._refused is not None:
            return
        if self._without_progress > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif self._head_began_s is None and not self._is_in_body():
            self._head_began_s = self.loop.time()

    # -- called by the parser --------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        # A head that came in one slice cannot be too long.
        if len(self.headers) > MAX_HEADERS or (
            self._without_progress and self._head_bytes() > MAX_HEAD_BYTES
        ):
            self._is_too_large = True
            raise TooLargeHeadError
        self._progressed = True
        self._head_began_s = None
        is_get = self.parser.get_method() == b"GET"
        if self._kept is not None and is_get and self._give_kept(self._kept):
            return
        _begin(self)

    def _give_kept(self, kept: KeptRequests) -> bool:
        """Answers if the same was asked before, no other answer is under way on this connection,
        and its client takes what it gets; else has the answer kept."""
        cycle = self._begun
        if (
            (cycle is not None and not cycle.response_complete)
            or self.pipeline
            or self.flow.write_paused
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or self.parser.should_upgrade()
        ):
            return False
        answer = kept.find(self.url, self.headers, self.server_state.default_headers)
        if answer is None:
            scope = cast("dict[str, Any]", self.scope)
            scope[KEEP] = kept.keep_for(self.url, self.headers)
            return False
        self._gave_kept = True
        self.transport.write(answer)
        self.on_response_complete()
        return True

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progressed = True
        if self._gave_kept:
            self._gave_kept = False
            return
        _complete(self)

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # -- refusals --------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answers where the parser raised."""
        if self._is_too_large:
            self._refuse(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def end_if_overdue(self, now_s: float) -> None:
        """Refuses a request that the client has not sent in time."""
        if self._refused is not None or self.transport.is_closing():
            return
        if self._head_began_s is not None:
            if now_s - self._head_began_s > HEAD_TIMEOUT_S:
                self._refuse(_TOO_SLOW)
        elif not self._awaits_body():
            self._body_mark = None
        elif self._body_mark is None:
            self._body_mark = now_s, self._body_bytes
        elif now_s - self._body_mark[0] > BODY_TIMEOUT_S:
            if self._body_bytes - self._body_mark[1] < BODY_BYTES:
                self._refuse(_TOO_SLOW)
            self._body_mark = now_s, self._body_bytes

    @property
    def _begun(self) -> RequestResponseCycle | None:
        """Returns the newest request whose head is complete."""
        return cast("RequestResponseCycle | None", self.cycle)

    def _is_in_body(self) -> bool:
        cycle = self._begun
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def _awaits_body(self) -> bool:
        return (
            self._is_in_body()
            and not self.cycle.waiting_for_100_continue
            and not self.flow.read_paused
        )

    def _refuse(self, refusal: tuple[int, bytes]) -> None:
        """Answers where no other answer is under way, reads nothing more, and closes."""
        self._refused = refusal
        if not self._may_answer():
            self.transport.close()
            return
        if self._begun is not None and self._head_began_s is None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        status, text = refusal
        self.transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
            % (status, _REASONS[status], len(text), text)
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def _may_answer(self) -> bool:
        """Returns whether a refusal is sent; a client that sent nothing gets none."""
        cycle = self._begun
        if cycle is None:
            return self._without_progress > 0 or self._refused is not _TOO_SLOW
        if self._head_began_s is not None:
            return cycle.response_complete
        return not cycle.response_started and not self.pipeline

    # -- counting --------------------------------------------------------------------------------

    def handle_websocket_upgrade(self) -> None:
        self._leave()
        super().handle_websocket_upgrade()

    def _leave(self) -> None:
        if self._counted is not None:
            self._clients.leave(self._counted)
            self._counted = None


class SocketProtocol(WSProtocol):
    """uvicorn's websocket protocol; its connection stays counted."""

    def __init__(self, *, clients: HttpClients, **named: Any) -> None:
        super().__init__(**named)
        self._clients = clients
        self._counted: str | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self._clients.enter(address):
            self._counted = address

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._counted is not None:
            self._clients.leave(self._counted)
            self._counted = None
