"""The agent's own HTTP routes, `/v1/client/...` and some of `/v1/agent/...`, in Nomad's shapes.

`client_app(agent)` is an ASGI app with them, to be mounted by a server in the same process or
served alone; `client_routes(agent)` is the list. Files are reached only inside an allocation's
directory, never through a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from agent.serve import allocations, files, logs, metrics, node, process, sessions
from agent.serve.replies import ERROR_HANDLERS

if TYPE_CHECKING:
    from agent.agent import Agent


def client_routes(agent: Agent) -> list[BaseRoute]:
    return [
        *files.routes(agent),
        *logs.routes(agent),
        *allocations.routes(agent),
        *sessions.routes(agent),
        *node.routes(agent),
        *metrics.routes(agent),
        *process.routes(agent),
    ]


def client_app(agent: Agent) -> Starlette:
    return Starlette(routes=client_routes(agent), exception_handlers=ERROR_HANDLERS)
