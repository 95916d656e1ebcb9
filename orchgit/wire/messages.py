"""Requests and replies of the internal RPC that are not model structs themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from orchgit.model.allocation import Allocation, DriverAddress, NetworkStatus, TaskState
from orchgit.model.base import Model
from orchgit.model.cluster import ClusterName
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.plan import Plan, PlanResult
from orchgit.model.server import ServerRecord
from orchgit.model.volume import HostVolume
from orchgit.model.workload_identity import SignedIdentity, WantedIdentity


class Empty(Model):
    pass


# -- scheduler workers -> leader -----------------------------------------------------------------


class DequeueRequest(Model):
    """Long poll for the next evaluation of one of these types, and up to `limit` of them if more
    are ready then. `session` is another one each time the worker's process starts: what an earlier
    one held is delivered again."""

    types: list[str] = []
    timeout_s: float = 10.0
    worker_id: str = ""
    session: str = ""
    limit: int = 1


class DequeuedEvaluation(Model):
    evaluation: Evaluation
    token: str = ""
    wait_index: int = 0


class DequeueReply(Model):
    """`evaluation` None: nothing came within the timeout. `wait_index`: schedule at or after it."""

    evaluation: Evaluation | None = None
    token: str = ""
    wait_index: int = 0
    more: list[DequeuedEvaluation] = []

    @classmethod
    def of(cls, deliveries: Sequence[DequeuedEvaluation]) -> Self:
        if not deliveries:
            return cls()
        first, *more = deliveries
        return cls(first.evaluation, first.token, first.wait_index, more)

    @property
    def deliveries(self) -> list[DequeuedEvaluation]:
        if self.evaluation is None:
            return []
        return [DequeuedEvaluation(self.evaluation, self.token, self.wait_index), *self.more]


class EvalTokenRequest(Model):
    """Ack or nack of a dequeued evaluation. `untouched`: a nack of one that nobody looked at, for
    which it is no failure."""

    eval_id: str = ""
    token: str = ""
    untouched: bool = False


class EvalsRequest(Model):
    """Store evaluations (an updated one, follow-ups, blocked ones) on behalf of a worker.
    `ack`: that ends the evaluation."""

    evaluations: list[Evaluation] = []
    token: str = ""
    eval_id: str = ""
    ack: bool = False


class IndexReply(Model):
    """`acked`: the evaluation is acknowledged too, as was asked."""

    index: int = 0
    acked: bool = False


class SubmitPlanRequest(Model):
    """`followups` are stored with whatever part of the plan is committed, which refers to them.
    `closing` is stored if it is committed whole: that ends the evaluation."""

    plan: Plan
    followups: list[Evaluation] = []
    closing: list[Evaluation] = []


class SubmitPlanReply(Model):
    """`closed`: `closing` is stored and the evaluation acknowledged."""

    result: PlanResult
    closed: bool = False


# -- anyone -> servers: who leads ----------------------------------------------------------------


class LeaderRequest(Model):
    """Long poll: answered when a leader of a later term than `term` is known."""

    term: int = 0
    timeout_s: float = 60.0


class LeaderReply(Model):
    """RPC addresses. `leader` is empty where none is known, as in the middle of an election."""

    leader: str = ""
    term: int = 0
    servers: list[str] = []
    cluster: ClusterName = ClusterName()


# -- servers <-> servers: a request of HTTP that the leader answers ------------------------------


class HttpHead(Model, tag_field="Type", tag="head"):
    """A request's first frame, with as much of its body as has come. `more`: chunks follow."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    scheme: str = "http"
    client: tuple[str, int] | None = None
    body: bytes = b""
    more: bool = False


class HttpChunk(Model, tag_field="Type", tag="chunk"):
    data: bytes = b""
    more: bool = False


class HttpAnswer(Model, tag_field="Type", tag="answer"):
    """An answer's first frame, with as much of its body as there is. `more`: chunks follow."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    more: bool = False


HttpUp = HttpHead | HttpChunk
HttpDown = HttpAnswer | HttpChunk


# -- servers <-> servers: git objects -------------------------------------------------------------


class FetchPackRequest(Model):
    """Everything that `wants` lead to and `haves` do not, of one source's mirror."""

    source: str
    wants: list[str]
    haves: list[str] = []


class PackFrame(Model):
    """The first tells which wants are `missing` there; those after it are a pack in pieces. One
    without anything says that the server is still at work."""

    data: bytes = b""
    missing: list[str] = []


class HoldObjectsRequest(Model):
    """Have these objects on disk before the answer; the server at `address` (RPC) has them."""

    source: str
    wants: list[str]
    address: str


# -- agents <-> servers: one bidirectional stream per node ---------------------------------------


class AgentHello(Model, tag_field="Type", tag="hello"):
    """First frame of a stream; the answer is Welcome, or the stream ends with an error.

    `cluster`: the node's. A server of another one does nothing, says so by its Welcome, and ends
    the stream.
    """

    node: Node
    cluster: ClusterName = ClusterName()
    introduction: str = ""
    """The token with which a new node introduces itself."""

    def __repr__(self) -> str:
        """Keeps the secrets out of tracebacks and logs."""
        return "AgentHello(...)"


class VolumeResult(Model):
    """What a plugin of the node made of a volume that it was to create."""

    volume_id: str
    error: str = ""
    capacity_bytes: int = 0


class AgentNodeUpdate(Model, tag_field="Type", tag="node-update"):
    """The fingerprint changed, or what became of the node's dynamic host volumes."""

    node: Node
    volumes: list[VolumeResult] = []


class AgentHeartbeat(Model, tag_field="Type", tag="heartbeat"):
    status: str = "ready"


class AllocReport(Model):
    alloc_id: str
    client_status: str
    client_description: str = ""
    task_states: dict[str, TaskState] | None = None
    deployment_healthy: bool | None = None
    deployment_healthy_at_ns: int = 0
    network_status: NetworkStatus | None = None
    driver_addresses: dict[str, DriverAddress] | None = None
    """Of the tasks that run, by task."""


class AgentAllocReports(Model, tag_field="Type", tag="alloc-reports"):
    """Batched reports. The first frame after Welcome is one with everything the agent has
    (possibly empty): only then does the node become ready (invariant 5). `seq` is acknowledged."""

    seq: int = 0
    reports: list[AllocReport] = []


class CsiAnswer(Model, tag_field="Type", tag="csi-answer"):
    """The answer of a plugin to a CsiCall: the reply as JSON, or the error with gRPC's code."""

    call_id: int = 0
    reply: bytes = b""
    error: str = ""
    code: str = ""


AgentFrame = AgentHello | AgentNodeUpdate | AgentHeartbeat | AgentAllocReports | CsiAnswer


class Welcome(Model, tag_field="Type", tag="welcome"):
    """`term`: since when this server leads. `servers`: the RPC addresses of all of them."""

    server_id: str = ""
    heartbeat_ttl_s: float = 10.0
    address: str = ""
    term: int = 0
    servers: list[str] = []
    cluster: ClusterName = ClusterName()
    acl: bool = False
    """Whether access control is on: then the agent's own HTTP checks tokens too."""


class HeartbeatAck(Model, tag_field="Type", tag="heartbeat-ack"):
    heartbeat_ttl_s: float = 10.0
    servers: list[str] = []


class AllocDelivery(Model):
    """An allocation of this node with the job version it belongs to."""

    alloc: Allocation
    job: Job


class AllocSet(Model, tag_field="Type", tag="alloc-set"):
    """At `index`: changed allocations in full, and `wanted`: ids of all that this node should know
    (the agent ends those that are missing, and forgets them).

    `jobless`: allocations that are to end and whose job the servers do not have any more; a stop
    needs none. Only data of older servers has such.
    """

    index: int = 0
    changed: list[AllocDelivery] = []
    wanted: list[str] = []
    jobless: list[Allocation] = []


class ReportsAck(Model, tag_field="Type", tag="reports-ack"):
    seq: int = 0
    index: int = 0


class Refused(Model, tag_field="Type", tag="refused"):
    """The last frame was refused; `message` says why and what to do."""

    message: str = ""


class VolumeSet(Model, tag_field="Type", tag="volume-set"):
    """All dynamic host volumes of this node; the agent makes those it lacks, removes the others,
    and reports its node anew."""

    volumes: list[HostVolume] = []


class CsiCall(Model, tag_field="Type", tag="csi-call"):
    """Call a plugin of this node. Only nodes that have said that they run plugins get one.

    `method` is one of the interface's for the controller, with the `request` as JSON; or `Release`:
    unmount the volume of an allocation that has ended; or `NodeExpandVolume`: enlarge a mounted
    volume.
    """

    call_id: int = 0
    plugin_id: str = ""
    method: str = ""
    request: bytes = b""

    def __repr__(self) -> str:
        """Keeps the volume's secrets out of tracebacks and logs."""
        return f"CsiCall({self.method})"


ServerFrame = CsiCall | VolumeSet | Welcome | HeartbeatAck | AllocSet | ReportsAck | Refused


class SignIdentitiesRequest(Model):
    """Sign identities of tasks that the node runs. The reply has them in this order."""

    node_id: str
    secret_id: str
    wanted: list[WantedIdentity] = []
    own: bool = False
    """Whether the node's own identity is wanted."""


class SignIdentitiesReply(Model):
    """`own` is None where it was not asked for, and from a server that does not know of it."""

    identities: list[SignedIdentity] = []
    own: SignedIdentity | None = None


class ClaimVolumeRequest(Model):
    """Claim a CSI volume for an allocation of this node, or (`release`) give the claim back."""

    node_id: str
    secret_id: str
    alloc_id: str
    volume_name: str
    """Of the group's `volume` block."""
    release: bool = False

    def __repr__(self) -> str:
        """Keeps the secret out of tracebacks and logs."""
        return "ClaimVolumeRequest(...)"


class ClaimVolumeReply(Model):
    """Both are None in the answer to a release."""

    volume: CsiVolume | None = None
    claim: CsiClaim | None = None

    def __repr__(self) -> str:
        """Keeps the volume's secrets out of tracebacks and logs."""
        return "ClaimVolumeReply(...)"


class MigrationSourceRequest(Model):
    """Where is the data that this allocation takes over? The answer waits up to `wait_s` for the
    previous allocation's end."""

    node_id: str
    secret_id: str
    alloc_id: str
    wait_s: float = 20.0

    def __repr__(self) -> str:
        """Keeps the secret out of tracebacks and logs."""
        return "MigrationSourceRequest(...)"


class MigrationSourceReply(Model):
    """`runs`: ask again. `gone`: why there is no data. Else `url`, asked with `proof`, has it."""

    runs: bool = False
    gone: str = ""
    node_id: str = ""
    url: str = ""
    proof: str = ""


class AuthorizeRequest(Model):
    """May this request for the agent's own HTTP be answered? `method` is WEBSOCKET for one of
    these."""

    node_id: str
    secret_id: str
    method: str
    path: str
    query: bytes = b""
    token: str = ""

    def __repr__(self) -> str:
        """Keeps the secrets out of tracebacks and logs."""
        return "AuthorizeRequest(...)"


class AuthorizeReply(Model):
    """`status` 0: it may; else the request is refused with this status and text. The rest says
    whose token the request bears, for the agent's audit log."""

    status: int = 0
    text: str = ""
    accessor_id: str = ""
    token_name: str = ""
    token_type: str = ""
    policies: list[str] = []


class TaskRead(Model):
    """One thing that a task of the node reads: see `TaskReadKind`. `seen` is the digest of the
    value that the agent has; "" is none."""

    alloc_id: str
    task: str
    kind: str
    namespace: str
    name: str
    seen: str = ""


class TaskReadsRequest(Model):
    """Read for tasks of this node, each with the rights of its own identity. The reply comes when
    a value is not the one seen, or after `wait_s`."""

    node_id: str
    secret_id: str
    reads: list[TaskRead] = []
    wait_s: float = 0.0

    def __repr__(self) -> str:
        """Keeps the secret out of tracebacks and logs."""
        return "TaskReadsRequest(...)"


class TaskReadValue(Model):
    """The value of the request's read at `position`, as JSON. `found`: there is one, and the task
    may see it."""

    position: int
    digest: str
    found: bool
    value: bytes = b""

    def __repr__(self) -> str:
        """Keeps variables out of tracebacks and logs."""
        return f"TaskReadValue({self.position})"


class TaskReadsReply(Model):
    """The values that are not those seen."""

    values: list[TaskReadValue] = []


# -- servers among each other --------------------------------------------------------------------


class ServerStatus(Model):
    """What a server says of itself while a cluster forms.

    `member`: it belongs to a cluster. `sees`: ids of the servers, itself among them, with which it
    would form one.
    """

    id: str = ""
    name: str = ""
    rpc_address: str = ""
    region: str = ""
    bootstrap_expect: int = 0
    member: bool = False
    cluster_id: str = ""
    sees: list[str] = []


class StatusRequest(Model):
    """Who asks, so that both know each other afterwards."""

    status: ServerStatus = msgspec.field(default_factory=ServerStatus)


class StatusReply(Model):
    """`known`: RPC addresses of the servers that this one has heard of."""

    status: ServerStatus = msgspec.field(default_factory=ServerStatus)
    known: list[str] = []


class JoinRequest(Model):
    """Take this server in as a member. `blank`: it has nothing, whatever it was before."""

    server: ServerRecord
    blank: bool = False


class JoinReply(Model):
    """It was taken in by then, as a member that never was one before. Index 0: the leader is of an
    older version, which does not see to that."""

    term: int = 0
    index: int = 0


class AppliedRequest(Model):
    """Answer when the log is applied up to `index`, or after so many seconds."""

    index: int = 0
    timeout_s: float = 0.0


class LeaveRequest(Model):
    """Take the member of this raft address out; with `if_gone` only if it is not alive."""

    address: str = ""
    if_gone: bool = False
