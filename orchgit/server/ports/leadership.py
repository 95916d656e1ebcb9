"""Tells the HTTP listener whether this server leads."""

from __future__ import annotations

from orchgit.replication.leadership import WhileLeading
from orchgit.replication.replicated import ReplicatedState


class ServerLeadership:
    """The `LeadershipPort` of `orchgit.api.consistency`, over the replicated state."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state

    @property
    def is_leader(self) -> bool:
        return self._state.cluster.is_leader

    @property
    def leads_for_certain(self) -> bool:
        return self._state.cluster.leads_for_certain

    async def read_index(self) -> int:
        return await self._state.reads.read_index()

    def while_leading(self) -> WhileLeading:
        return self._state.leadership.while_leading()
