"""The ASGI app: every route of `/v1`, then what the composition root mounts beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.api.access.guard import Guard
from orchgit.api.access.table import TABLE, AccessTable
from orchgit.api.context import ApiContext
from orchgit.api.dispatch import Dispatch
from orchgit.api.errors import VARY
from orchgit.api.request_metrics import RequestMetrics
from orchgit.api.routes import (
    acl,
    agent,
    agent_debug,
    allocations,
    authors,
    csi_plugins,
    csi_volumes,
    deployments,
    disabled,
    evaluations,
    event_stream,
    gitops,
    job_plan,
    job_scale,
    job_versions,
    jobs_read,
    jobs_statuses,
    jobs_write,
    keyring,
    metrics,
    namespaces,
    node_pools,
    nodes,
    openapi,
    operator,
    operator_autopilot,
    operator_raft,
    operator_snapshot,
    operator_sql,
    quotas,
    search,
    service_catalog,
    variables,
    volumes,
)
from orchgit.api.routes.client import ClientRoutes, action_of_job, checks_of_allocation
from orchgit.api.routing import Endpoint
from orchgit.errors import InvariantError

TABLES: tuple[Sequence[Endpoint], ...] = (
    # Of those below one prefix the order counts: job paths end with the one that takes any id.
    jobs_statuses.ENDPOINTS,
    job_plan.ENDPOINTS,
    jobs_write.ENDPOINTS,
    jobs_read.ENDPOINTS,
    deployments.ENDPOINTS,
    job_versions.ENDPOINTS,
    job_scale.ENDPOINTS,
    jobs_write.LAST_ENDPOINTS,
    evaluations.ENDPOINTS,
    allocations.ENDPOINTS,
    node_pools.ENDPOINTS,
    nodes.ENDPOINTS,
    authors.ENDPOINTS,
    gitops.ENDPOINTS,
    event_stream.ENDPOINTS,
    agent.ENDPOINTS,
    agent_debug.ENDPOINTS,
    operator.ENDPOINTS,
    operator_autopilot.ENDPOINTS,
    operator_raft.ENDPOINTS,
    operator_snapshot.ENDPOINTS,
    operator_sql.ENDPOINTS,
    search.ENDPOINTS,
    service_catalog.ENDPOINTS,
    variables.ENDPOINTS,
    keyring.ENDPOINTS,
    volumes.ENDPOINTS,
    csi_plugins.ENDPOINTS,
    csi_volumes.ENDPOINTS,
    namespaces.ENDPOINTS,
    quotas.ENDPOINTS,
    acl.ENDPOINTS,
    disabled.ENDPOINTS,
)


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app. Await `close` when it is stopped: it ends the connections to other machines'
    agents."""

    serve: ASGIApp
    close: Callable[[], Awaitable[None]]
    knows_node: Callable[[Scope], bool]
    """Returns whether this server can tell which agent answers a `/v1/client` request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(scope, receive, send)


def create_app(api: ApiContext, extra_routes: Sequence[BaseRoute] = ()) -> App:
    """Builds the app. `extra_routes` are the git remote, webhooks and the UI.

    Raises InvariantError for a route without an entry in the access table.
    """
    requests = RequestMetrics()
    endpoints = [each for table in (*TABLES, metrics.endpoints(requests)) for each in table]
    endpoints += openapi.endpoints(tuple(endpoints))
    check_entries(endpoints, extra_routes)
    client = ClientRoutes(api)
    api.ask_node = client.forward
    rest = Starlette(
        routes=[
            Route(_CLIENT, client),
            WebSocketRoute(_CLIENT, client),
            checks_of_allocation(client),
            action_of_job(client, api),
            *extra_routes,
            Route("/v1/{rest:path}", _unknown_path, methods=_ANY),
        ]
    )
    guarded = Guard(rest, api, guarded_paths(endpoints))
    return App(Dispatch(endpoints, api, requests, guarded), client.close, client.knows_node)


def check_entries(
    endpoints: Sequence[Endpoint],
    extra_routes: Sequence[BaseRoute] = (),
    table: AccessTable = TABLE,
) -> None:
    """Raises InvariantError where a route has no entry in the access table."""
    served = [(each.path, method) for each in endpoints for method in each.methods]
    for route in extra_routes:
        if not isinstance(route, Route):
            raise InvariantError(f"cannot guard {route}: only a Route has one path and its methods")
        served += [(route.path, method) for method in route.methods or ()]
    missing = [f"{method} {path}" for path, method in served if table.rule(path, method) is None]
    if missing:
        raise InvariantError(
            f"cannot serve {', '.join(missing)}: orchgit/api/access/table.py says nobody may ask it"
        )


def guarded_paths(endpoints: Sequence[Endpoint]) -> list[str]:
    """Returns the paths of the table that are not answered by an endpoint."""
    answered = {each.path for each in endpoints}
    return [path for path in TABLE.paths if path not in answered]


_CLIENT = "/v1/client/{rest:path}"
_ANY = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"]


async def _unknown_path(request: Request) -> Response:
    return Response(status_code=404, headers=VARY)
