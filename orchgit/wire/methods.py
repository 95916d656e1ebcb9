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
class UnaryMethod(Generic[Request, Reply]):
    """One request, one reply. `for_agents`: any certificate may; else a server's is needed."""

    service: str
    name: str
    request: type[Request]
    reply: type[Reply]
    for_agents: bool = False

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


@dataclass(frozen=True)
class StreamMethod(Generic[Request, Reply]):
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

DEQUEUE = UnaryMethod(WORKERS, "Dequeue", messages.DequeueRequest, messages.DequeueReply)
ACK = UnaryMethod(WORKERS, "Ack", messages.EvalTokenRequest, messages.Empty)
NACK = UnaryMethod(WORKERS, "Nack", messages.EvalTokenRequest, messages.Empty)
STORE_EVALUATIONS = UnaryMethod(
    WORKERS, "StoreEvaluations", messages.EvalsRequest, messages.IndexReply
)
SUBMIT_PLAN = UnaryMethod(
    WORKERS, "SubmitPlan", messages.SubmitPlanRequest, messages.SubmitPlanReply
)

CONNECT_NODE: StreamMethod[messages.AgentFrame, messages.ServerFrame] = StreamMethod(
    NODES, "Connect", messages.AgentFrame, messages.ServerFrame, for_agents=True
)

SIGN_IDENTITIES = UnaryMethod(
    NODES,
    "SignIdentities",
    messages.SignIdentitiesRequest,
    messages.SignIdentitiesReply,
    for_agents=True,
)

TASK_READS = UnaryMethod(
    NODES,
    "TaskReads",
    messages.TaskReadsRequest,
    messages.TaskReadsReply,
    for_agents=True,
)

AUTHORIZE = UnaryMethod(
    NODES,
    "Authorize",
    messages.AuthorizeRequest,
    messages.AuthorizeReply,
    for_agents=True,
)

CLAIM_VOLUME = UnaryMethod(
    NODES,
    "ClaimVolume",
    messages.ClaimVolumeRequest,
    messages.ClaimVolumeReply,
    for_agents=True,
)

TASK_API: StreamMethod[messages.HttpUp, messages.HttpDown] = StreamMethod(
    NODES, "TaskApi", messages.HttpUp, messages.HttpDown, for_agents=True
)

AGENT_HTTP: StreamMethod[messages.HttpUp, messages.HttpDown] = StreamMethod(
    NODES, "AgentHttp", messages.HttpUp, messages.HttpDown, for_agents=True
)

MIGRATION_SOURCE = UnaryMethod(
    NODES,
    "MigrationSource",
    messages.MigrationSourceRequest,
    messages.MigrationSourceReply,
    for_agents=True,
)

HTTP: StreamMethod[messages.HttpUp, messages.HttpDown] = StreamMethod(
    SERVERS, "Http", messages.HttpUp, messages.HttpDown
)

FETCH_PACK: StreamMethod[messages.FetchPackRequest, messages.PackFrame] = StreamMethod(
    SERVERS, "FetchPack", messages.FetchPackRequest, messages.PackFrame
)
HOLD_OBJECTS = UnaryMethod(SERVERS, "HoldObjects", messages.HoldObjectsRequest, messages.Empty)
LEADER = UnaryMethod(
    SERVERS, "Leader", messages.LeaderRequest, messages.LeaderReply, for_agents=True
)

SERVER_STATUS = UnaryMethod(SERVERS, "Status", messages.StatusRequest, messages.StatusReply)
JOIN = UnaryMethod(SERVERS, "Join", messages.JoinRequest, messages.JoinReply)
LEAVE = UnaryMethod(SERVERS, "Leave", messages.LeaveRequest, messages.Empty)
APPLIED = UnaryMethod(SERVERS, "Applied", messages.AppliedRequest, messages.IndexReply)
