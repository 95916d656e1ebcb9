"""The CSI plugins of the cluster, as the descriptions of its nodes have them. No table: a plugin is
there as long as a node runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchgit.model.node import NodeStatus
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

Instances = dict[str, dict[str, Any]]
"""By node id: what the node says of the plugin."""


@dataclass(slots=True)
class CsiPlugin:
    id: str
    provider: str = ""
    version: str = ""
    controller_required: bool = False
    controllers: Instances = field(default_factory=dict)
    nodes: Instances = field(default_factory=dict)
    create_index: int = 0
    modify_index: int = 0

    def healthy(self, instances: Mapping[str, Mapping[str, Any]]) -> int:
        return sum(1 for each in instances.values() if each.get("Healthy"))

    def alloc_ids(self) -> Iterator[str]:
        for instances in (self.controllers, self.nodes):
            yield from (str(each.get("AllocID", "")) for each in instances.values())

    def controller_supports(self, name: str) -> bool:
        return any(
            (each.get("ControllerInfo") or {}).get(name) for each in self.controllers.values()
        )

    def nodes_support(self, name: str) -> bool:
        return any((each.get("NodeInfo") or {}).get(name) for each in self.nodes.values())

    def healthy_controllers(self) -> list[str]:
        """Returns the ids of nodes whose controller answers."""
        return sorted(id_ for id_, each in self.controllers.items() if each.get("Healthy"))


def plugins_of(snapshot: Snapshot) -> dict[str, CsiPlugin]:
    """Returns every plugin of the nodes that are not down, by id."""
    found: dict[str, CsiPlugin] = {}
    for node in snapshot.nodes.all():
        if node.status == NodeStatus.DOWN:
            continue
        for is_controller, plugins in (
            (True, node.csi_controller_plugins),
            (False, node.csi_node_plugins),
        ):
            for plugin_id, facts in (plugins or {}).items():
                plugin = found.setdefault(plugin_id, CsiPlugin(plugin_id))
                instances = plugin.controllers if is_controller else plugin.nodes
                plugin.provider = str(facts.get("Provider", ""))
                plugin.version = str(facts.get("ProviderVersion", ""))
                plugin.controller_required |= bool(facts.get("RequiresControllerPlugin"))
                instances[node.id] = facts
                plugin.create_index = plugin.create_index or node.modify_index
                plugin.modify_index = max(plugin.modify_index, node.modify_index)
    return dict(sorted(found.items()))


class PluginCache:
    """Belongs to the event loop's thread. All nodes are read in another one, once after each change
    of a node, however many ask: the releases of many claims at once, say."""

    def __init__(self) -> None:
        self._cached: tuple[int, asyncio.Task[dict[str, CsiPlugin]]] | None = None
        """(index of the nodes before the read, the read)."""

    async def get(self, store: Store) -> dict[str, CsiPlugin]:
        """Returns every plugin, by id, never older than what was published to the watch. Treat them
        as immutable."""
        index, cached = store.watch.index(("nodes",)), self._cached
        if cached is None or cached[0] != index:
            cached = index, asyncio.create_task(asyncio.to_thread(_read, store))
            self._cached = cached
        try:
            return await asyncio.shield(cached[1])
        except Exception:
            if self._cached is cached:
                self._cached = None
            raise


def _read(store: Store) -> dict[str, CsiPlugin]:
    with store.snapshot() as snapshot:
        return plugins_of(snapshot)
