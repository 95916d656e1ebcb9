"""The RPC side of a server: every servicer on one gRPC port."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp

from orchgit.control.leader import Control
from orchgit.control.leader_client.protocol import serve_leader
from orchgit.rpc.agent_http import AgentHttpServicer
from orchgit.rpc.applied import AppliedServicer
from orchgit.rpc.authorization import AuthorizationServicer, Authorize
from orchgit.rpc.csi import CsiServicer
from orchgit.rpc.forwarded_requests import HttpTunnel
from orchgit.rpc.identities import IdentityServicer
from orchgit.rpc.leader_watch import LeaderServicer
from orchgit.rpc.membership import MembershipServicer
from orchgit.rpc.migrations import MigrationServicer
from orchgit.rpc.mirrors import MirrorPort, MirrorServicer
from orchgit.rpc.node_stream import ServerIdentity
from orchgit.rpc.nodes import NodeServicer
from orchgit.rpc.task_api import TaskApiServicer
from orchgit.rpc.task_reads import TaskReadServicer
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.services.services import Services
from orchgit.services.task_reads import RightsOfTask, TaskReadUseCases, everything
from orchgit.state.store import Store
from orchgit.wire.limits import Limits
from orchgit.wire.serve import GrpcServer, Translate
from orchgit.wire.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """`bind` is host:port, port 0 for any free one. `translate` makes of an error what the peer is
    told."""

    bind: str
    server_id: str
    tls: TlsFiles | None = None
    region: str = "global"
    limits: Limits | None = None
    translate: Translate = lambda error: error
    authorize: Authorize | None = None
    """Decides about requests for agents' own HTTP. None: access control is off."""
    task_api: ASGIApp | None = None
    """Answers requests of tasks, which their agents pass on."""
    rights_of_task: RightsOfTask = everything
    """What tasks may read of the servers."""


class RpcServer:
    """Every servicer of a server on one port; `address` is known after `start`."""

    def __init__(
        self,
        settings: RpcSettings,
        services: Services,
        control: Control,
        store: Store,
        cluster: ServerDirectory,
        http: ASGIApp | None = None,
        mirrors: MirrorPort | None = None,
        membership: MembershipServicer | None = None,
    ) -> None:
        """`http` answers the requests that other servers forward to the leader."""
        self._server = GrpcServer(
            settings.bind, settings.tls, settings.translate, settings.region, settings.limits
        )
        self._tunnel = HttpTunnel(http) if http is not None else None
        if self._tunnel is not None:
            self._tunnel.register(self._server)
        self._task_api: TaskApiServicer | None = None
        self._agent_http: AgentHttpServicer | None = None
        if settings.task_api is not None:
            now_ns, checks = services.context.now_ns, settings.authorize is not None
            self._task_api = TaskApiServicer(settings.task_api, store, now_ns, checks)
            self._task_api.register(self._server)
            self._agent_http = AgentHttpServicer(settings.task_api, checks)
            self._agent_http.register(self._server)
        LeaderServicer(cluster).register(self._server)
        AppliedServicer(store).register(self._server)
        serve_leader(self._server, control)
        if mirrors is not None:
            MirrorServicer(mirrors).register(self._server)
        if membership is not None:
            membership.register(self._server)
        IdentityServicer(services.identities, services.node_identities).register(self._server)
        reads = TaskReadUseCases(services.context, services.variables, settings.rights_of_task)
        TaskReadServicer(reads).register(self._server)
        MigrationServicer(services.context).register(self._server)
        CsiServicer(services).register(self._server)
        AuthorizationServicer(store, settings.authorize).register(self._server)
        identity = ServerIdentity(settings.server_id, settings.authorize is not None)
        self.nodes = NodeServicer(
            services.nodes, control, store, identity, cluster, services.csi_calls
        )
        self.nodes.register(self._server)

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def forwarded_in_flight(self) -> int:
        """Requests of other servers' clients that are being answered here."""
        return self._tunnel.in_flight if self._tunnel is not None else 0

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Streams are cut; agents and workers find another server, or this one again."""
        await self._server.stop()
        if self._tunnel is not None:
            await self._tunnel.close()
        for each in (self._task_api, self._agent_http):
            if each is not None:
                await each.close()
