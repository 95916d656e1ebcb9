"""What the composition root hands to the routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from orchgit.api.access.control import AccessControl
from orchgit.api.event_buffer import EventBuffer
from orchgit.api.gitops_port import GitopsPort
from orchgit.api.job_stubs import JobStubs
from orchgit.api.kept_answers import KeptAnswers
from orchgit.control.watchers.autopilot import ClusterHealth
from orchgit.metrics.settings import TelemetrySettings
from orchgit.metrics.values import Metric
from orchgit.model.author import Author
from orchgit.model.server import ServerRecord
from orchgit.services.jobs.dry_run import DryRun
from orchgit.services.services import Services
from orchgit.wire.tls import TlsFiles


class ServerFacts(Protocol):
    """What a server knows about itself and its peers."""

    @property
    def name(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def datacenter(self) -> str: ...

    @property
    def server_id(self) -> str: ...

    def leader_address(self) -> str:
        """The leader's RPC address; "" while none is known."""
        ...

    def last_contact_ms(self) -> int:
        """Milliseconds since this server heard of the leader; 0 where it leads."""
        ...

    def servers(self) -> Sequence[ServerRecord]:
        """All servers of the cluster, this one among them."""
        ...

    def peer_addresses(self) -> Sequence[str]: ...

    def members(self) -> Sequence[Mapping[str, Any]]:
        """The servers in the form of Nomad's agent members."""
        ...

    def config(self) -> Mapping[str, Any]:
        """The agent's settings that clients may see; no secret is among them."""
        ...

    def stats(self) -> Mapping[str, Mapping[str, str]]: ...

    async def schedulers(self) -> Sequence[Mapping[str, Any]]:
        """The scheduler workers and what they do now."""
        ...

    def scheduler_workers(self) -> tuple[int, Sequence[str]]:
        """Returns (how many there should be, the job types they take)."""
        ...

    async def set_scheduler_workers(self, count: int, types: Sequence[str]) -> None:
        """Changes the workers until the server is started again. Raises InvalidInputError."""
        ...

    def schedulers_paused(self) -> bool: ...

    async def pause_schedulers(self, paused: bool) -> None:
        """Pauses or resumes the workers; paused workers finish what they hold and take
        nothing new."""
        ...


class MembershipPort(Protocol):
    """What an operator asks of the servers as a cluster, on any of them."""

    async def join(self, addresses: Sequence[str]) -> tuple[int, str]:
        """Returns (how many servers answered, what went wrong with the others; "" is nothing)."""
        ...

    async def force_leave(self, name: str) -> None:
        """Has the leader remove the server of that name."""
        ...

    def autopilot_health(self) -> ClusterHealth:
        """Raises NotLeaderError on a server that does not lead."""
        ...


async def _alone(index: int) -> None:
    """There is no other server."""


async def _no_metrics() -> Sequence[Metric]:
    return ()


@dataclass(frozen=True, slots=True)
class LocalNode:
    """The node of this process's agent, and the app that answers its `/v1/client` paths."""

    node_id: Callable[[], str]
    app: ASGIApp
    config: Callable[[], Mapping[str, Any]] = dict
    metrics: Callable[[], Awaitable[Sequence[Metric]]] = _no_metrics
    stats: Callable[[], Mapping[str, str]] = dict
    """What `/v1/agent/self` tells of the agent."""


class JobTextsPort(Protocol):
    """Parses job files outside of this process."""

    async def spec(self, text: bytes, variables: bytes, with_defaults: bool) -> bytes:
        """Returns the job as JSON. Raises InvalidInputError (JobFileError with the problems)."""
        ...


class SqlRows(Protocol):
    @property
    def index(self) -> int:
        """Of the state that was read."""
        ...


class SqlPort(Protocol):
    """Questions in SQL about the state of this server."""

    async def ask(
        self,
        query: str,
        max_rows: int | None,
        namespaces: Sequence[str] | None,
        without: Sequence[str],
    ) -> SqlRows:
        """Answers with rows of these namespaces (None: of all), none of them of the views in
        `without`. Raises InvalidInputError for what is no question, or costs too much."""
        ...

    def schema(self) -> Sequence[Mapping[str, Any]]:
        """Returns the tables that a question may name, with their columns."""
        ...


@dataclass(slots=True)
class ApiContext:
    """The parts that the routes call.

    `local_node` may come later: an agent in this process starts after the server.
    """

    services: Services
    server: ServerFacts
    dry_run: DryRun
    events: EventBuffer
    cluster: MembershipPort
    job_texts: JobTextsPort
    sql: SqlPort
    local_node: LocalNode | None = None
    gitops: GitopsPort | None = None
    scrape: Callable[[], Sequence[Metric]] = tuple
    """Returns the metrics of parts that the API does not know: broker, raft, workers."""
    access: AccessControl | None = None
    """Decides who may ask what; None: everyone may ask everything."""
    reload: Callable[[], None] | None = None
    """Reads configuration and certificates again."""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    agents_tls: TlsFiles | None = None
    """The certificates with which agents that serve HTTPS are reached."""
    ask_node: Callable[[str, Request], Awaitable[Response]] | None = None
    """Has the agent of a node answer a request that was checked here. Raises NotFoundError for an
    unknown node, UnavailableError where its agent does not answer."""
    until_applied_everywhere: Callable[[int], Awaitable[None]] = _alone
    """Returns when every server in touch has applied the log up to an index."""
    kept_answers: KeptAnswers = field(init=False)
    job_stubs: JobStubs = field(default_factory=JobStubs)

    def __post_init__(self) -> None:
        self.kept_answers = KeptAnswers(lambda: self.services.context.state.store)

    def wake_source(self, name: str, by: str, author: Author | None) -> None:
        if self.gitops is not None:
            self.gitops.wake(name, by, author)
