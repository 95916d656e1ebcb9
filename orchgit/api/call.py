"""One request as a route sees it: its parameters read and checked, its answer in Nomad's form."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from orchgit.acl.capabilities import READ
from orchgit.acl.rights import Rights
from orchgit.api.access.control import OPEN_ACCESS, Access, AccessRefusedError
from orchgit.api.consistency import WRITES
from orchgit.api.context import ApiContext
from orchgit.api.errors import VARY
from orchgit.api.kept_answers import KeptAnswer
from orchgit.api.placing import is_safe
from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.go_json import Fields, decode_body
from orchgit.errors import InvalidInputError, RefusedError, TooLargeError
from orchgit.model.author import Author
from orchgit.query_values import first_values
from orchgit.replication.proposal import RequestWrites
from orchgit.services.context import UseCaseContext
from orchgit.services.identifiers import uuid_prefix
from orchgit.services.services import Services
from orchgit.whole_number import whole_number

T = TypeVar("T")
MAX_BODY_BYTES = 16 * 1024 * 1024
_GZIP_FROM_BYTES = 1024
_UUID_CHARACTERS = 36
_OF_UUIDS = frozenset("0123456789abcdefABCDEF- ")
_TRUE = ("true", "1", "t", "T", "TRUE", "True", "")


class _OfNamespace(Protocol):
    @property
    def namespace(self) -> str: ...


V = TypeVar("V", bound=_OfNamespace)


class KeptResponse(Response):
    """The answer to a read that is the same for equal requests while `kept` is current."""

    def __init__(self, *arguments: Any, kept: KeptAnswer, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.kept = kept


class _SeenNamespaces(dict[str, bool]):
    """Whether objects of each namespace may be in the answer; each namespace is decided once, since
    lists of many objects have few."""

    def __init__(self, sees: Callable[[str], bool]) -> None:
        self._sees = sees

    def __missing__(self, namespace: str) -> bool:
        self[namespace] = found = self._sees(namespace)
        return found


class ApiCall:
    """One request. `path["name"]` are the parameters of the path."""

    def __init__(self, request: Request, api: ApiContext) -> None:
        self.request = request
        self.api = api
        self.query: dict[str, str] = first_values(request.scope["query_string"])
        self.path: dict[str, str] = request.path_params

        self.writes: RequestWrites | None = request.scope.get(WRITES)
        """Notes what this request writes to the log; None where no server asks for it."""
        self.access: Access = OPEN_ACCESS
        """Who asks, and what the answer may hold; see `visible`. A wait may change it."""
        self._decide_access: Callable[[], Access] | None = None
        self._body: bytes | None = None
        self._read: dict[object, Any] = {}

    @property
    def rights(self) -> Rights:
        return self.access.caller.rights

    @property
    def author(self) -> Author | None:
        """Whose token the request bears; None while access control is off."""
        identity = self.access.caller.identity
        return None if identity is None else Author(identity.accessor_id, identity.name)

    def claim_author(self, author: Author) -> None:
        """Has a name that the client claims recorded with what the request writes, where no token
        tells who it is. Call it before the first use of `services`."""
        if self.author is None:
            self.writes = self.writes or RequestWrites()
            self.writes.author = author

    def sees(self, namespace: str) -> bool:
        """Returns whether objects of the namespace may be in the answer."""
        return self.access.sees(namespace)

    @property
    def sees_everything(self) -> bool:
        return self.rights.is_management

    @property
    def sees_nodes(self) -> bool:
        return self.rights.allows_coarse("node", READ)

    def visible(self, found: Iterable[V]) -> list[V]:
        """Returns the objects that may be in the answer."""
        if self.rights.is_management:
            return found if isinstance(found, list) else list(found)
        seen = _SeenNamespaces(self.access.sees)
        return [each for each in found if seen[each.namespace]]

    def decide_access_by(self, decide: Callable[[], Access], decided: Access | None = None) -> None:
        """Sets how it is decided about this request, and decides, unless `decided` says it. Raises
        AccessRefusedError."""
        self._decide_access = decide
        self.access = decided or decide()
        if self.writes is not None and not is_safe(self.request.method):
            self.writes.author = self.author

    def refresh_access(self) -> None:
        """Decides again after a wait: meanwhile the token may have lost its rights. Raises
        AccessRefusedError."""
        if self._decide_access is not None:
            self.access = self._decide_access()

    def keeps_access(self) -> bool:
        """Decides again in the middle of an answer, and returns whether it may go on."""
        try:
            self.refresh_access()
        except AccessRefusedError:
            return False
        return True

    async def once(self, read: Callable[[ApiCall], Awaitable[T]]) -> T:
        """Returns what `read` makes of the request; reads only the first time."""
        if read not in self._read:
            self._read[read] = await read(self)
        return cast(T, self._read[read])

    @cached_property
    def services(self) -> Services:
        """The use cases; their commands are noted in `writes`."""
        services = self.api.services
        if is_safe(self.request.method):
            return services
        return services.noting(self.writes or RequestWrites(author=self.author))

    @property
    def context(self) -> UseCaseContext:
        return self.services.context

    @property
    def namespace(self) -> str:
        return self.query.get("namespace") or "default"

    @property
    def namespaces(self) -> str | None:
        """The namespace to list; None for all of them."""
        return None if self.namespace == "*" else self.namespace

    def header(self, name: bytes) -> str | None:
        """Returns the first header of that name (written in lower case)."""
        for each, value in self.request.scope["headers"]:
            if each == name:
                return str(value, "latin-1")
        return None

    def flag(self, name: str, default: bool = False) -> bool:
        """Reads a boolean parameter; without a value it is true."""
        value = self.query.get(name)
        if value is None:
            return default
        if value in _TRUE:
            return True
        if value.lower() in ("false", "0", "f"):
            return False
        raise InvalidInputError(f'Failed to parse value of "{name}" ({value}) as a bool')

    def number(self, name: str, default: int = 0) -> int:
        value = self.query.get(name)
        if value is None or value == "":
            return default
        number = whole_number(value)
        if number is None:
            raise InvalidInputError(f'Failed to parse value of "{name}" ({value}) as a number')
        return number

    def id_prefix(self, problem: str = "") -> str:
        """The parameter `prefix` of a list whose ids are UUIDs.

        Raises RefusedError for a text with which no id begins; its message starts with `problem`.
        """
        text = self.query.get("prefix", "")
        strange = next((each for each in text if each not in _OF_UUIDS), None)
        if strange is not None:
            shown = f"U+{ord(strange):04X} {strange!r}"
            raise RefusedError(
                f"{problem}index error: Invalid UUID: encoding/hex: invalid byte: {shown}"
            )
        return uuid_prefix(text)

    def object_id(self, parameter: str, lookup: str) -> str:
        """Returns the id in the path. Raises RefusedError for one that is no whole UUID, as of an
        object that was named by the beginning of its id."""
        found = self.path[parameter]
        if len(found) != _UUID_CHARACTERS:
            raise RefusedError(
                f"{lookup} lookup failed: index error: UUID must be {_UUID_CHARACTERS} characters"
            )
        return found

    async def body(self, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
        """Reads the request's body; raises TooLargeError before it reads more than the limit."""
        if self._body is not None:
            if len(self._body) > limit_bytes:
                raise _too_large(limit_bytes)
            return self._body
        announced = self.header(b"content-length") or "0"
        size_bytes = whole_number(announced)
        if size_bytes is None or size_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        chunks, size, more = [], 0, True
        while more:
            message = await self.request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            chunks.append(chunk)
        self._body = b"".join(chunks)
        return self._body

    async def fields(self, fields: Fields, *, may_be_empty: bool = False) -> dict[str, Any]:
        """Reads the body, and returns the fields that are set. Raises InvalidInputError, unless
        `may_be_empty` also for an empty body: each field would have its default, which nobody asked
        for."""
        data = await self.body()
        return {} if may_be_empty and not data else decode_body(data, fields)

    def answer(
        self,
        value: Any,
        *,
        index: int | None = None,
        status: int = 200,
        headers: dict[str, str] | None = None,
        read: bool = False,
    ) -> Response:
        """Answers with `value` as JSON; with `read`, with the headers of every read of the
        state."""
        data = self.encode(value)
        sent = {**VARY, **(headers or {})}
        if index is not None:
            sent["X-Nomad-Index"] = str(max(index, 1))
        if read:
            sent.update(self.contact_headers())
        if self.takes_gzip(data):
            data = gzip.compress(data, compresslevel=1, mtime=0)
            sent["Content-Encoding"] = "gzip"
        return Response(data, status_code=status, headers=sent, media_type="application/json")

    def encode(self, value: Any) -> bytes:
        data = nomad_json.encode(value)
        if "pretty" in self.query and self.flag("pretty"):
            data = msgspec.json.format(data, indent=4)
        return data

    def answer_kept(self, kept: KeptAnswer) -> Response:
        """Answers a read with a body that is encoded already."""
        sent = {**VARY, **kept.headers, "X-Nomad-Index": str(max(kept.index, 1))}
        sent.update(self.contact_headers())
        data = kept.body
        if self.takes_gzip(data):
            data = kept.zipped()
            sent["Content-Encoding"] = "gzip"
        if not self.rights_last:
            return Response(data, headers=sent, media_type="application/json")
        return KeptResponse(data, headers=sent, media_type="application/json", kept=kept)

    def takes_gzip(self, data: bytes) -> bool:
        accepted = self.header(b"accept-encoding") or ""
        return len(data) >= _GZIP_FROM_BYTES and "gzip" in accepted

    @property
    def rights_last(self) -> bool:
        """Whether only a change of access rules can take the caller's rights away: a token that
        expires, and that of a workload, lose them by themselves."""
        identity = self.access.caller.identity
        if identity is None:
            return True
        return identity.expiration_time_ns == 0 and identity.claims is None

    @property
    def read_key(self) -> Hashable:
        """What the answer to a read depends on, beside the state: path, parameters, credentials.

        How long the request waits does not change what it reads.
        """
        names = (name for name in self.query if name not in ("index", "wait"))
        query = tuple((name, self.query[name]) for name in names)
        credentials = self.header(b"x-nomad-token"), self.header(b"authorization")
        return self.request.scope["path"], query, credentials

    def answer_query(self, value: dict[str, Any], index: int) -> Response:
        """Answers a read with `value`, which gets the fields that say how it was read."""
        read = {"Index": index, "LastContact": 0, "KnownLeader": True, "NextToken": ""}
        return self.answer({**value, **read}, index=index, read=True)

    def contact_headers(self) -> dict[str, str]:
        server = self.api.server
        known = "true" if server.leader_address() else "false"
        contact = str(server.last_contact_ms())
        return {"X-Nomad-KnownLeader": known, "X-Nomad-LastContact": contact}

    def empty(self, status: int = 200, index: int | None = None) -> Response:
        headers = dict(VARY)
        if index is not None:
            headers["X-Nomad-Index"] = str(max(index, 1))
        return Response(b"", status_code=status, headers=headers)


def _too_large(limit_bytes: int) -> TooLargeError:
    return TooLargeError(f"cannot take the request: its body is larger than {limit_bytes} bytes")
