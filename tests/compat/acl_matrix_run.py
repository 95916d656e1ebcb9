"""Asks a server every request of an authorization matrix with every token, and compares."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import wsproto
from wsproto.events import AcceptConnection, CloseConnection, Request

from orchgit.host_port import split_host_port
from tests.compat.acl_matrix import BAD_TOKENS, DENIED, Matrix, MatrixRequest
from tests.compat.acl_scenario import AclScenario
from tests.support.raw_http import Answer, RawConnection

_ANSWER_S = 60.0
_OPEN_S = 0.5
"""A stream that sends nothing for so long is open, or refused."""
_WORD_OF_STREAM = "data"
_LAST = re.compile(
    r"PUT /v1/(agent/(force-leave|reload)|operator/(snapshot|keyring/rotate)|client/gc"
    r"|client/allocation/[^/]+/gc|system/gc)\b"
)
"""Requests that collect what others ask for: each token asks them after all the others."""
_REFUSAL = re.compile(
    f"{DENIED}|Unknown allocation|^rpc error|ACL token|failed to parse signed|missing key ID"
)
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_asked_last(request: str) -> bool:
    """Returns whether the request collects what others ask for. When Nomad was asked these, its
    expired token had been collected too."""
    return _LAST.match(request) is not None


@dataclass(frozen=True)
class Difference:
    request: str
    token: str
    recorded: str
    found: str

    is_about_access: bool = True
    """Whether more differs than how a request fails that was let in."""

    def __str__(self) -> str:
        return f"{self.request} [{self.token}]: {self.recorded}, found {self.found}"


_REFUSED_AT_RANDOM = frozenset(("PUT /v1/operator/snapshot",))
"""Refused with 403 or 500, whichever came first on the recorded server."""


class MatrixRun:
    """`address` is host:port. `passed` counts the cells that agree."""

    def __init__(self, address: str, scenario: AclScenario) -> None:
        self._address = split_host_port(address)
        self._scenario = scenario
        self._connection: RawConnection | None = None
        self.passed = 0
        self.differences: list[Difference] = []

    async def run(self, matrix: Matrix, tokens: Iterable[str] | None = None) -> None:
        """Asks everything, or what `tokens` are asked. The last requests come token by token, as
        they were recorded."""
        chosen = [each for each in matrix.tokens if tokens is None or each in set(tokens)]
        ordinary = [each for each in matrix.requests if not is_asked_last(each.name)]
        last = [each for each in matrix.requests if is_asked_last(each.name)]
        for request in ordinary:
            for token in chosen:
                await self._cell(matrix, request, token)
        if last and "expired" in chosen:
            self._scenario.collect_expired()
        for token in chosen:
            for request in last:
                await self._cell(matrix, request, token)
        if self._connection is not None:
            self._connection.close()

    async def _cell(self, matrix: Matrix, request: MatrixRequest, token: str) -> None:
        if token not in self._scenario.secrets:
            self._differs(request, token, "the scenario has no such token")
            return
        try:
            found = await self._ask(request, self._scenario.secrets[token])
        except (OSError, TimeoutError) as error:
            self._connection = None
            found = Found(0, f"{type(error).__name__}: {error}")
        own = request.is_own or (request.name, token) in matrix.unstable
        own = own or (request.name in _REFUSED_AT_RANDOM and found.status in (403, 500))
        if own or found.agrees(request, token):
            self.passed += 1
        else:
            self._differs(request, token, str(found), not found.failed_like(request, token))

    def _differs(
        self, request: MatrixRequest, token: str, found: str, is_about_access: bool = True
    ) -> None:
        recorded = request.answer(token)
        self.differences.append(Difference(request.name, token, recorded, found, is_about_access))

    async def _ask(self, request: MatrixRequest, secret: str) -> Found:
        target = self._scenario.filled(request.target)
        target = target.replace("(own)", self._scenario.labels["own"])
        if request.method == "WS":
            return await self._ask_socket(target, secret)
        if "/event/stream" in target or "/agent/monitor?" in target:
            return await self._ask_stream(target, secret)
        if self._connection is None or not self._connection.is_open:
            self._connection = await RawConnection.open(self._address)
        body = self._scenario.filled_body(request.body)
        async with asyncio.timeout(_ANSWER_S):
            answer = await self._connection.request(request.method, target, body, secret)
        if answer.header("connection") == "close":
            self._connection.close()
            self._connection = None
        return Found.of(answer)

    async def _ask_stream(self, target: str, secret: str) -> Found:
        """Reads the head, and whether something follows."""
        reader, writer = await asyncio.open_connection(*self._address)
        token = f"X-Nomad-Token: {secret}\r\n" if secret else ""
        head = f"GET {target} HTTP/1.1\r\nHost: {self._address[0]}\r\nConnection: close\r\n"
        writer.write(f"{head}{token}\r\n".encode())
        try:
            async with asyncio.timeout(_ANSWER_S):
                answered = await reader.readuntil(b"\r\n\r\n")
            status = int(answered[9:12])
            rest = b""
            try:
                async with asyncio.timeout(_OPEN_S):
                    while b"{" not in rest and (more := await reader.read(65536)):
                        rest += more
            except TimeoutError:
                pass
            if status != 200:
                return Found(status, rest.decode(errors="replace"))
            return Found(status, "", stream=b"{" in rest)
        finally:
            writer.close()

    async def _ask_socket(self, target: str, secret: str) -> Found:
        reader, writer = await asyncio.open_connection(*self._address)
        connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        headers = [(b"X-Nomad-Token", secret.encode())] if secret else []
        host = self._address[0]
        writer.write(connection.send(Request(host=host, target=target, extra_headers=headers)))
        accepted = False
        try:
            async with asyncio.timeout(_OPEN_S):
                while data := await reader.read(65536):
                    connection.receive_data(data)
                    for event in connection.events():
                        if isinstance(event, CloseConnection) and event.code != 1000:
                            return Found(101, f"close {event.code} {event.reason}")
                        accepted = accepted or isinstance(event, AcceptConnection)
        except (TimeoutError, wsproto.utilities.ProtocolError):
            pass
        finally:
            writer.close()
        return Found(101, "open") if accepted else Found(0, "no websocket")


@dataclass(frozen=True)
class Found:
    """What a server answered, in a form that the recorded words can be compared with."""

    status: int
    text: str
    value: Any = None
    stream: bool | None = None

    @classmethod
    def of(cls, answer: Answer) -> Found:
        value = None
        if answer.status == 200 and answer.body[:1] in (b"[", b"{"):
            try:
                value = json.loads(answer.body)
            except ValueError:
                value = None
        return cls(answer.status, answer.text, value)

    def __str__(self) -> str:
        if self.status == 200 and isinstance(self.value, list):
            return f"200/{len(self.value)}"
        if self.status == 200 and isinstance(self.value, dict) and "Matches" in self.value:
            return f"200/{','.join(f'{name}:{count}' for name, count in self._matches().items())}"
        return f"{self.status} {self.text[:120]!r}" + ("" if self.stream is None else " stream")

    def agrees(self, request: MatrixRequest, token: str) -> bool:
        recorded = request.answer(token)
        return any(self._is(each, request) for each in recorded.split(" or "))

    def failed_like(self, request: MatrixRequest, token: str) -> bool:
        """Returns whether the request was let in and failed, here and in the recording."""
        if request.is_refused(token) or _REFUSAL.search(self.text):
            return False
        failed = request.answer(token)[:1] in ("4", "5")
        return token not in BAD_TOKENS and failed and self.status >= 400

    def _is(self, recorded: str, request: MatrixRequest) -> bool:
        if recorded == "open":
            return self.stream is not None
        status, _, rest = recorded.partition(" ")
        status, slash, count = status.partition("/")
        if str(self.status) != status:
            return False
        if status == "101":
            return rest == "open" if self.text == "open" else self.text.startswith(rest)
        if rest in ("data", "no data"):
            return self.stream is (rest == "data")
        if rest.startswith("with the text: "):
            return self.text.startswith(rest.removeprefix("with the text: "))
        if self.status >= 400:
            return self._has_text(request)
        if request.is_text and self.text.startswith((DENIED, "rpc error:")):
            return False
        return self._counts(count, request) if slash else True

    def _has_text(self, request: MatrixRequest) -> bool:
        """Compares the words of refusals. What a request is answered that was let in is another
        test's; only it must be no refusal."""
        texts = [_masked(each) for each in request.texts.get(str(self.status), [])]
        if not texts or _masked(self.text) in texts:
            return True
        return not _REFUSAL.search(self.text) and not all(map(_REFUSAL.search, texts))

    def _counts(self, recorded: str, request: MatrixRequest) -> bool:
        if isinstance(self.value, list):
            if request.is_unfiltered and recorded.isdigit():
                return len(self.value) <= int(recorded)
            return recorded == "n" or str(len(self.value)) == recorded
        if isinstance(self.value, dict) and "Matches" in self.value:
            wanted = dict(each.split(":") for each in recorded.split(",") if each)
            found = {
                name: "n" if wanted.get(name) == "n" else str(count)
                for name, count in self._matches().items()
            }
            fewer = set(wanted) if request.is_unfiltered else {"vars"}
            return set(found) <= set(wanted) and all(
                found.get(name) == count
                or (name in fewer and ("n" in count or int(found.get(name, 0)) <= int(count)))
                for name, count in wanted.items()
            )
        return recorded in ("n", "count")

    def _matches(self) -> dict[str, int]:
        found = self.value["Matches"]
        return {name: len(ids) for name, ids in sorted(found.items()) if ids}


def _masked(text: str) -> str:
    return re.sub(r"\d+", "0", _ID.sub("<uuid>", text)).strip()


def summary(differences: Sequence[Difference], most: int) -> list[str]:
    """Returns lines that tell the differences, one per request and kind."""
    by_kind: dict[tuple[str, str, str], list[str]] = {}
    for each in differences:
        key = (each.request, each.recorded, each.found)
        by_kind.setdefault(key, []).append(each.token)
    lines = [
        f"{request}: recorded {recorded}, found {found}: {', '.join(tokens[:4])}"
        + (f" and {len(tokens) - 4} more" if len(tokens) > 4 else "")
        for (request, recorded, found), tokens in by_kind.items()
    ]
    return lines[:most]
