"""Every method of the internal RPC, with the structs that are its request and reply.

A method's name is a stable part of the protocol; the structs are its schema. Unary methods answer
one reply to one request; a stream method exchanges frames both ways until either side ends it. What
is not `for_agents` takes the certificate of a server (or its worker's, which is the same).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from orchgit.wire import messages

Request = TypeVar("Request")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Unary(Generic[Request, Reply]):
    """One request, one reply. `for_agents`: any certificate may; else a server's is needed."""

    service: str
    name: str
    request: Any
    reply: Any
    for_agents: bool = False

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


@dataclass(frozen=True)
class Stream(Generic[Request, Reply]):
    """Frames both ways; `request` and `reply` are what one frame may be."""

    service: str
    name: str
    request: Any
    reply: Any
    for_agents: bool = False

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


WORKERS = "orchgit.Workers"
NODES = "orchgit.Nodes"
SERVERS = "orchgit.Servers"

DEQUEUE: Unary[messages.DequeueRequest, messages.DequeueReply] = Unary(
    WORKERS, "Dequeue", messages.DequeueRequest, messages.DequeueReply
)
ACK: Unary[messages.EvalTokenRequest, messages.Empty] = Unary(
    WORKERS, "Ack", messages.EvalTokenRequest, messages.Empty
)
NACK: Unary[messages.EvalTokenRequest, messages.Empty] = Unary(
    WORKERS, "Nack", messages.EvalTokenRequest, messages.Empty
)
STORE_EVALUATIONS: Unary[messages.EvalsRequest, messages.IndexReply] = Unary(
    WORKERS, "StoreEvaluations", messages.EvalsRequest, messages.IndexReply
)
SUBMIT_PLAN: Unary[messages.SubmitPlanRequest, messages.SubmitPlanReply] = Unary(
    WORKERS, "SubmitPlan", messages.SubmitPlanRequest, messages.SubmitPlanReply
)

CONNECT_NODE: Stream[messages.AgentFrame, messages.ServerFrame] = Stream(
    NODES, "Connect", messages.AgentFrame, messages.ServerFrame, for_agents=True
)

HTTP: Stream[messages.HttpUp, messages.HttpDown] = Stream(
    SERVERS, "Http", messages.HttpUp, messages.HttpDown
)

FETCH_PACK: Stream[messages.FetchPackRequest, messages.PackFrame] = Stream(
    SERVERS, "FetchPack", messages.FetchPackRequest, messages.PackFrame
)
HOLD_OBJECTS: Unary[messages.HoldObjectsRequest, messages.Empty] = Unary(
    SERVERS, "HoldObjects", messages.HoldObjectsRequest, messages.Empty
)
LEADER: Unary[messages.LeaderRequest, messages.LeaderReply] = Unary(
    SERVERS, "Leader", messages.LeaderRequest, messages.LeaderReply, for_agents=True
)

SERVER_STATUS: Unary[messages.StatusRequest, messages.StatusReply] = Unary(
    SERVERS, "Status", messages.StatusRequest, messages.StatusReply
)
JOIN: Unary[messages.JoinRequest, messages.JoinReply] = Unary(
    SERVERS, "Join", messages.JoinRequest, messages.JoinReply
)
LEAVE: Unary[messages.LeaveRequest, messages.Empty] = Unary(
    SERVERS, "Leave", messages.LeaveRequest, messages.Empty
)
