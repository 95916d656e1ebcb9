"""What servers ask of each other while a cluster forms, grows and shrinks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from orchgit.model.server import ServerRecord
from orchgit.wire import methods
from orchgit.wire.messages import (
    Empty,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    ServerStatus,
    StatusReply,
    StatusRequest,
)
from orchgit.wire.serve import GrpcServer


class Meeting(Protocol):
    """`orchgit.server.membership.joining.Joining`."""

    def meet(self, asking: ServerStatus) -> StatusReply:
        """Remember who asked; what this server says of itself and whom it knows."""
        ...


class MembershipServicer:
    """`admit` and `remove` raise NotLeaderError where this server does not lead. `admit`:
    (server, whether it is blank) -> the term and index that it is admitted with. `remove`:
    (raft address, whether only if it is gone)."""

    def __init__(
        self,
        meeting: Meeting,
        admit: Callable[[ServerRecord, bool], Awaitable[tuple[int, int]]],
        remove: Callable[[str, bool], Awaitable[None]],
    ) -> None:
        self._meeting = meeting
        self._admit = admit
        self._remove = remove

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.SERVER_STATUS, self.status)
        server.add_unary(methods.JOIN, self.join)
        server.add_unary(methods.LEAVE, self.leave)

    async def status(self, request: StatusRequest) -> StatusReply:
        return self._meeting.meet(request.status)

    async def join(self, request: JoinRequest) -> JoinReply:
        term, index = await self._admit(request.server, request.blank)
        return JoinReply(term=term, index=index)

    async def leave(self, request: LeaveRequest) -> Empty:
        await self._remove(request.address, request.if_gone)
        return Empty()
