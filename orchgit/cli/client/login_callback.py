"""The page that a browser comes back to after a login: a listener on this machine."""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchgit.errors import InvalidInputError, TimedOutError
from orchgit.host_port import join_host_port, split_host_port

WAIT_S = 300.0
_REQUEST_S = 5.0
_DONE = b"The terminal says whether you are logged in. You can close this page.\n"
_REFUSED = b"This is no answer to the login that orchgit waits for.\n"


@dataclass(frozen=True, slots=True)
class LoginCode:
    state: str = field(repr=False)
    code: str = field(repr=False)


class LoginCallback:
    """A context manager; port 0 of `address` is any free one."""

    def __init__(self, address: str, path: str) -> None:
        host, port = split_host_port(address)
        self._asked = ""

        class Page(BaseHTTPRequestHandler):
            timeout = _REQUEST_S

            def do_GET(page) -> None:
                self._asked = page.path
                data = _DONE if "code=" in page.path else _REFUSED
                page.send_response(200)
                page.send_header("Content-Type", "text/plain; charset=utf-8")
                page.send_header("Content-Length", str(len(data)))
                page.end_headers()
                page.wfile.write(data)

            def log_message(page, format: str, *args: Any) -> None:
                """Prints nothing: the path holds the code."""

        try:
            self._server = HTTPServer((host, port), Page)
        except OSError as error:
            raise InvalidInputError(
                f"cannot listen on {address} for the browser: {error.strerror or error}; give "
                "another address by -oidc-callback-addr"
            ) from error
        self._path = path
        self.uri = f"http://{join_host_port(host, self._server.server_port)}{path}"

    def __enter__(self) -> LoginCallback:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.server_close()

    def wait(self, state: str, timeout_s: float = WAIT_S) -> LoginCode:
        """Returns what the browser brings for the login with this `state`.

        Raises TimedOutError, and InvalidInputError where the provider refused.
        """
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._server.timeout = left_s
            self._asked = ""
            self._server.handle_request()
            parts = urlsplit(self._asked)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            is_ours = hmac.compare_digest(query.get("state", "").encode(), state.encode())
            if parts.path != self._path or not is_ours:
                continue
            if "code" not in query:
                reason = query.get("error_description") or query.get("error") or "no code came"
                raise InvalidInputError(f"cannot log in: the provider refused: {reason[:200]}")
            return LoginCode(state, query["code"])
        raise TimedOutError(f"cannot log in: the browser did not come back within {timeout_s:g} s")
