"""The CSI plugins of this node: tasks that serve a socket, as the servers see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from agent.csi.client import CsiClient
from agent.csi.messages import ControllerRpc, NodeRpc, PluginCapability
from agent.loops import spawn, until_done
from orchgit.clock import Clock
from orchgit.errors import DriverError

_log = structlog.get_logger(component="agent")

NODE, CONTROLLER, MONOLITH = "node", "controller", "monolith"
_LOOK_S = 0.5
_PROBE_EVERY_S = 15.0
_PROBE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class PluginTask:
    """A running task that is a plugin; `kind` is node, controller or monolith. A task that does not
    answer as a plugin for `health_timeout_s` is `unanswered`."""

    plugin_id: str
    kind: str
    alloc_id: str
    socket: Path
    task_name: str = ""
    root: str = ""
    """The node's directory of CSI volumes."""
    seen_root: str = ""
    """What a task in a container sees in place of `root`; empty for one that sees the node's
    files."""
    health_timeout_s: float = 30.0
    attempt: str = ""
    """The key of the task's attempt: the next one may be another plugin with other abilities."""


@dataclass(slots=True)
class _Plugin:
    task: PluginTask
    client: CsiClient
    answered_s: float
    """Until when it was healthy; if never, when it was first asked or last ended for that."""
    probed_s: float = float("-inf")
    healthy: bool = False
    why: str = "not probed yet"
    changed_at: datetime | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    node_info: dict[str, Any] | None = None
    controller_info: dict[str, Any] | None = None


class CsiPlugins:
    """Follows the plugins among the node's tasks. `tasks` names those that run; `changed` is called
    when the servers should hear of a change, and `unanswered` with a task that has not answered for
    its health timeout, and why."""

    def __init__(
        self,
        tasks: Callable[[], Iterable[PluginTask]],
        clock: Clock,
        changed: Callable[[], None],
        unanswered: Callable[[PluginTask, str], None],
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._changed = changed
        self._unanswered = unanswered
        self._plugins: dict[PluginTask, _Plugin] = {}
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = spawn(until_done(self._follow, "csi plugins", self._clock), "csi plugins")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await asyncio.gather(*(plugin.client.close() for plugin in self._plugins.values()))

    def described(self, kind: str) -> dict[str, dict[str, object]] | None:
        """Returns the plugins of a kind, node or controller, as a node's description has them. Of
        several tasks that are one plugin, one that answers is described."""
        found: dict[str, dict[str, object]] = {}
        for plugin in reversed(self._of_kind(kind)):
            info = plugin.node_info if kind == NODE else plugin.controller_info
            if info is None:
                continue
            found[plugin.task.plugin_id] = {
                "PluginID": plugin.task.plugin_id,
                "AllocID": plugin.task.alloc_id,
                "Healthy": plugin.healthy,
                "HealthDescription": "healthy" if plugin.healthy else plugin.why,
                "UpdateTime": plugin.changed_at,
                **plugin.facts,
                "NodeInfo": info if kind == NODE else None,
                "ControllerInfo": info if kind == CONTROLLER else None,
            }
        return found or None

    def client(self, plugin_id: str, kind: str) -> CsiClient:
        """Raises DriverError where this node has no such plugin that answers."""
        for plugin in self._of_kind(kind):
            if plugin.task.plugin_id == plugin_id:
                if plugin.healthy:
                    return plugin.client
                raise DriverError(f'CSI plugin "{plugin_id}" is not healthy: {plugin.why}', True)
        raise DriverError(f'this node runs no CSI {kind} plugin "{plugin_id}"', True)

    def node_info(self, plugin_id: str) -> dict[str, Any]:
        for plugin in self._of_kind(NODE):
            if plugin.task.plugin_id == plugin_id and plugin.node_info is not None:
                return plugin.node_info
        return {}

    def _of_kind(self, kind: str) -> list[_Plugin]:
        """Returns the plugins of a kind, those that answer first."""
        found = [each for each in self._plugins.values() if each.task.kind in (kind, MONOLITH)]
        return sorted(found, key=lambda each: not each.healthy)

    async def _follow(self) -> None:
        while True:
            wanted = set(self._tasks())
            gone = {
                (task.alloc_id, task.task_name): self._plugins.pop(task)
                for task in list(self._plugins)
                if task not in wanted
            }
            for plugin in gone.values():
                await plugin.client.close()
            for task in wanted - set(self._plugins):
                client = CsiClient(task.socket, task.root, task.seen_root)
                made = self._plugins[task] = _Plugin(task, client, self._clock.monotonic_s())
                if before := gone.get((task.alloc_id, task.task_name)):  # until the next answers
                    made.facts = before.facts
                    made.node_info = before.node_info
                    made.controller_info = before.controller_info
            now_s = self._clock.monotonic_s()
            due = [
                plugin
                for plugin in self._plugins.values()
                if not plugin.healthy or now_s - plugin.probed_s >= _PROBE_EVERY_S
            ]
            changes = await asyncio.gather(*map(self._probe, due))
            if gone or any(changes):
                self._changed()
            for plugin in self._plugins.values():
                self._end_if_silent(plugin)
            await self._clock.sleep(_LOOK_S)

    def _end_if_silent(self, plugin: _Plugin) -> None:
        now_s, limit_s = self._clock.monotonic_s(), plugin.task.health_timeout_s
        if plugin.healthy:
            plugin.answered_s = now_s
        elif now_s - plugin.answered_s >= limit_s:
            plugin.answered_s = now_s
            self._unanswered(plugin.task, plugin.why)

    async def _probe(self, plugin: _Plugin) -> bool:
        """Returns whether the servers should hear of it."""
        before = (plugin.healthy, plugin.why)
        plugin.probed_s = self._clock.monotonic_s()
        try:
            ready = await plugin.client.call("Probe", timeout_s=_PROBE_TIMEOUT_S)
            if not (ready.get("ready") or {"value": True})["value"]:
                raise DriverError("it is not ready")
            if not plugin.healthy:
                await self._ask(plugin)
            plugin.healthy, plugin.why = True, ""
        except DriverError as error:
            plugin.healthy, plugin.why = False, str(error)
        if (plugin.healthy, plugin.why) == before:
            return False
        plugin.changed_at = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)
        if plugin.healthy:
            _log.info("CSI plugin is ready", plugin=plugin.task.plugin_id, kind=plugin.task.kind)
        return plugin.healthy or plugin.node_info is not None or plugin.controller_info is not None

    async def _ask(self, plugin: _Plugin) -> None:
        call, kind = plugin.client.call, plugin.task.kind
        info = await call("GetPluginInfo")
        capabilities = (await call("GetPluginCapabilities"))["capabilities"]
        services = {each["service"]["type"] for each in capabilities if "service" in each}
        plugin.facts = {
            "Provider": info["name"],
            "ProviderVersion": info["vendor_version"],
            "RequiresControllerPlugin": PluginCapability.CONTROLLER_SERVICE in services,
            "RequiresTopologies": PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS in services,
        }
        if kind in (CONTROLLER, MONOLITH) and PluginCapability.CONTROLLER_SERVICE in services:
            rpcs = _rpcs(await call("ControllerGetCapabilities"))
            plugin.controller_info = {
                "SupportsReadOnlyAttach": ControllerRpc.PUBLISH_READONLY in rpcs,
                "SupportsAttachDetach": ControllerRpc.PUBLISH_UNPUBLISH_VOLUME in rpcs,
                "SupportsListVolumes": ControllerRpc.LIST_VOLUMES in rpcs,
                "SupportsListVolumesAttachedNodes": (
                    ControllerRpc.LIST_VOLUMES_PUBLISHED_NODES in rpcs
                ),
                "SupportsCreateDelete": ControllerRpc.CREATE_DELETE_VOLUME in rpcs,
                "SupportsClone": ControllerRpc.CLONE_VOLUME in rpcs,
                "SupportsCreateDeleteSnapshot": ControllerRpc.CREATE_DELETE_SNAPSHOT in rpcs,
                "SupportsListSnapshots": ControllerRpc.LIST_SNAPSHOTS in rpcs,
                "SupportsExpand": ControllerRpc.EXPAND_VOLUME in rpcs,
                "SupportsGet": ControllerRpc.GET_VOLUME in rpcs,
                "SupportsCondition": ControllerRpc.VOLUME_CONDITION in rpcs,
            }
        if kind in (NODE, MONOLITH):
            rpcs = _rpcs(await call("NodeGetCapabilities"))
            node = await call("NodeGetInfo")
            plugin.node_info = {
                "ID": node["node_id"],
                "MaxVolumes": node["max_volumes_per_node"],
                "AccessibleTopology": {
                    "Segments": (node.get("accessible_topology") or {}).get("segments") or {}
                },
                "RequiresNodeStageVolume": NodeRpc.STAGE_UNSTAGE_VOLUME in rpcs,
                "SupportsStats": NodeRpc.GET_VOLUME_STATS in rpcs,
                "SupportsExpand": NodeRpc.EXPAND_VOLUME in rpcs,
                "SupportsCondition": NodeRpc.VOLUME_CONDITION in rpcs,
            }


def _rpcs(answer: dict[str, Any]) -> set[int]:
    return {each["rpc"]["type"] for each in answer["capabilities"] if "rpc" in each}
