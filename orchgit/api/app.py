"""The ASGI app: every route of `/v1`, then what the composition root mounts beside them."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from orchgit.api.context import ApiContext
from orchgit.api.errors import VARY
from orchgit.api.request_metrics import RequestMetrics
from orchgit.api.routes import (
    agent,
    allocations,
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
    operator,
    search,
    service_catalog,
    variables,
    volumes,
)
from orchgit.api.routes.client import ClientRoutes, checks_of_allocation
from orchgit.api.routing import Endpoint, starlette_route

_TABLES: tuple[Sequence[Endpoint], ...] = (
    # The busiest first: routes are tried in order. Job paths end with the one that takes any id.
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
    gitops.ENDPOINTS,
    event_stream.ENDPOINTS,
    agent.ENDPOINTS,
    operator.ENDPOINTS,
    search.ENDPOINTS,
    service_catalog.ENDPOINTS,
    variables.ENDPOINTS,
    keyring.ENDPOINTS,
    volumes.ENDPOINTS,
    namespaces.ENDPOINTS,
    disabled.ENDPOINTS,
)


def create_app(context: ApiContext, extra_routes: Sequence[BaseRoute] = ()) -> Starlette:
    """`extra_routes`: the git remote, webhooks and the UI, which bring their own checks.

    `app.state.close` ends the connections to far agents; await it when the app is stopped.
    """
    requests = RequestMetrics()
    tables = (*_TABLES, metrics.endpoints(requests))
    routes: list[BaseRoute] = [
        starlette_route(each, context, requests) for table in tables for each in table
    ]
    client = ClientRoutes(context)
    routes += [Route(_CLIENT, client), WebSocketRoute(_CLIENT, client)]
    routes += [checks_of_allocation(client)]
    routes += extra_routes
    routes += [Route("/v1/{rest:path}", _unknown_path, methods=_ANY)]
    app = Starlette(routes=routes)
    app.state.close = client.close
    return app


_CLIENT = "/v1/client/{rest:path}"
_ANY = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"]


async def _unknown_path(request: Request) -> Response:
    return Response(status_code=404, headers=VARY)
