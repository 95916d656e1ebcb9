"""The plugins of the cluster are read once after each change of a node."""

from __future__ import annotations

import asyncio
from typing import cast

from orchgit.replication.commands.nodes import RegisterNode
from orchgit.services.context import UseCaseContext
from orchgit.services.csi.plugins import PluginCache
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from orchgit.state.watch import Watch
from tests.support.factories import make_node
from tests.support.use_cases import with_context

FACTS = {"Provider": "test", "Healthy": True}


class CountedStore:
    """Counts its snapshots; the next `failing` of them cannot be had."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.snapshots = 0
        self.failing = 0

    @property
    def watch(self) -> Watch:
        return self._store.watch

    def snapshot(self) -> Snapshot:
        self.snapshots += 1
        if self.failing:
            self.failing -= 1
            raise OSError("the disk does not answer")
        return self._store.snapshot()


def test_plugins_are_read_once_for_many_and_again_after_a_change_of_a_node() -> None:
    async def work(context: UseCaseContext) -> None:
        store = CountedStore(context.state.store)
        cache = PluginCache()

        async def ids() -> list[str]:
            return list(await cache.get(cast(Store, store)))

        assert await asyncio.gather(*(ids() for _ in range(5))) == [[]] * 5
        assert store.snapshots == 1
        for name in ("a", "b"):
            node = make_node(id=name, csi_node_plugins={f"p-{name}": FACTS})
            await context.propose(RegisterNode(node=node))
        assert await asyncio.gather(*(ids() for _ in range(5))) == [["p-a", "p-b"]] * 5
        assert store.snapshots == 2

    with_context(work)


def test_read_that_failed_is_made_again() -> None:
    async def work(context: UseCaseContext) -> None:
        store = CountedStore(context.state.store)
        store.failing = 1
        cache = PluginCache()
        failed = await asyncio.gather(cache.get(cast(Store, store)), return_exceptions=True)
        assert isinstance(failed[0], OSError)
        assert await cache.get(cast(Store, store)) == {}

    with_context(work)
