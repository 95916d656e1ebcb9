"""The HTTP side of the command line: one client, text errors turned into one exception."""

from __future__ import annotations

import codecs
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from orchgit import __version__
from orchgit.cli.client.exchange import ClientRequest, ExchangeError, ServerAnswer
from orchgit.cli.client.first_server import FirstServer
from orchgit.cli.client.next_steps import with_next_step
from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.client.unreachable import why_unreachable
from orchgit.cli.user_name import user_name
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError, OrchgitError

if TYPE_CHECKING:
    from orchgit.cli.client.frame_socket import FrameSocket

_ANSWERED = 200
_UNHEALTHY = 429
DEFAULT_ADDRESS = "http://127.0.0.1:4646"
_LONGEST_S = 660.0
"""For a write, or a stream that says nothing: as long as a blocking query may last."""
_LONGEST_WAIT = "10m"
_LATE_S = 15.0
"""How late the answer to a blocking query may be before the server is taken for dead."""
_SLOW_S = 10.0
"""After so much silence the command says what it waits for."""
_LONGEST_REFUSAL = 4000
_PAUSE_S = 0.2
_INDEX_DIGITS = 20
_COMPARED_IDS = 500
"""Among how many ids one is looked for that is nearly the same."""
_UUID_LENGTH = 36
_FORBIDDEN = 403
_LISTED_BY = {
    "alloc": "job allocs JOB",
    "claim": "volume claim list",
    "eval": "eval list",
    "scaling policy": "scaling policy list",
}
"""Kind of object -> the command that lists them, where that is not its `status`."""
_READ_S = 60.0
"""For a read that does not wait for a change; without a leader servers answer after 5 s."""


class ApiError(OrchgitError):
    """The server refused (`status`), or could not be reached (`status` 0)."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def quoted(segment: str) -> str:
    """Returns one segment of a path; job ids may hold slashes."""
    return quote(segment, safe="")


def _tell(line: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class ApiClient:
    """Requests to one server, with the namespace, region and token of the command."""

    def __init__(
        self,
        address: str | None = None,
        namespace: str | None = None,
        region: str | None = None,
        token: str | None = None,
        tls: TlsClient | None = None,
        sleep: Callable[[float], None] = time.sleep,
        slow_s: float = _SLOW_S,
    ) -> None:
        """`address`: one URL, or several separated by commas. After `slow_s` without an answer,
        standard error tells what is waited for."""
        self._sleep = sleep
        self._slow_s = slow_s
        parts = [one.strip().rstrip("/") for one in (address or DEFAULT_ADDRESS).split(",")]
        addresses = [one for one in parts if one]
        if not addresses:
            raise InvalidInputError(f"cannot use {address!r}: write it like {DEFAULT_ADDRESS}")
        self.tls = tls or TlsClient()
        self._servers = FirstServer(addresses, tls=self.tls)
        self._addresses = ", ".join(addresses)
        self.namespace = namespace
        self._params = {
            key: value for key, value in (("namespace", namespace), ("region", region)) if value
        }
        self._headers = {"User-Agent": f"orchgit/{__version__}"}
        self.has_token = bool(token)
        if token:
            if not (token.isascii() and token.isprintable()):
                raise InvalidInputError(
                    "cannot use the token of -token or ORCHGIT_TOKEN: it has characters that no "
                    "token has, a line end perhaps"
                )
            self._headers["X-Nomad-Token"] = token
        if user := user_name():
            # A claim: the server cannot check it.
            self._headers["X-Orchgit-User"] = quote(user, safe=" @._-")
        self._asked = ""

    @property
    def address(self) -> str:
        """The address of the server that answers."""
        return self._servers.address

    @property
    def web_address(self) -> str:
        """The address as browsers and git can use it; that of a socket on this machine they cannot,
        so it is only the form of one."""
        return "http://SERVER:PORT" if self.socket_path else self.address

    @property
    def socket_path(self) -> str:
        """The path of the unix socket of the server that answers, or ""."""
        return self._servers.url.host if self._servers.url.scheme == "unix" else ""

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._servers.close()

    def get(self, path: str, /, **params: Any) -> Any:
        return self._json(self._request("GET", path, params))

    def autopilot_health(self) -> Any:
        """Returns the servers' health; an unhealthy cluster's answer has an error's status."""
        path = "/v1/operator/autopilot/health"
        response = self._send("GET", path, {})
        if response.status not in (200, _UNHEALTHY):
            raise self._refusal(response)
        return self._json(response)

    def get_text(self, path: str, /, **params: Any) -> str:
        return self._request("GET", path, params).text

    def put(self, path: str, body: Any = None, /, **params: Any) -> Any:
        return self._written(self._request("PUT", path, params, body))

    def post(self, path: str, body: Any = None, /, **params: Any) -> Any:
        return self._written(self._request("POST", path, params, body))

    def delete(self, path: str, /, **params: Any) -> Any:
        return self._written(self._request("DELETE", path, params))

    def delete_with(self, path: str, body: Any, /, **params: Any) -> Any:
        """Sends a DELETE that says in its body what to delete."""
        return self._written(self._request("DELETE", path, params, body))

    def raw(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], **params: Any
    ) -> str:
        """Sends any request; returns the body of the answer as text."""
        request = self._prepared(method, path, params, body, _LONGEST_S)
        response = self._answered(replace(request, headers={**request.headers, **headers}))
        if response.status >= 400:
            raise self._refusal(response)
        return response.text

    def get_page(self, path: str, /, **params: Any) -> tuple[Any, str]:
        """Returns one page of a list, and the token of the next ("" where it is the last)."""
        response = self._request("GET", path, params)
        return self._json(response), response.next_token

    def blocking_get(self, path: str, index: int, **params: Any) -> tuple[int, Any]:
        """Waits, for 60 s unless `wait` says otherwise, until the answer is newer than `index`;
        returns its index and the answer."""
        response = self._request("GET", path, {"wait": "60s", **params, "index": index})
        if index and response.index == index:
            # A server that does not wait is not asked without a pause.
            self._sleep(_PAUSE_S)
        return response.index, self._json(response)

    def stream_lines(
        self,
        path: str,
        /,
        opened: Callable[[], None] | None = None,
        silence_s: float = _LONGEST_S,
        **params: Any,
    ) -> Iterator[str]:
        rest = ""
        for text in self.stream_text(path, opened, silence_s, **params):
            *lines, rest = (rest + text).split("\n")
            yield from lines
        if rest:
            yield rest

    def stream_text(
        self,
        path: str,
        /,
        opened: Callable[[], None] | None = None,
        silence_s: float = _LONGEST_S,
        **params: Any,
    ) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for data in self.stream_bytes(path, opened, silence_s, **params):
            yield decoder.decode(data)

    def stream_bytes(
        self,
        path: str,
        /,
        opened: Callable[[], None] | None = None,
        silence_s: float = _LONGEST_S,
        **params: Any,
    ) -> Iterator[bytes]:
        """Yields the body as it comes; raises ApiError when it has said nothing for `silence_s`.

        Calls `opened` when the first bytes of a stream come. A body whose length is known is no
        stream: it is a whole answer, perhaps of another program.
        """
        with self._streamed(path, params, silence_s) as answer:
            if answer.header("Content-Length"):
                opened = None
            for data in answer.pieces():
                if opened is not None:
                    opened()
                    opened = None
                yield data

    def download(self, path: str, file: IO[bytes], /, **params: Any) -> Mapping[str, str]:
        """Writes the body into `file` as it comes; returns the answer's digest, as its header."""
        with self._streamed(path, params) as answer:
            for data in answer.pieces():
                file.write(data)
            return {"Digest": answer.header("Digest")}

    @contextmanager
    def _streamed(
        self, path: str, params: dict[str, Any], silence_s: float = _LONGEST_S
    ) -> Iterator[ServerAnswer]:
        request = self._prepared("GET", path, params, None, silence_s)
        try:
            answer = self._servers.send(request)
            try:
                if answer.status >= 400:
                    raise self._refusal(_Response.read_from(answer))
                yield answer
            finally:
                answer.close()
        except ExchangeError as error:
            raise self._unreachable(error) from error

    def upload(self, path: str, content: Iterator[bytes], size: int, /, **params: Any) -> None:
        """Sends `content` as the body of a PUT, as it is read."""
        request = self._prepared("PUT", path, params, content, _LONGEST_S)
        request = replace(request, headers={**request.headers, "Content-Length": str(size)})
        response = self._answered(request)
        if response.status >= 400:
            raise self._refusal(response)

    def websocket(self, path: str, /, **params: Any) -> FrameSocket:
        """Opens a websocket that carries JSON objects; raises ApiError."""
        from orchgit.cli.client.frame_socket import FrameSocket

        request = self._prepared("GET", path, params, None, _LONGEST_S)
        try:
            # The request before this one found the server that answers.
            raw = self._servers.open_socket()
            return FrameSocket(raw, self._servers.url, request)
        except ExchangeError as error:
            raise self._unreachable(error) from error

    def unexpected(self, error: Exception) -> ApiError:
        """Returns the error for an answer that lacks what a command read from it."""
        return ApiError(
            f"cannot understand what {self.address} answered to {self._asked or 'the request'} "
            f"({type(error).__name__}: {error}): is a server of orchgit or Nomad there, and of "
            "this version? ORCHGIT_TRACEBACK=1 shows more",
            _ANSWERED,
        )

    def find(self, kind: str, path: str, prefix: str, **params: Any) -> dict[str, Any]:
        """Returns the one object of a list whose id begins with `prefix`; errors name the
        candidates, or the ids that are nearly the same."""
        try:
            listed = self.get(path, prefix=prefix, **params) or []
        except ApiError as error:
            # Lists whose ids are UUIDs refuse what cannot begin one.
            if "Invalid UUID" not in error.message:
                raise
            listed = []
        # Not every list of a server knows the query `prefix`.
        found = [item for item in listed if item["ID"].startswith(prefix)]
        exact = [item for item in found if item["ID"] == prefix]
        if len(exact or found) == 1:
            return dict((exact or found)[0])
        if not found:
            listing = _LISTED_BY.get(kind, f"{kind} status")
            raise ApiError(
                f"cannot find {kind} {prefix!r}: no id begins with it; "
                f"{near_or_listed(self, prefix, path, 'ID', listing, **params)}",
                404,
            )
        names = ", ".join(item["ID"] for item in found[:5])
        raise ApiError(
            f"cannot tell which {kind} is meant: {prefix!r} matches {len(found)}: {names}"
        )

    def _request(
        self, method: str, path: str, params: dict[str, Any], body: Any = None
    ) -> _Response:
        response = self._send(method, path, params, body)
        if response.status >= 400:
            raise self._refusal(response)
        return response

    def _send(self, method: str, path: str, params: dict[str, Any], body: Any = None) -> _Response:
        content = None if body is None else json.dumps(body).encode()
        timeout_s = _LONGEST_S if method != "GET" else _READ_S
        if "index" in params:
            wait_s = parse_length_ns(str(params.get("wait") or _LONGEST_WAIT)) / 1e9
            # A server waits up to a sixteenth longer, so that not all clients return at once.
            timeout_s = wait_s * 17 / 16 + _LATE_S
        return self._answered(self._prepared(method, path, params, content, timeout_s))

    def _prepared(
        self,
        method: str,
        path: str,
        params: dict[str, Any],
        body: bytes | Iterator[bytes] | None,
        timeout_s: float,
    ) -> ClientRequest:
        self._asked = f"{method} {path}"
        given = {key: value for key, value in params.items() if value not in (None, "")}
        query = urlencode({**self._params, **given}, doseq=True)
        if query:
            path += ("&" if "?" in path else "?") + query
        return ClientRequest(method, path, self._headers, body, timeout_s)

    def _answered(self, request: ClientRequest) -> _Response:
        told = f"==> Still waiting for the server at {self.address} to answer {self._asked} ..."
        telling = threading.Timer(self._slow_s, _tell, (told,))
        telling.daemon = True
        if "index=" not in request.path:
            telling.start()
        try:
            answer = self._servers.send(request)
            try:
                return _Response.read_from(answer)
            finally:
                answer.close()
        except ExchangeError as error:
            raise self._unreachable(error, writes=request.method != "GET") from error
        finally:
            telling.cancel()

    def _unreachable(self, error: ExchangeError, writes: bool = False) -> ApiError:
        return ApiError(why_unreachable(error, self.address, self._addresses, self.tls, writes))

    def _json(self, response: _Response) -> Any:
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise ApiError(
                f"cannot understand what {self.address} answered to {self._asked}: it is not "
                "JSON; is a server of orchgit or Nomad there?"
            ) from error

    def _written(self, response: _Response) -> Any:
        return self._json(response) if response.body else None

    def _refusal(self, response: _Response) -> ApiError:
        text = response.text.strip()
        if "<html" in text.lower():
            text = (
                f"cannot use what {self.address} answered to {self._asked}: it is a page for "
                "browsers, of a proxy perhaps; give a server's address by -address or ORCHGIT_ADDR"
            )
        elif len(text) > _LONGEST_REFUSAL:
            text = f"{' '.join(text.split())[:_LONGEST_REFUSAL]}..."
        else:
            text = with_next_step(text)
        if response.status == _FORBIDDEN and not self.has_token:
            text += "; no token was given: set ORCHGIT_TOKEN, or `orchgit login` gets one"
        return ApiError(f"{text or response.reason} (status {response.status})", response.status)


@dataclass(frozen=True, slots=True)
class _Response:
    """An answer that is there as a whole."""

    status: int
    reason: str
    body: bytes
    index: int
    next_token: str

    @classmethod
    def read_from(cls, answer: ServerAnswer) -> _Response:
        index = answer.header("X-Nomad-Index")
        return cls(
            answer.status,
            answer.reason,
            answer.read(),
            int(index) if index.isdecimal() and len(index) < _INDEX_DIGITS else 0,
            answer.header("X-Nomad-NextToken"),
        )

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def near_or_listed(
    client: ApiClient, name: str, path: str, key: str, listing: str, **params: Any
) -> str:
    """Returns which objects of a list have nearly this name or beginning of an id, or the command
    `listing` that lists them."""
    import difflib

    try:
        some = client.get(path, **{**params, "per_page": _COMPARED_IDS}) or []
        known = [str(each[key]) for each in some]
    except ApiError:
        known = []
    # The beginning of an id is compared with the beginnings of the others.
    shown = {each[: len(name)] if len(each) == _UUID_LENGTH else each: each for each in known}
    near = difflib.get_close_matches(name, shown, 2, 0.6)
    if near:
        return f"did you mean {' or '.join(repr(shown[each]) for each in near)}?"
    return f"`orchgit {listing}` lists them"
