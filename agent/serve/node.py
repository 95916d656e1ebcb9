"""`/v1/client/...` about the node itself: use of resources, metadata, garbage, services."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agent.node.registration import DEFAULT_META
from agent.serve.replies import body_of, check_no_page, json_reply
from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent


_META_KEY = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")


def routes(agent: Agent) -> list[BaseRoute]:
    node = _NodeRoutes(agent)
    return [
        Route("/v1/client/stats", node.stats),
        Route("/v1/client/gc", node.gc, methods=["GET", "PUT", "POST"]),
        Route("/v1/client/metadata", node.metadata, methods=["GET"]),
        Route("/v1/client/metadata", node.put_metadata, methods=["PUT", "POST"]),
        Route("/v1/client/services", node.services),
        Route("/v1/client/identity", node.identity),
        Route("/v1/client/identity/renew", node.renew_identity, methods=["PUT", "POST"]),
    ]


class _NodeRoutes:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def _check_node(self, request: Request) -> None:
        wanted = first_values(request.scope["query_string"]).get("node_id", "")
        if wanted not in ("", self._agent.node_id):
            raise NotFoundError(f"Unknown node {wanted}")

    async def gc(self, request: Request) -> Response:
        check_no_page(request)
        self._check_node(request)
        await self._agent.garbage.collect_all()
        return json_reply({})

    async def identity(self, request: Request) -> Response:
        """What the node's own token says; the token itself is shown to nobody."""
        self._check_node(request)
        payload = (await self._agent.identity()).split(".")[1]
        claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return json_reply({"Claims": msgspec.json.decode(claims)})

    async def renew_identity(self, request: Request) -> Response:
        self._check_node(request)
        await self._agent.identity(renewed=True)
        return json_reply({})

    async def services(self, request: Request) -> Response:
        """The service instances of this node."""
        return json_reply(
            [
                {
                    "ID": entry.id,
                    "ServiceName": entry.service_name,
                    "Namespace": entry.namespace,
                    "NodeID": entry.node_id,
                    "Datacenter": entry.datacenter,
                    "JobID": entry.job_id,
                    "AllocID": entry.alloc_id,
                    "Tags": entry.tags,
                    "Address": entry.address,
                    "Port": entry.port,
                }
                for entry in self._agent.services.registrations()
            ]
        )

    async def metadata(self, request: Request) -> Response:
        self._check_node(request)
        return json_reply(self._metadata())

    async def put_metadata(self, request: Request) -> Response:
        self._check_node(request)
        meta = (await body_of(request)).get("meta")
        if not isinstance(meta, dict) or not meta:
            raise InvalidInputError("missing required Meta object")
        for key in meta:
            if _META_KEY.fullmatch(str(key)) is None:
                raise InvalidInputError(
                    f'"{key}" is invalid; metadata keys must be valid dotted hcl identifiers'
                )
        changes = {str(key): None if v is None else str(v) for key, v in meta.items()}
        self._agent.change_metadata(changes)
        return json_reply(self._metadata())

    def _metadata(self) -> dict[str, object]:
        return {
            "Meta": self._agent.node().meta,
            "Dynamic": self._agent.facts.meta,
            "Static": {**DEFAULT_META, **self._agent.config.meta},
        }

    async def stats(self, request: Request) -> Response:
        self._check_node(request)
        from agent.serve import host_stats  # psutil is loaded by the first who asks

        agent = self._agent
        stats = await asyncio.to_thread(
            host_stats.read, agent.config.alloc_root, agent.clock, agent.devices
        )
        return json_reply(stats)
