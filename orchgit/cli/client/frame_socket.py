"""A websocket that carries JSON objects in both directions, for commands in tasks."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Message,
    Ping,
    RejectConnection,
    RejectData,
    Request,
)
from wsproto.utilities import ProtocolError

from orchgit.cli.client.exchange import BrokenError, ClientRequest, Url

_NORMAL_CLOSURE = 1000
_PIECE_BYTES = 64 * 1024
_MAX_FRAME_CHARS = 16 << 20


class FrameSocket:
    """`send` may be called from another thread than the one that reads `frames`."""

    def __init__(self, raw: socket.socket, url: Url, request: ClientRequest) -> None:
        """Takes the connection over. Raises BrokenError where the server refuses."""
        self._raw = raw
        self._lock = threading.Lock()
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._text = ""
        self._closed = ""
        headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
        self._raw.settimeout(None)
        opening = Request(host=url.netloc, target=url.path + request.path, extra_headers=headers)
        try:
            self._raw.sendall(self._connection.send(opening))
            self._accepted()
        except (OSError, ProtocolError) as error:
            self.close()
            raise BrokenError(str(getattr(error, "strerror", None) or error)) from error
        except BrokenError:
            self.close()
            raise

    def send(self, frame: dict[str, Any]) -> None:
        """Raises OSError where the connection is closed."""
        with self._lock:
            try:
                data = self._connection.send(Message(json.dumps(frame)))
            except ProtocolError as error:
                raise OSError(str(error)) from error
            self._raw.sendall(data)

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yields what the server sends until it closes. Raises BrokenError with its reason where
        it closes with an error, or breaks off."""
        while True:
            yield from self._read_frames()
            if self._closed:
                return
            self._receive()

    def close(self) -> None:
        self._raw.close()

    def _accepted(self) -> None:
        refusal = b""
        is_refused = False
        while True:
            for event in self._connection.events():
                match event:
                    case AcceptConnection():
                        return
                    case RejectConnection():
                        is_refused = True
                        if not event.has_body:
                            raise BrokenError(f"refused with status {event.status_code}")
                    case RejectData():
                        refusal += event.data
                        if event.body_finished:
                            raise BrokenError(refusal.decode("utf-8", "replace").strip())
            self._receive(ends_refusal=is_refused)

    def _receive(self, ends_refusal: bool = False) -> None:
        data = self._raw.recv(_PIECE_BYTES)
        if not data and not ends_refusal:
            raise BrokenError("the server broke off")
        try:
            self._connection.receive_data(data or None)
        except ProtocolError as error:
            raise BrokenError(f"the answer is not a websocket's ({error})") from error

    def _read_frames(self) -> Iterator[dict[str, Any]]:
        for event in self._connection.events():
            match event:
                case Ping():
                    with self._lock:
                        self._raw.sendall(self._connection.send(event.response()))
                case CloseConnection():
                    self._closed = event.reason or "closed"
                    if event.code != _NORMAL_CLOSURE:
                        raise BrokenError(event.reason or f"closed with code {event.code}")
                case Message():
                    data = event.data
                    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
                    self._text += str(text)
                    if len(self._text) > _MAX_FRAME_CHARS:
                        raise BrokenError("the server sent a frame of more than 16 MiB")
                    if event.message_finished:
                        whole, self._text = self._text, ""
                        yield json.loads(whole)
