"""Decides how servers without a cluster form one, or find one and join it.

Pure: what is known of the others goes in, what to do comes out. The danger is two clusters made of
the same servers. So a new cluster is formed only by the server with the smallest id among a set
that is large enough, and only when every server of the set has said that it belongs to no cluster
and knows exactly this set. Among `bootstrap_expect` servers there is one such set and one such id.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.host_port import is_host_port, join_host_port, split_host_port
from orchgit.wire.messages import ServerStatus

RPC_PORT = 4647
SERF_PORT = 4648
FRESH_S = 10.0
"""What was heard longer ago does not count: the server may be gone, or be another one now."""


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """How a server joins; addresses are as people write them.

    With `start_join` the start fails if none of them answers. `retry_max` is how often all of
    `retry_join` are asked before the server gives up; 0 is for ever. With `bootstrap_expect` 0 the
    server forms no cluster and waits to be told of one.
    """

    bootstrap_expect: int | None = None
    retry_join: tuple[str, ...] = ()
    start_join: tuple[str, ...] = ()
    retry_interval_s: float = 1.0
    retry_max: int = 0

    @property
    def waits(self) -> bool:
        """Whether the server starts without forming a cluster of its own."""
        named = self.retry_join or self.start_join
        return bool(named) or self.bootstrap_expect is not None


@dataclass(frozen=True, slots=True)
class Heard:
    """What a server said of itself, and when (monotonic)."""

    status: ServerStatus
    at_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do yet; `reason` says for people which servers are missing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Form the cluster; the others of the bootstrap set will join."""

    bootstrap_set: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Ask any of these members (RPC addresses) to be added."""

    members: tuple[str, ...]


Decision = Wait | Bootstrap | Join


class KnownServers:
    """The servers that were heard of: those that spoke for themselves count, others are asked."""

    def __init__(self, own: ServerStatus) -> None:
        self.own = own
        self._heard: dict[str, Heard] = {}

    def hear(self, status: ServerStatus, now_s: float) -> None:
        """Notes what a server said of itself."""
        if not status.id or status.id == self.own.id or status.region != self.own.region:
            return
        for id_, heard in list(self._heard.items()):
            if heard.status.rpc_address == status.rpc_address:
                del self._heard[id_]  # it began anew, with an empty data directory
        self._heard[status.id] = Heard(status, now_s)

    def fresh(self, now_s: float) -> Mapping[str, ServerStatus]:
        """Returns the statuses that are recent enough to count, by id."""
        return {
            id_: heard.status for id_, heard in self._heard.items() if now_s - heard.at_s <= FRESH_S
        }

    def own_status(self, now_s: float, member: bool, cluster_id: str = "") -> ServerStatus:
        """Returns what this server tells the others: itself, and the bootstrap set that it sees."""
        self.own.member, self.own.cluster_id = member, cluster_id
        if self.own.bootstrap_expect:
            others = self.fresh(now_s).values()
            forming = [one.id for one in others if one.bootstrap_expect and not one.member]
            self.own.sees = sorted([*forming, self.own.id])
        else:
            self.own.sees = []
        return self.own

    def addresses(self) -> list[str]:
        """Returns the addresses to ask, beside those that the configuration names."""
        return [heard.status.rpc_address for heard in self._heard.values()]

    def decide(self, now_s: float, may_bootstrap: bool) -> Decision:
        """Decides for a server that is no member.

        `may_bootstrap`: it has never been a member.
        """
        own = self.own_status(now_s, member=False)
        return decide(own, self.fresh(now_s).values(), may_bootstrap)


def decide(own: ServerStatus, others: Iterable[ServerStatus], may_bootstrap: bool) -> Decision:
    others = list(others)
    members = tuple(one.rpc_address for one in others if one.member)
    clusters = {one.cluster_id for one in others if one.member and one.cluster_id}
    if len(clusters) > 1:
        told = _named(one for one in others if one.member)
        return Wait(f"cannot join: these servers belong to different clusters: {told}")
    if members:
        return Join(members)
    if not own.bootstrap_expect or not may_bootstrap:
        return Wait(f"waiting for a member of the cluster; know: {_named(others)}")
    different = [one for one in others if one.bootstrap_expect not in (0, own.bootstrap_expect)]
    if different:
        told = ", ".join(f"{one.name} has {one.bootstrap_expect}" for one in different)
        return Wait(
            f"cannot form a cluster: bootstrap_expect is {own.bootstrap_expect} here, but {told}; "
            "make them equal"
        )
    same = [one for one in others if one.bootstrap_expect and one.name == own.name]
    if same:
        return Wait(
            f"cannot form a cluster: the servers at {own.rpc_address} and {same[0].rpc_address} "
            f"have the same name, {own.name}; give each its own: `name` in the configuration file, "
            "or -node-name"
        )
    return _form(own, [one for one in others if one.bootstrap_expect])


def _form(own: ServerStatus, others: list[ServerStatus]) -> Decision:
    missing = own.bootstrap_expect - len(others) - 1
    if missing > 0:
        servers = "server" if missing == 1 else "servers"
        return Wait(f"waiting for {missing} more {servers}, know: {_named(others)}")
    unsure = [one for one in others if one.sees != own.sees]
    if unsure:
        return Wait(f"waiting for {_named(unsure)} to know the same servers")
    if own.id != own.sees[0]:
        smallest = next(one for one in others if one.id == own.sees[0])
        return Wait(f"waiting for {smallest.name} to form the cluster")
    return Bootstrap(tuple(own.sees))


def _named(servers: Iterable[ServerStatus]) -> str:
    return ", ".join(sorted(f"{one.name} ({one.rpc_address})" for one in servers)) or "nobody yet"


def rpc_address_of(text: str) -> str:
    """Returns host:port of a server's RPC from "host", "host:port", "[v6]:port" or a bare v6
    address.

    The port of Nomad's gossip, 4648, means the same host's 4647. Raises InvalidInputError.
    """
    if "=" in text or not text.strip():
        raise InvalidInputError(
            f"cannot join {text!r}: write the server's address, as host or host:port"
        )
    host, port = _split(text.strip())
    return join_host_port(host, RPC_PORT if port == SERF_PORT else port)


def _split(text: str) -> tuple[str, int]:
    try:
        return str(ipaddress.ip_address(text.strip("[]"))), RPC_PORT
    except ValueError:
        pass
    if ":" not in text:
        return text, RPC_PORT
    host, port = split_host_port(text) if is_host_port(text) else ("", 0)
    if not port:
        raise InvalidInputError(f"cannot join {text!r}: write host or host:port")
    return host, port
