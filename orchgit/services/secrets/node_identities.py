"""Identities of nodes, and tokens with which nodes that nobody knows yet introduce themselves.

Both are JSON web tokens that the active root key signs. An introduction says which node may join,
by its name and pool; servers can be told to take no new node without one.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import structlog

from orchgit.clock import SECOND_NS
from orchgit.durations import to_text
from orchgit.errors import InvalidInputError, NotAllowedError
from orchgit.model.node import Node
from orchgit.model.workload_identity import DEFAULT_AUDIENCE, DEFAULT_NAME, SignedIdentity
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.identities import signed_payload, token_of
from orchgit.services.secrets.keyring import Keyring
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="server")

NODE_TTL_NS = 24 * 3600 * SECOND_NS
"""How long a node's identity holds where its pool says nothing."""
_INTRODUCES = "node-introduction"
_CLOCK_SKEW_S = 60


class Enforcement(StrEnum):
    """What happens to a node that joins without a valid introduction."""

    NONE = "none"
    WARN = "warn"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class IntroductionSettings:
    """`region`: of the servers that sign."""

    region: str = "global"
    enforcement: str = Enforcement.NONE
    default_ttl_ns: int = 5 * 60 * SECOND_NS
    max_ttl_ns: int = 30 * 60 * SECOND_NS


class NodeClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a node's token, with Nomad's names; times in Unix seconds."""

    aud: str
    sub: str
    iat: int
    nbf: int
    exp: int
    jti: str
    iss: str = ""
    nomad_node_id: str = ""
    nomad_node_name: str = ""
    nomad_node_pool: str = ""
    nomad_node_class: str = ""
    nomad_node_datacenter: str = ""


@dataclass(frozen=True, slots=True)
class NodeIdentityUseCases:
    context: UseCaseContext
    keyring: Keyring
    issuer: str
    settings: IntroductionSettings

    async def introduce(self, node_name: str, node_pool: str, ttl_ns: int) -> str:
        """Returns a token for a node of that name and pool; "" is any name, or pool default.

        Raises InvalidInputError for a time beyond the configured one.
        """
        settings, pool = self.settings, node_pool or "default"
        ttl_ns = ttl_ns or settings.default_ttl_ns
        if not 0 < ttl_ns <= settings.max_ttl_ns:
            raise InvalidInputError(
                f"cannot introduce a node for {to_text(ttl_ns)}: the most is "
                f"{to_text(settings.max_ttl_ns)} (server.client_introduction)"
            )
        sub = f"{_INTRODUCES}:{settings.region}:{pool}:{node_name}:{DEFAULT_NAME}"
        claims = self._claims(sub, ttl_ns)
        return await self._signed(
            msgspec.structs.replace(claims, nomad_node_name=node_name, nomad_node_pool=pool)
        )

    async def sign_node(self, node_id: str, node_secret: str) -> SignedIdentity:
        """Returns the node's own token. Raises NotAllowedError for a wrong secret."""
        with self.context.snapshot() as snapshot:
            node = snapshot.nodes.get(node_id)
            pool = snapshot.node_pools.get(node.node_pool) if node is not None else None
        if node is None or not hmac.compare_digest(node.secret_id, node_secret):
            raise NotAllowedError(
                f"cannot sign the identity of node {node_id}: it is unknown, or the secret is not "
                "the one it was registered with"
            )
        ttl_ns = (pool.node_identity_ttl_ns if pool is not None else 0) or NODE_TTL_NS
        sub = f"node:{self.settings.region}:{node.node_pool}:{node.id}:{DEFAULT_NAME}"
        claims = msgspec.structs.replace(
            self._claims(sub, ttl_ns),
            nomad_node_id=node.id,
            nomad_node_pool=node.node_pool,
            nomad_node_class=node.node_class,
            nomad_node_datacenter=node.datacenter,
        )
        return SignedIdentity(await self._signed(claims), claims.exp * SECOND_NS)

    def check_introduction(self, node: Node, token: str) -> None:
        """Raises NotAllowedError where a new node has to be introduced and is not."""
        if self.settings.enforcement == Enforcement.NONE:
            return
        with self.context.snapshot() as snapshot:
            problem = _problem(snapshot, node, token, self.context.now_ns())
        if not problem:
            return
        if self.settings.enforcement == Enforcement.STRICT:
            raise NotAllowedError(
                f"cannot register node {node.name}: {problem}; make a token with `orchgit node "
                "intro create` and start its agent with -client-intro-token"
            )
        _log.warning("a node joins without an introduction", name=node.name, problem=problem)

    def _claims(self, sub: str, ttl_ns: int) -> NodeClaims:
        now_s = self.context.now_ns() // SECOND_NS
        return NodeClaims(
            aud=DEFAULT_AUDIENCE,
            sub=sub,
            iat=now_s,
            nbf=now_s,
            exp=now_s + max(1, ttl_ns // SECOND_NS),
            jti=self.context.ids.new(),
            iss=self.issuer,
        )

    async def _signed(self, claims: NodeClaims) -> str:
        key = await self.keyring.active_key(self.context)
        return await asyncio.to_thread(token_of, self.keyring, key, claims)


def _problem(snapshot: Snapshot, node: Node, token: str, now_ns: int) -> str:
    """Returns why the token does not introduce the node; "" if it does."""
    if not token:
        return "it has no token of introduction"
    claims = signed_payload(snapshot, token, NodeClaims)
    if claims is None or claims.aud != DEFAULT_AUDIENCE or not claims.sub.startswith(_INTRODUCES):
        return "its token is none of this cluster's introductions"
    now_s = now_ns / SECOND_NS
    if now_s + _CLOCK_SKEW_S < claims.nbf or now_s >= claims.exp:
        return "its token of introduction has expired"
    if claims.nomad_node_name not in ("", node.name):
        return f"its token introduces node {claims.nomad_node_name}"
    if claims.nomad_node_pool != node.node_pool:
        return f"its token introduces a node of pool {claims.nomad_node_pool}"
    return ""
