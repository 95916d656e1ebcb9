"""What a server hands to its API, its RPC servicers and gitops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from orchgit.model.node import Node
from orchgit.replication.commands import AllocClientUpdate
from orchgit.services.allocations.reports import update_allocs
from orchgit.services.context import World
from orchgit.services.nodes.registration import NodeChange, register_node, update_node_status
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.variables import Variables


@dataclass(frozen=True, slots=True)
class NodeServices:
    """The use cases an agent's stream needs."""

    world: World

    async def register(self, node: Node) -> NodeChange:
        return await register_node(self.world, node)

    async def update_status(self, node_id: str, status: str) -> NodeChange:
        return await update_node_status(self.world, node_id, status)

    async def update_allocs(self, node_id: str, updates: Sequence[AllocClientUpdate]) -> int:
        return await update_allocs(self.world, node_id, updates)


async def _nothing_to_collect() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Services:
    """`world` is what the functions of this package take first.

    `keyring` seals variables; `collect_garbage` asks the leader's collector for a forced run.
    """

    world: World
    keyring: Keyring
    collect_garbage: Callable[[], Awaitable[None]] = _nothing_to_collect

    @property
    def nodes(self) -> NodeServices:
        return NodeServices(self.world)

    @property
    def variables(self) -> Variables:
        return Variables(self.world, self.keyring)
