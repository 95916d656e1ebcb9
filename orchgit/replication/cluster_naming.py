"""Gives a cluster its id: the first leader of a cluster without one proposes it."""

from __future__ import annotations

import contextlib

from orchgit.errors import OrchgitError
from orchgit.ids import IdSource
from orchgit.replication.commands.settings import SetClusterId
from orchgit.replication.leadership import LeadershipFeed
from orchgit.replication.writer import Writer
from orchgit.state.store import Store


class ClusterNaming:
    """Belongs to the event loop."""

    def __init__(self, store: Store, writer: Writer, ids: IdSource) -> None:
        self._store = store
        self._writer = writer
        self._ids = ids

    async def run(self, feed: LeadershipFeed) -> None:
        """Gives the cluster an id whenever this server leads one that has none yet."""
        async for leads in feed:
            if leads:
                with contextlib.suppress(OrchgitError):
                    await self.give_id()

    async def give_id(self) -> None:
        """Does nothing if the cluster has an id. Raises what `Writer.propose` raises."""
        with self._store.snapshot() as snapshot:
            named = snapshot.meta.cluster_id() is not None
        if not named:
            await self._writer.propose(SetClusterId(cluster_id=self._ids.new()))
