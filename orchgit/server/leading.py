"""What the HTTP edge is told of this server: whether it leads, and what it has."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

from orchgit.replication.replicated import ReplicatedState


class Leading:
    """`Leading` of `orchgit.api.consistency`."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state

    @property
    def is_leader(self) -> bool:
        return self._state.is_leader

    @property
    def leads_for_certain(self) -> bool:
        return self._state.leads_for_certain

    async def read_index(self) -> int:
        return await self._state.read_index()

    async def leadership_lost(self) -> None:
        await self._state.leadership.lost()


class Places:
    """`KnowsNodes` of `orchgit.api.consistency`."""

    def __init__(self, knows_node: Callable[[Scope], bool]) -> None:
        self._knows_node = knows_node

    def has_node(self, scope: Scope) -> bool:
        return self._knows_node(scope)
