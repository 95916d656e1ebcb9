"""What a server hands to its API, its RPC servicers and gitops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from orchgit.clock import SystemClock
from orchgit.model.node import Node
from orchgit.replication.proposal import RequestWrites
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.providers import IdentityProviders
from orchgit.services.acl.settings import AclSettings
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.csi.claims import CsiUseCases
from orchgit.services.csi.node_calls import NodeCalls
from orchgit.services.host_volumes import take_volume_results
from orchgit.services.nodes.registration import NodeUpdateResult, register_node, update_node_status
from orchgit.services.search import SearchLimits
from orchgit.services.secrets.identities import IdentityUseCases
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.node_identities import IntroductionSettings, NodeIdentityUseCases
from orchgit.services.secrets.variables import VariableUseCases
from orchgit.wire.messages import VolumeResult


@dataclass(frozen=True, slots=True)
class NodeUseCases:
    """The use cases that an agent's stream calls."""

    context: UseCaseContext
    identities: NodeIdentityUseCases

    async def register(self, node: Node, introduction: str = "") -> NodeUpdateResult:
        """`introduction` is the token with which a new node introduces itself, or ''."""
        with self.context.snapshot() as snapshot:
            is_new = snapshot.nodes.get(node.id) is None
        if is_new:
            self.identities.check_introduction(node, introduction)
        return await register_node(self.context, node)

    async def update_status(self, node_id: str, status: str) -> NodeUpdateResult:
        return await update_node_status(self.context, node_id, status)

    async def take_volume_results(self, node_id: str, results: Sequence[VolumeResult]) -> None:
        await take_volume_results(self.context, node_id, results)

    def reports(self, node_id: str) -> NodeReports:
        return NodeReports(self.context, node_id)


async def _nothing_to_collect() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Services:
    """The use cases of one server.

    `context` is the first argument of this package's functions, `keyring` seals variables,
    `collect_garbage` asks the leader's collector for a forced run. A second run of the collector
    does no harm, so `writes` need not know of the first.
    """

    context: UseCaseContext
    keyring: Keyring
    collect_garbage: Callable[[], Awaitable[None]] = _nothing_to_collect
    oidc_issuer: str = ""
    """The address at which others find the keys that verify identities; "" is none."""
    acl_settings: AclSettings = field(default_factory=AclSettings)
    providers: IdentityProviders = field(default_factory=lambda: IdentityProviders(SystemClock()))
    """Those at which people log in."""
    introductions: IntroductionSettings = field(default_factory=IntroductionSettings)
    search: SearchLimits = field(default_factory=SearchLimits)
    csi_calls: NodeCalls = field(default_factory=NodeCalls)
    """The nodes whose CSI plugins can be called from here."""

    def noting(self, writes: RequestWrites | None) -> Services:
        """Returns the same services for one request: its commands are noted in `writes`."""
        return replace(self, context=self.context.noting(writes))

    @property
    def nodes(self) -> NodeUseCases:
        return NodeUseCases(self.context, self.node_identities)

    @property
    def node_identities(self) -> NodeIdentityUseCases:
        return NodeIdentityUseCases(
            self.context, self.keyring, self.oidc_issuer, self.introductions
        )

    @property
    def csi(self) -> CsiUseCases:
        return CsiUseCases(self.context, self.csi_calls)

    @property
    def acl(self) -> AclContext:
        return AclContext(self.context, self.keyring, self.acl_settings, self.providers)

    @property
    def identities(self) -> IdentityUseCases:
        return IdentityUseCases(self.context, self.keyring, self.oidc_issuer)

    @property
    def variables(self) -> VariableUseCases:
        return VariableUseCases(self.context, self.keyring)
