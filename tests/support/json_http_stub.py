"""An HTTP server on loopback that answers JSON; what it answers is its subclass's."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit


class StubRequest(NamedTuple):
    method: str
    path: str
    """Without the query, percent signs decoded."""
    headers: Any
    body: Any
    """None without one."""
    query: str = ""


class JsonHttpStub:
    """`with Stub() as stub`; each request is answered in a thread of its own."""

    def __init__(self) -> None:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                path = unquote(parts.path)
                body = json.loads(data) if data else None
                status, told = stub.answer(
                    StubRequest(self.command, path, self.headers, body, parts.query)
                )
                answer = b"" if told is None else json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                """A test's output stays free of requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(poll_interval=0.02), daemon=True
        )

    def answer(self, request: StubRequest) -> tuple[int, object]:
        """Returns status and body; None is an empty one."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
