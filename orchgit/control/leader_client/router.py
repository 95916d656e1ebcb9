"""The leader for this server's workers: this process while this server leads, else another."""

from __future__ import annotations

from orchgit.control.leader import Control
from orchgit.control.leader_client.protocol import LeaderClient
from orchgit.control.leader_client.remote import RemoteLeader
from orchgit.wire.channel import LeaderChannel
from orchgit.wire.messages import (
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    EvalTokenRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)


class LeaderRouter:
    """A LeaderClient for all workers of a server; `channel` finds the leader on another one."""

    def __init__(self, control: Control, channel: LeaderChannel) -> None:
        self._control = control
        self._remote = RemoteLeader(channel)

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        if self._control.leads:
            return await self._control.dequeue(request, local=True)
        return await self._remote.dequeue(request)

    async def ack(self, request: EvalTokenRequest) -> Empty:
        return await self._leader.ack(request)

    async def nack(self, request: EvalTokenRequest) -> Empty:
        return await self._leader.nack(request)

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        return await self._leader.store_evaluations(request)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        return await self._leader.submit_plan(request)

    @property
    def _leader(self) -> LeaderClient:
        return self._control if self._control.leads else self._remote
