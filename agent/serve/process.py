"""`/v1/agent/...` of this process: its log, its profiles, its machine, as servers answer them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agent.serve.replies import flag, json_reply, number
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
    ]


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
        options = ProcessLog(level, flag(request, "plain"), flag(request, "log_json"))
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
