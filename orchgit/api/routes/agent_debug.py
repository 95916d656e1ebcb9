"""What an operator looks into on one server or node: its log, its profiles, its machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from starlette.responses import Response, StreamingResponse

from orchgit.api import host_facts, process_answers
from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY, text_response
from orchgit.api.process_answers import ProcessLog
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, RefusedError


async def _elsewhere(call: ApiCall) -> Response | None:
    """Returns the answer of the node that is meant; None where this process is.

    Raises RefusedError where an unknown server is meant; requests for other servers were forwarded
    to them. Raises NotFoundError for an unknown node.
    """
    server = call.api.server
    own = ("", server.server_id, server.name, f"{server.name}.{server.region}")
    asked, node_id = call.query.get("server_id", ""), call.query.get("node_id", "")
    if asked and node_id:
        raise InvalidInputError("cannot ask a server and a node: give server_id or node_id")
    if asked not in own and not (asked == "leader" and call.context.state.cluster.is_leader):
        raise RefusedError(
            f"cannot ask server {asked!r}: no member of the cluster has that name or id "
            "(orchgit server members)"
        )
    local = call.api.local_node
    if not node_id or (local is not None and node_id == local.node_id()):
        return None
    if call.api.ask_node is None:
        raise RefusedError(f"cannot ask node {node_id!r} from here")
    answer = await call.api.ask_node(node_id, call.request)
    if isinstance(answer, StreamingResponse):
        chunks = cast(AsyncGenerator[Any], answer.body_iterator)
        answer.body_iterator = _while_allowed(call, chunks)
    return answer


async def _while_allowed(call: ApiCall, chunks: AsyncGenerator[Any]) -> AsyncIterator[Any]:
    """Yields the chunks until the caller has lost the right to them."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if not call.keeps_access():
                return
            yield chunk


async def monitor(call: ApiCall) -> Response:
    """Sends the lines of a process's log from now on, until the client goes."""
    if (answer := await _elsewhere(call)) is not None:
        return answer
    level = call.query.get("log_level") or "INFO"
    options = ProcessLog(
        level, call.flag("plain"), call.flag("log_json"), call.flag("log_include_location")
    )

    def goes_on() -> bool:
        return not call.api.events.closed and call.keeps_access()

    return StreamingResponse(
        process_answers.monitored(options, goes_on), headers=VARY, media_type=options.media_type
    )


async def profile(call: ApiCall) -> Response:
    """Answers a profile of a process; those that only Go has are named as such."""
    if (answer := await _elsewhere(call)) is not None:
        return answer
    text = await process_answers.profile(call.path["profile"], call.number("seconds", 1))
    return text_response(text, 200, {"X-Content-Type-Options": "nosniff"})


async def host(call: ApiCall) -> Response:
    """Describes a machine; values of the environment that may be secret are left out."""
    if (answer := await _elsewhere(call)) is not None:
        return answer
    return call.answer(await asyncio.to_thread(host_facts.read))


async def reload(call: ApiCall) -> Response:
    """Reads configuration and certificates again, as SIGHUP does."""
    if call.api.reload is None:
        raise RefusedError("cannot reload: this server was started without a configuration")
    call.api.reload()
    return call.empty()


async def gossip_keyring(call: ApiCall) -> Response:
    """Answers as servers without encrypted gossip do: here they speak TLS, and gossip nothing."""
    operation = call.path["operation"]
    if operation not in ("list", "install", "use", "remove"):
        return text_response("resource not found", 404)
    count = len(call.api.server.servers()) or 1
    return text_response(f"{count}/{count} nodes reported failure", 500)


ENDPOINTS = [
    endpoint("/v1/agent/monitor", get=monitor),
    endpoint("/v1/agent/pprof/{profile}", get=profile),
    endpoint("/v1/agent/host", get=host),
    endpoint("/v1/agent/reload", put=reload),
    endpoint("/v1/agent/keyring/{operation}", get=gossip_keyring, put=gossip_keyring),
]
