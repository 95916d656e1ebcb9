"""Routes a request and answers it: method tables, errors, CORS, the region check."""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from orchgit.api.access.control import AccessRefusedError
from orchgit.api.access.enforcement import admit, admitted_before, refusal_response
from orchgit.api.call import ApiCall
from orchgit.api.context import ApiContext
from orchgit.api.errors import VARY, text_response
from orchgit.api.request_metrics import RequestMetrics
from orchgit.errors import (
    InvalidInputError,
    NotLeaderError,
    OrchgitError,
    RefusedError,
)
from orchgit.http_status import MethodNotAllowedError, status_of

Handler = Callable[[ApiCall], Awaitable[Response]]

_log = structlog.get_logger(component="api")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and the handlers of its methods. PUT and POST are the same."""

    path: str
    methods: dict[str, Handler]


def endpoint(
    path: str,
    *,
    get: Handler | None = None,
    put: Handler | None = None,
    delete: Handler | None = None,
) -> Endpoint:
    """Makes an endpoint. `{id}` in a path matches one part, `{id:path}` any number of them."""
    pairs = {"GET": get, "HEAD": get, "PUT": put, "POST": put, "DELETE": delete}
    return Endpoint(path, {name: handler for name, handler in pairs.items() if handler})


async def answer(
    each: Endpoint, request: Request, api: ApiContext, metrics: RequestMetrics
) -> Response:
    """Returns the endpoint's answer, errors included; counts and times it."""
    started_s = time.perf_counter()
    response = await _answer(each, ApiCall(request, api))
    metrics.observe(request.method, each.path, time.perf_counter() - started_s)
    return response


async def _answer(each: Endpoint, call: ApiCall) -> Response:
    method = call.request.method
    if method == "OPTIONS":
        return _preflight(each)
    try:
        handler = each.methods.get(method)
        if handler is None:
            raise MethodNotAllowedError
        region = call.query.get("region")
        if region and region != call.api.server.region:
            raise RefusedError("No path to region")
        control = call.api.access
        if control is not None and not admitted_before(call, each.path, control):
            await admit(call, each.path, control)
        return await handler(call)
    except AccessRefusedError as error:
        return refusal_response(error.refusal)
    except (ClientDisconnect, ConnectionError):
        return Response(status_code=499)
    except NotLeaderError as error:
        if call.writes is not None and not call.writes.any:
            raise  # the leader can do it: see `consistency`
        return _error_response(error, call)
    except Exception as error:  # noqa: BLE001 - the edge: every error becomes an answer
        return _error_response(error, call)


def _error_response(error: Exception, call: ApiCall) -> Response:
    if isinstance(error, RecursionError):
        error = InvalidInputError("cannot use the request: it is nested too deeply")
    status = status_of(error)
    if not isinstance(error, OrchgitError) and status >= 500:
        # As text: a richer report would show local variables, which may hold secrets.
        trace = "".join(traceback.format_exception(error))
        _log.error("request failed", path=call.request.url.path, trace=trace)
        return text_response("cannot answer: the server failed; its log says why", status)
    headers = {}
    if isinstance(error, NotLeaderError) and (leader := call.api.server.leader_address()):
        headers["X-Orchgit-Leader"] = leader
    return text_response(str(error), status, headers)


def _preflight(each: Endpoint) -> Response:
    return Response(
        status_code=204,
        headers={
            **VARY,
            "Allow": ", ".join([*each.methods, "OPTIONS"]),
        },
    )
