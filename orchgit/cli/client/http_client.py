"""The HTTP side of the command line: one client, text errors turned into one exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any
from urllib.parse import quote

import httpx

from orchgit import __version__
from orchgit.cli.client.first_server import FirstServer
from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.client.unreachable import why_unreachable
from orchgit.cli.user_name import user_name
from orchgit.errors import OrchgitError

_UNHEALTHY = 429
DEFAULT_ADDRESS = "http://127.0.0.1:4646"
_ANY_SERVER = "http://server"
_LONGEST_S = 660.0
"""For a write, or a stream that says nothing: as long as a blocking query may last."""
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


class ApiClient:
    """Requests to one server, with the namespace, region and token of the command."""

    def __init__(
        self,
        address: str | None = None,
        namespace: str | None = None,
        region: str | None = None,
        token: str | None = None,
        tls: TlsClient | None = None,
    ) -> None:
        """`address`: one URL, or several separated by commas."""
        addresses = [one.strip().rstrip("/") for one in (address or DEFAULT_ADDRESS).split(",")]
        self.tls = tls or TlsClient()
        self._servers = FirstServer([one for one in addresses if one], tls=self.tls)
        self._addresses = ", ".join(addresses)
        self.namespace = namespace
        self._params = {
            key: value for key, value in (("namespace", namespace), ("region", region)) if value
        }
        headers = {"User-Agent": f"orchgit/{__version__}"}
        if token:
            headers["X-Nomad-Token"] = token
        if user := user_name():
            # A claim: the server cannot check it.
            headers["X-Orchgit-User"] = quote(user, safe=" @._-")
        self._http = httpx.Client(
            base_url=_ANY_SERVER,
            headers=headers,
            timeout=httpx.Timeout(10.0, read=_LONGEST_S),
            transport=self._servers,
        )

    @property
    def address(self) -> str:
        """The address of the server that answers."""
        return self._servers.address

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, path: str, /, **params: Any) -> Any:
        return self._request("GET", path, params).json()

    def autopilot_health(self) -> Any:
        """Returns the servers' health; an unhealthy cluster's answer has an error's status."""
        path = "/v1/operator/autopilot/health"
        response = self._send("GET", path, {})
        if response.status_code not in (200, _UNHEALTHY):
            raise self._refusal(response)
        return response.json()

    def get_text(self, path: str, /, **params: Any) -> str:
        return self._request("GET", path, params).text

    def put(self, path: str, body: Any = None, /, **params: Any) -> Any:
        return self._answer(self._request("PUT", path, params, body))

    def post(self, path: str, body: Any = None, /, **params: Any) -> Any:
        return self._answer(self._request("POST", path, params, body))

    def delete(self, path: str, /, **params: Any) -> Any:
        return self._answer(self._request("DELETE", path, params))

    def blocking_get(self, path: str, index: int, **params: Any) -> tuple[int, Any]:
        """Waits, for 60 s unless `wait` says otherwise, until the answer is newer than `index`;
        returns its index and the answer."""
        response = self._request("GET", path, {"wait": "60s", **params, "index": index})
        return int(response.headers.get("X-Nomad-Index", "0")), response.json()

    def stream_lines(self, path: str, /, **params: Any) -> Iterator[str]:
        with self._streamed(path, params) as response:
            yield from response.iter_lines()

    def stream_text(self, path: str, /, **params: Any) -> Iterator[str]:
        with self._streamed(path, params) as response:
            yield from response.iter_text()

    def download(self, path: str, file: IO[bytes], /, **params: Any) -> httpx.Headers:
        """Writes the body into `file` as it comes; returns the answer's headers."""
        with self._streamed(path, params) as response:
            for data in response.iter_raw():
                file.write(data)
            return response.headers

    @contextmanager
    def _streamed(self, path: str, params: dict[str, Any]) -> Iterator[httpx.Response]:
        try:
            with self._http.stream("GET", path, params=self._merged(params)) as response:
                if response.status_code >= 400:
                    response.read()
                    raise self._refusal(response)
                yield response
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def upload(self, path: str, content: Iterator[bytes], size: int, /, **params: Any) -> None:
        """Sends `content` as the body of a PUT, as it is read."""
        try:
            response = self._http.request(
                "PUT",
                path,
                params=self._merged(params),
                content=content,
                headers={"Content-Length": str(size)},
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if response.status_code >= 400:
            raise self._refusal(response)

    def find(self, kind: str, path: str, prefix: str, **params: Any) -> dict[str, Any]:
        """Returns the one object of a list whose id begins with `prefix`; errors name the
        candidates."""
        found = self.get(path, prefix=prefix, **params) or []
        exact = [item for item in found if item["ID"] == prefix]
        if len(exact or found) == 1:
            return dict((exact or found)[0])
        if not found:
            raise ApiError(
                f"cannot find {kind} {prefix!r}: no id begins with it; "
                f"`orchgit {kind} status` lists them",
                404,
            )
        names = ", ".join(item["ID"] for item in found[:5])
        raise ApiError(
            f"cannot tell which {kind} is meant: {prefix!r} matches {len(found)}: {names}"
        )

    def _request(
        self, method: str, path: str, params: dict[str, Any], body: Any = None
    ) -> httpx.Response:
        response = self._send(method, path, params, body)
        if response.status_code >= 400:
            raise self._refusal(response)
        return response

    def _send(
        self, method: str, path: str, params: dict[str, Any], body: Any = None
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body).encode()
        waits = method != "GET" or "index" in params
        timeout = httpx.Timeout(10.0, read=_LONGEST_S if waits else _READ_S)
        try:
            return self._http.request(
                method, path, params=self._merged(params), content=content, timeout=timeout
            )
        except httpx.TransportError as error:
            raise self._unreachable(error, writes=method != "GET") from error

    def _merged(self, params: dict[str, Any]) -> dict[str, Any]:
        given = {key: value for key, value in params.items() if value not in (None, "")}
        return {**self._params, **given}

    def _unreachable(self, error: httpx.TransportError, writes: bool = False) -> ApiError:
        return ApiError(why_unreachable(error, self.address, self._addresses, self.tls, writes))

    @staticmethod
    def _refusal(response: httpx.Response) -> ApiError:
        text = response.text.strip() or response.reason_phrase
        return ApiError(f"{text} (status {response.status_code})", response.status_code)

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        return response.json() if response.content else None
