"""`/v1/agent/...` of this process: what it is, its health, its log, its profiles, its machine, as
servers answer them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agent.serve.client_stats import client_stats
from agent.serve.replies import flag, json_reply, number
from orchgit import __version__, logs
from orchgit.api import host_facts, process_answers
from orchgit.api.process_answers import ProcessLog
from orchgit.errors import NotFoundError, RefusedError
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent


def routes(agent: Agent) -> list[BaseRoute]:
    process = _ProcessRoutes(agent)
    return [
        Route("/v1/agent/monitor", process.monitor),
        Route("/v1/agent/pprof/{profile}", process.profile),
        Route("/v1/agent/host", process.host),
        Route("/v1/agent/self", process.self_),
        Route("/v1/agent/health", process.health),
        Route("/v1/agent/servers", process.servers, methods=["GET"]),
        Route("/v1/agent/reload", process.reload, methods=["PUT", "POST"]),
    ]


_NO_MEMBER: Mapping[str, object] = {
    **dict.fromkeys(("Name", "Addr", "Status"), ""),
    **dict.fromkeys(("Port", "ProtocolMin", "ProtocolMax", "ProtocolCur"), 0),
    **dict.fromkeys(("DelegateMin", "DelegateMax", "DelegateCur"), 0),
    "Tags": None,
}
"""What only servers are: clients read the keys."""


class _ProcessRoutes:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def _query(self, request: Request) -> dict[str, str]:
        """Returns the parameters. Raises an error where another process is meant."""
        query = first_values(request.scope["query_string"])
        if wanted := query.get("server_id", ""):
            raise RefusedError(f"cannot ask server {wanted!r} here: this agent runs no server")
        if (wanted := query.get("node_id", "")) not in ("", self._agent.node_id):
            raise NotFoundError(f"Unknown node {wanted}")
        return query

    async def monitor(self, request: Request) -> Response:
        level = self._query(request).get("log_level") or "INFO"
        options = ProcessLog(
            level,
            flag(request, "plain"),
            flag(request, "log_json"),
            flag(request, "log_include_location"),
        )
        lines = process_answers.monitored(options, lambda: True)
        return StreamingResponse(lines, media_type=options.media_type)

    async def profile(self, request: Request) -> Response:
        self._query(request)
        name, seconds = request.path_params["profile"], number(request, "seconds", 1)
        text = await process_answers.profile(name, seconds)
        return PlainTextResponse(text, headers={"X-Content-Type-Options": "nosniff"})

    async def host(self, request: Request) -> Response:
        self._query(request)
        return json_reply(await asyncio.to_thread(host_facts.read))

    async def self_(self, request: Request) -> Response:
        agent, config = self._agent, self._agent.config
        own = {
            "Region": config.region,
            "Datacenter": config.datacenter,
            "NodeName": config.node_name or os.uname().nodename,
            "DataDir": str(config.data_dir),
            "LogLevel": logs.current().level.upper(),
            "DevMode": False,
            "AdvertiseAddrs": {"HTTP": config.http_addr},
            "ACL": {"Enabled": agent.access().is_on},
            "TLSConfig": {
                "EnableHTTP": config.http_tls is not None,
                "EnableRPC": config.tls is not None,
            },
            "UI": {"Enabled": False, "ShowCLIHints": False},
            "Server": {"Enabled": False},
            "Client": {
                "Enabled": True,
                "NodeClass": config.node_class,
                "NodePool": config.node_pool,
                "Meta": dict(config.meta),
                "Servers": list(config.servers),
            },
            "Version": {
                "Version": __version__,
                "VersionPrerelease": "",
                "VersionMetadata": "orchgit",
                "Revision": "",
            },
        }
        stats = {"client": {"node_id": agent.node_id, **client_stats(agent)}}
        return json_reply({"config": own, "member": _NO_MEMBER, "stats": stats})

    async def health(self, request: Request) -> Response:
        """Says whether a server is connected; an agent that runs no server says nothing of one."""
        if first_values(request.scope["query_string"]).get("type", "") == "server":
            return json_reply({})
        is_ok = self._agent.connected.is_set()
        said = {"ok": is_ok, "message": "ok" if is_ok else "no known servers"}
        reply = json_reply({"client": said})
        reply.status_code = 200 if is_ok else 500
        return reply

    async def servers(self, request: Request) -> Response:
        return json_reply(list(self._agent.link.servers))

    async def reload(self, request: Request) -> Response:
        """Reads configuration and certificates again, as SIGHUP does."""
        if self._agent.reload is None:
            raise RefusedError("cannot reload: this agent was started without a configuration")
        self._agent.reload()
        return Response()
