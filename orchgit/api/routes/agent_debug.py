"""What an operator looks into on one server: its log, its profiles, its machine."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from orchgit import logs
from orchgit.api import host_facts, profiles
from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY, text_response
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError, RefusedError

HEARTBEAT_S = 10.0
_LOOK_S = 1.0
"""How often a monitor looks whether its server stops or its caller lost the right."""
MAX_PROFILE_S = 30
MAX_MONITORS = 16


class _Monitors:
    """How many follow the log now."""

    def __init__(self) -> None:
        self.count = 0


_MONITORS = _Monitors()


def _check_here(call: ApiCall) -> None:
    """Raises RefusedError where an unknown server or a node is meant; requests for other servers
    were forwarded to them."""
    server = call.api.server
    own = ("", server.server_id, server.name, f"{server.name}.{server.region}")
    asked = call.query.get("server_id", "")
    local = call.api.local_node
    nodes = ("",) if local is None else ("", local.node_id())
    if asked not in own and not (asked == "leader" and call.context.state.cluster.is_leader):
        raise RefusedError(
            f"cannot ask server {asked!r}: no member of the cluster has that name or id "
            "(orchgit server members)"
        )
    if (node := call.query.get("node_id", "")) not in nodes:
        raise RefusedError(f"cannot ask node {node!r} from here: read the log of its own machine")


async def monitor(call: ApiCall) -> Response:
    """Sends the lines of this server's log from now on, until the client goes."""
    level = call.query.get("log_level") or "INFO"
    plain, as_json = call.flag("plain"), call.flag("log_json")
    if not logs.is_level(level):
        raise InvalidInputError(f"Unknown log level: {level}")
    _check_here(call)
    if _MONITORS.count >= MAX_MONITORS:
        raise RefusedError(f"cannot follow the log: {MAX_MONITORS} clients do so already")
    return StreamingResponse(
        _lines(call, level, plain, as_json),
        headers=VARY,
        media_type="text/plain" if plain else "application/json",
    )


async def _lines(call: ApiCall, level: str, plain: bool, as_json: bool) -> AsyncIterator[bytes]:
    loop, fresh = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(fresh.set)

    _MONITORS.count += 1
    try:
        with logs.followed(level, as_json, wake) as tap:
            silent_s = 0.0
            while not call.api.events.closed:
                call.refresh_access()
                lines = tap.take()
                if lines:
                    silent_s = 0.0
                    yield _framed("\n".join(lines) + "\n", plain)
                elif silent_s >= HEARTBEAT_S and not plain:
                    silent_s = 0.0
                    yield b"{}"
                try:
                    await asyncio.wait_for(fresh.wait(), _LOOK_S)
                except TimeoutError:
                    silent_s += _LOOK_S
                fresh.clear()
    finally:
        _MONITORS.count -= 1


def _framed(text: str, plain: bool) -> bytes:
    data = text.encode()
    if plain:
        return data
    return nomad_json.encode({"Data": base64.b64encode(data).decode()})


async def profile(call: ApiCall) -> Response:
    """Answers a profile of this process; those that only Go has are named as such."""
    name = call.path["profile"]
    if name not in profiles.ALL:
        return text_response(f"Pprof profile not found profile: {name}", 404)
    _check_here(call)
    if name in profiles.ONLY_GO:
        raise InvalidInputError(
            f"cannot make profile {name!r}: Python keeps no such record; "
            f"there are {', '.join((*profiles.MADE, *profiles.OF_LOOP))}"
        )
    seconds = call.number("seconds", 1)
    if not 0 < seconds <= MAX_PROFILE_S:
        raise InvalidInputError(f"cannot profile: seconds must be from 1 to {MAX_PROFILE_S}")
    if name == "cmdline":
        text = "\0".join(sys.argv)
    elif name == "goroutine":
        text = profiles.stacks(asyncio.all_tasks())
    else:
        text = await asyncio.to_thread(profiles.MADE[name], seconds)
    return text_response(text, 200, {"X-Content-Type-Options": "nosniff"})


async def host(call: ApiCall) -> Response:
    """Describes the machine; values of the environment that may be secret are left out."""
    _check_here(call)
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
