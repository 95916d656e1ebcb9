"""What an agent that runs no server does not answer itself: the servers do.

An ASGI app in front of the agent's. While access control is on, the servers decide by the request's
token, as if it had come to them; without it nothing is passed on (docs/security.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from agent.connection.http_relay import answer_by_server
from agent.serve import client_routes
from agent.serve.guard import AccessGuard
from orchgit.query_values import first_values
from orchgit.wire.relay_paths import is_of_servers
from orchgit.wire.relay_proof import HEADER

if TYPE_CHECKING:
    from agent.agent import Agent


_OF_AGENTS = "/v1/client/"


class ServersApi:
    """`names_callers`: the servers are asked whose token it is, for the audit log."""

    def __init__(self, guard: AccessGuard, agent: Agent, names_callers: bool) -> None:
        self._guard = guard
        self._agent = agent
        self._names_callers = names_callers
        self._own = [route for route in client_routes(agent) if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_own(scope):
            await self._guard(scope, receive, send)
            return
        if self._names_callers:
            await self._guard.note_caller(scope)
        await answer_by_server(self._agent.ask_server, scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        """Returns whether this agent answers: for itself, or with why it cannot."""
        if scope["type"] != "http" or not is_of_servers(scope["path"]):
            return True
        # A server has passed it on, maybe because it expects an allocation here that is gone.
        if any(name == HEADER for name, _ in scope["headers"]) or not self._agent.access().is_on:
            return True
        for route in self._own:
            match, found = route.matches(scope)
            if match is not Match.NONE:
                return self._is_about_this(scope, found["path_params"].get("alloc_id", ""))
        path: str = scope["path"]
        return path.startswith(_OF_AGENTS)  # it tells that there is no such path

    def _is_about_this(self, scope: Scope, alloc_id: str) -> bool:
        """Returns whether the request is about this agent, or an allocation of its node."""
        if alloc_id and not self._agent.allocations.knows(alloc_id):
            return False
        named = first_values(scope["query_string"])
        is_this_node = named.get("node_id", "") in ("", self._agent.node_id)
        return is_this_node and not named.get("server_id")
