"""`/v1/client`: answered by the agent of the node, here or over the network."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from urllib.parse import urlencode

import httpx
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.api.context import ApiContext
from orchgit.api.errors import VARY, text_response
from orchgit.api.routes.agent_socket_relay import refuse, relay
from orchgit.errors import (
    InvalidInputError,
    NotFoundError,
    OrchgitError,
    RefusedError,
    UnavailableError,
)
from orchgit.http_status import status_of
from orchgit.model.node import Node
from orchgit.query_values import first_values
from orchgit.wire.https import asking_context
from orchgit.wire.relay_proof import HEADER, proof
from orchgit.wire.tls import PerVersion

_ALLOC_PATH = re.compile(r"^/v1/client/(?:allocation/(?P<a>[^/]+)/\w+|fs/\w+/(?P<f>[^/]+))$")
_HOP_HEADERS = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length")
)
_OF_A_PAGE = frozenset(("origin", "referer", "cookie", "sec-fetch-site"))
"""Headers of browsers. They are checked on the first server; the agent, at its own address, would
take them for another site's."""
_GC = "/v1/client/gc"
_UUID_CHARACTERS = 36
_CONNECT_TIMEOUT_S = 5.0
_HEAR_OF_IT_S = 2.0


class _UnknownNodeError(NotFoundError):
    """No node has the id of the request."""


class ClientRoutes:
    """An ASGI app. Requests for this process's own node go to its agent without a network hop."""

    def __init__(self, api: ApiContext) -> None:
        self._api = api
        self._http: httpx.AsyncClient | None = None
        self._http_tls: ssl.SSLContext | None = None
        self._tls: PerVersion[ssl.SSLContext] | None = None
        self._plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            try:
                await self._answer_socket(scope, receive, send)
            except OrchgitError as error:
                await refuse(receive, send, error)
            return
        try:
            node_id = self._node_of(scope)
            local = self._api.local_node
            if local is not None and node_id in ("", local.node_id()):
                await local.app(scope, receive, with_vary(send))
                return
            response = await self.forward(node_id, Request(scope, receive))
        except OrchgitError as error:
            is_of_gc = scope["path"] == _GC and isinstance(error, _UnknownNodeError)
            response = text_response(str(error), 500 if is_of_gc else status_of(error))
        await response(scope, receive, send)

    async def _answer_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Connects a websocket to the node's agent, on any server.

        A server that is a little behind the leader waits for what it has not heard of yet.
        """
        await self._until_known(scope)
        node_id, local = self._node_of(scope), self._api.local_node
        if local is not None and node_id in ("", local.node_id()):
            await local.app(scope, receive, send)
        else:
            node = self._node(node_id)
            tls = self._context_for(node) if node.tls_enabled else None
            await relay(self._proven(scope, node), receive, send, node.http_addr, tls)

    async def _until_known(self, scope: Scope) -> None:
        context = self._api.services.context
        watch, clock = context.state.store.watch, context.clock
        deadline_s = clock.monotonic_s() + _HEAR_OF_IT_S
        while (left_s := deadline_s - clock.monotonic_s()) > 0:
            index = watch.index(("allocations", "nodes"))
            if self.knows_node(scope):
                return
            await watch.wait(("allocations", "nodes"), index, left_s)

    def knows_node(self, scope: Scope) -> bool:
        """Returns whether this server can tell which agent has to answer."""
        try:
            node_id = self._node_of(scope)
        except NotFoundError:
            return False
        except RefusedError:
            return True  # no server will know of it
        local = self._api.local_node
        if not node_id or (local is not None and node_id == local.node_id()):
            return True
        with self._api.services.context.snapshot() as snapshot:
            return snapshot.nodes.get(node_id) is not None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def _node_of(self, scope: Scope) -> str:
        """Returns the id of the node that can answer; "" for the node of this process."""
        match = _ALLOC_PATH.match(scope["path"])
        if match is None:
            wanted = first_values(scope["query_string"]).get("node_id", "")
            if wanted and len(wanted) != _UUID_CHARACTERS:
                raise RefusedError("node lookup failed: index error: UUID must be 36 characters")
            return wanted
        alloc_id = match["a"] or match["f"]
        with self._api.services.context.snapshot() as snapshot:
            allocation = snapshot.allocations.get(alloc_id)
        if allocation is None:
            raise NotFoundError(f'Unknown allocation "{alloc_id}"')
        return allocation.node_id

    async def forward(self, node_id: str, request: Request) -> Response:
        """Returns the answer of another node's agent to a request that was checked here. Raises
        NotFoundError for an unknown node, UnavailableError where its agent does not answer."""
        node = self._node(node_id)
        base = f"{'https' if node.tls_enabled else 'http'}://{node.http_addr}"
        client = self._client(node)
        proven = Headers(raw=self._proven(request.scope, node)["headers"])
        outgoing = client.build_request(
            request.method,
            f"{base}{request.url.path}",
            params=httpx.QueryParams(request.url.query),
            headers={
                name: value
                for name, value in _end_to_end(proven.items()).items()
                if name.lower() not in _OF_A_PAGE
            },
            content=request.stream(),
        )
        try:
            answer = await client.send(outgoing, stream=True)
        except httpx.TransportError as error:
            raise UnavailableError(
                f"cannot reach the agent of node {node_id} at {base}: {error}"
            ) from error
        headers = {**_end_to_end(answer.headers.items()), **VARY}
        return StreamingResponse(_body(answer), answer.status_code, headers)

    def _proven(self, scope: Scope, node: Node) -> Scope:
        """Returns the request with this server's proof, for the node's agent, that it was checked
        who asks."""
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        now_ns = self._api.services.context.now_ns()
        value = proof(node.secret_id, method, scope["path"], scope["query_string"], now_ns)
        headers = [each for each in scope["headers"] if each[0] != HEADER]
        return {**scope, "headers": [*headers, (HEADER, value)]}

    def _node(self, node_id: str) -> Node:
        with self._api.services.context.snapshot() as snapshot:
            node = snapshot.nodes.get(node_id) if node_id else None
        if node is None:
            raise _UnknownNodeError(f"Unknown node {node_id}" if node_id else "No node to ask")
        return node

    def _client(self, node: Node) -> httpx.AsyncClient:
        tls = self._context_for(node)
        if self._http is None or tls is not self._http_tls:
            self._http_tls = tls  # the client of earlier certificates goes with its last answer
            timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S)
            self._http = httpx.AsyncClient(verify=tls, timeout=timeout, trust_env=False)
        return self._http

    def _context_for(self, node: Node) -> ssl.SSLContext:
        """Returns the TLS context: an agent needs a certificate of the cluster's authority."""
        files = self._api.agents_tls
        if files is None and node.tls_enabled:
            raise UnavailableError(
                f"cannot reach the agent of node {node.id} at {node.http_addr}: it serves HTTPS, "
                "and this server has no certificates to check it with; give it a tls section"
            )
        if files is None:
            return self._plain
        if self._tls is None:
            self._tls = PerVersion(files, asking_context)
        return self._tls.get()


def with_vary(send: Send) -> Send:
    """Returns `send`, which adds the header that answers of servers have."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            varies = (b"vary", VARY["Vary"].encode())
            message = {**message, "headers": [*message["headers"], varies]}
        await send(message)

    return sent


def _end_to_end(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _HOP_HEADERS}


def checks_of_allocation(client: ClientRoutes) -> Route:
    """Serves `/v1/allocation/<id>/checks` as the agent's path of another name."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        path = f"/v1/client/allocation/{scope['path_params']['alloc_id']}/checks"
        await client({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    return Route("/v1/allocation/{alloc_id}/checks", _Asgi(run), methods=["GET"])


def action_of_job(client: ClientRoutes, api: ApiContext) -> WebSocketRoute:
    """Serves `/v1/job/<id>/action`: runs an action of a task as `alloc exec` runs a command."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        query = first_values(scope["query_string"])
        try:
            _check_action(api, query, scope["path_params"]["job_id"])
        except OrchgitError as error:
            await refuse(receive, send, error)
            return
        names = ("task", "action", "tty", "ws_handshake")
        asked = urlencode([(name, query[name]) for name in names if name in query])
        path = f"/v1/client/allocation/{query['allocID']}/exec"
        await client(
            {**scope, "path": path, "raw_path": path.encode(), "query_string": asked.encode()},
            receive,
            send,
        )

    return WebSocketRoute("/v1/job/{job_id:path}/action", _Asgi(run))


def _check_action(api: ApiContext, query: Mapping[str, str], job_id: str) -> None:
    """Raises InvalidInputError or NotFoundError unless the query names an action of the
    allocation's version of the job."""
    for name in ("allocID", "task", "action"):
        if not query.get(name):
            raise InvalidInputError(f"cannot run the action: the query has no {name}")
    alloc_id, task_name, wanted = query["allocID"], query["task"], query["action"]
    with api.services.context.snapshot() as snapshot:
        allocation = snapshot.allocations.get(alloc_id)
        job = snapshot.job_versions.nearest_to_allocation(allocation) if allocation else None
    if allocation is None or job is None or allocation.job_id != job_id:
        raise NotFoundError(f'Unknown allocation "{alloc_id}" of job "{job_id}"')
    group = job.group(allocation.task_group)
    task = group.task(task_name) if group else None
    if not any(action.name == wanted for action in (task.actions if task else None) or ()):
        raise NotFoundError(f'task "{task_name}" of job "{job_id}" has no action "{wanted}"')


class _Asgi:
    """Marks a function as an ASGI app; Starlette takes a bare function for a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
