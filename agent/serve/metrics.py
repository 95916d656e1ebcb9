"""`/v1/metrics` of an agent that serves by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from agent.metrics.node_metrics import node_metrics
from agent.serve.replies import json_reply
from orchgit.metrics.exposition import (
    NOT_ENABLED,
    PROMETHEUS_TYPE,
    nomad_json,
    prometheus_text,
)
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent


def routes(agent: Agent) -> list[BaseRoute]:
    async def metrics(request: Request) -> Response:
        telemetry = agent.config.telemetry
        prometheus = first_values(request.scope["query_string"]).get("format") == "prometheus"
        if prometheus and not telemetry.prometheus:
            return PlainTextResponse(NOT_ENABLED, 415)
        shown = telemetry.filter.of(await node_metrics(agent))
        if not prometheus:
            return json_reply(nomad_json(shown))
        text = await asyncio.to_thread(prometheus_text, shown)
        return Response(text, media_type=PROMETHEUS_TYPE)

    return [Route("/v1/metrics", metrics)]
