"""Keeps the services of this node at its Consul agent as they are here.

Each round compares: what runs here is registered, what Consul has of this node and does not run
here is deregistered, unless what survived an agent is still being taken up. A round follows each
change, and each interval, since a Consul agent that was restarted or changed by hand says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import structlog

from agent.consul.definitions import (
    ID_PREFIX,
    NODE_META,
    check_status,
    owner_prefix,
    service_definition,
    service_id,
)
from agent.http_json import HttpService, Reply, request
from agent.services.registrations import ProvidedService, ServiceTable
from orchgit.clock import Clock
from orchgit.errors import OrchgitError, RefusedError
from orchgit.wait_first import wait_first

_log = structlog.get_logger(component="agent")

_INTERVAL_S = 15.0
_LOST_AFTER = 3
"""Rounds in a row that fail before the node is said to have no Consul."""
_PROVIDER = "consul"


class ConsulSync:
    """`attributes_changed(attributes, links)` is called when those of Consul change."""

    def __init__(
        self,
        consul: HttpService,
        namespace: str,
        services: ServiceTable,
        node_id: str,
        clock: Clock,
        attributes_changed: Callable[[dict[str, str], dict[str, str]], None],
    ) -> None:
        self._consul = consul
        self._query = f"?{urlencode({'ns': namespace})}" if namespace else ""
        self._services = services
        self._node_id = node_id
        self._clock = clock
        self._attributes_changed = attributes_changed
        self._attributes: dict[str, str] = {}
        self._registered: dict[str, dict[str, Any]] = {}
        self._refused: dict[str, str] = {}
        """Services that Consul refuses, and why."""
        self._failures = 0

    async def run(self) -> None:
        """Rounds until it is cancelled; services stay registered, since their tasks run on."""
        changed = asyncio.Event()
        self._services.listeners.append(changed.set)
        try:
            while True:
                changed.clear()
                await self._try_round()
                async with wait_first(changed.wait(), self._clock.sleep(_INTERVAL_S)):
                    pass
        finally:
            self._services.listeners.remove(changed.set)

    async def _try_round(self) -> None:
        try:
            await self._read_attributes()
            await self._synchronize()
            if self._failures:
                _log.info("Consul answers again", consul=self._consul.url)
            self._failures = 0
        except OrchgitError as error:
            if not self._failures:
                _log.warning("cannot register services at Consul now", error=str(error))
            self._failures += 1
            self._registered.clear()
            if self._failures == _LOST_AFTER:
                self._set_attributes({}, {})

    async def _read_attributes(self) -> None:
        found = (await self._ask("GET", "/v1/agent/self")).body
        config = _table(found, "Config")
        if not config.get("Version"):
            raise RefusedError(f"cannot use {self._consul.url}: it does not answer as Consul does")
        attributes = {
            "consul.version": str(config.get("Version", "")),
            "consul.revision": str(config.get("Revision", "")),
            "consul.datacenter": str(config.get("Datacenter", "")),
            "consul.server": str(config.get("Server", False)).lower(),
            "unique.consul.name": str(config.get("NodeName", "")),
            "consul.connect": str(
                _table(found, "DebugConfig").get("ConnectEnabled", False)
            ).lower(),
        }
        if partition := config.get("Partition"):
            attributes["consul.partition"] = str(partition)
        link = f"{attributes['consul.datacenter']}.{attributes['unique.consul.name']}"
        self._set_attributes(attributes, {"consul": link})

    def _set_attributes(self, attributes: dict[str, str], links: dict[str, str]) -> None:
        if attributes != self._attributes:
            self._attributes = attributes
            self._attributes_changed(attributes, links)

    async def _synchronize(self) -> None:
        there = (await self._ask("GET", f"/v1/agent/services{self._query}")).body
        if not isinstance(there, dict):
            raise RefusedError(f"cannot use {self._consul.url}: it lists its services as no Consul")
        known: Mapping[str, Any] = there
        # Both at one time: what is taken up is in one of them.
        wanted = {service_id(each): each for each in self._provided()}
        resuming = tuple(
            owner_prefix(alloc_id, services.alloc.task_group, owner)
            for alloc_id, services in self._services.by_alloc.items()
            for owner in services.resuming_owners
        )
        for id_, entry in known.items():
            mine = _table(entry, "Meta").get(NODE_META) == self._node_id
            kept = id_ in wanted or id_.startswith(resuming)
            if id_.startswith(ID_PREFIX) and mine and not kept:
                path = f"/v1/agent/service/deregister/{quote(id_)}{self._query}"
                await self._try(id_, self._ask("PUT", path))
                self._registered.pop(id_, None)
        for id_, provided in wanted.items():
            definition = service_definition(provided, self._node_id, provided.is_canary)
            is_new = id_ not in known or self._registered.get(id_) != definition
            await self._try(id_, self._provide(id_, provided, definition if is_new else None))
        for id_ in self._refused.keys() - wanted.keys() - known.keys():
            del self._refused[id_]

    async def _try(self, id_: str, work: Awaitable[object]) -> None:
        """What Consul refuses of one service holds up no other; it is told once. Raises
        UnreachableError."""
        try:
            await work
            self._refused.pop(id_, None)
        except RefusedError as error:
            if self._refused.get(id_) != str(error):
                self._refused[id_] = str(error)
                _log.warning("Consul refuses a service", service=id_, error=str(error))

    async def _provide(
        self, id_: str, provided: ProvidedService, definition: dict[str, Any] | None
    ) -> None:
        """Registers the service, if there is a definition, and tells the results of its scripts."""
        if definition is not None:
            mark = "&" if self._query else "?"
            path = f"/v1/agent/service/register{self._query}{mark}replace-existing-checks=true"
            await self._ask("PUT", path, definition)
            self._registered[id_] = definition
        await self._tell_scripts(provided)

    async def _tell_scripts(self, provided: ProvidedService) -> None:
        """Consul cannot run a script in a task: it is told the result."""
        for running in provided.checks:
            if running.check.type == "script" and running.state.checked_ns:
                path = f"/v1/agent/check/update/_nomad-check-{running.id}{self._query}"
                result = {"Status": check_status(running.state), "Output": running.state.output}
                await self._ask("PUT", path, result)

    def _provided(self) -> Iterator[ProvidedService]:
        for services in self._services.by_alloc.values():
            for provided in services.provided.values():
                if provided.service.provider == _PROVIDER:
                    yield provided

    async def _ask(self, method: str, path: str, body: object = None) -> Reply:
        reply = await request(self._consul, method, path, body)
        if not reply.ok:
            raise RefusedError(
                f"cannot use Consul: {method} {path.partition('?')[0]} was answered with "
                f"{reply.status}: {str(reply.body)[:500]}"
            )
        return reply


def _table(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
