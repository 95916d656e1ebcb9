"""An agent among several servers: whom it asks, whom it follows, whom it leaves. Real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from structlog.testing import capture_logs

from agent.connection.cluster_membership import ClusterMembership
from agent.connection.node_stream import ServerLink
from orchgit.clock import SystemClock
from orchgit.model.cluster import ClusterName
from orchgit.wire.channel import Channel
from orchgit.wire.messages import LeaderReply, LeaderRequest
from orchgit.wire.methods import LEADER
from tests.integration.test_agent_link import Side
from tests.support.node_stream import open_node_stream
from tests.support.stub_server import StubServer

GONE = "127.0.0.1:1"

Scenario = Callable[[StubServer, StubServer, StubServer], Awaitable[None]]


async def _ask(address: str, request: LeaderRequest) -> LeaderReply:
    channel = Channel(address)
    try:
        return await channel.call(LEADER, request, 30.0)
    finally:
        await channel.close()


def run(scenario: Scenario) -> None:
    async def whole() -> None:
        servers = StubServer(), StubServer(), StubServer()
        for server in servers:
            await server.start()
        try:
            await asyncio.wait_for(scenario(*servers), 20.0)
        finally:
            for server in servers:
                await server.stop()

    asyncio.run(whole())


OURS, OTHERS = ClusterName("c1", "c1"), ClusterName("c2", "c2")


def link_to(*addresses: str, known: ClusterName = OURS) -> tuple[ServerLink, Side]:
    side, membership = Side(), ClusterMembership(known)
    return ServerLink(
        list(addresses), side, SystemClock(), open_node_stream, "seed", _ask, membership
    ), side


def test_agent_leaves_a_silent_leader_when_another_server_names_the_next() -> None:
    async def scenario(leader: StubServer, other: StubServer, heir: StubServer) -> None:
        link, side = link_to(leader.address, other.address)
        link.start()
        await link.connected.wait()
        heir.term = 2
        other.elect(heir.address)
        await heir.until(lambda: bool(heir.reports) or bool(heir.nodes))
        assert side.contacts[:2] == [True, False]
        await link.stop()

    run(scenario)


def test_agent_stays_with_its_leader_when_only_the_term_changes() -> None:
    async def scenario(leader: StubServer, other: StubServer, third: StubServer) -> None:
        link, side = link_to(leader.address, other.address, third.address)
        link.start()
        await link.connected.wait()
        other.elect(leader.address)
        other.elect(leader.address)
        third.elect(leader.address)
        await asyncio.sleep(0)
        assert link.connected.is_set()
        assert side.contacts == [True]
        await link.stop()

    run(scenario)


def test_leader_hint_to_an_unreachable_server_is_followed_once() -> None:
    async def scenario(first: StubServer, second: StubServer, heir: StubServer) -> None:
        first.leader = second.leader = GONE
        link, _ = link_to(first.address, second.address)
        link.start()
        await second.until(lambda: second.sessions > 0)
        first.leader = heir.address
        await heir.until(lambda: bool(heir.nodes))
        await link.connected.wait()
        await link.stop()

    run(scenario)


def test_servers_named_by_a_server_are_kept_beside_the_configured_ones() -> None:
    async def scenario(first: StubServer, second: StubServer, third: StubServer) -> None:
        first.servers = [third.address]
        link, side = link_to(first.address)
        link.start()
        await link.connected.wait()
        assert side.servers == [third.address]
        link.use_servers(side.servers)
        await first.stop()
        await third.until(lambda: bool(third.nodes))
        await link.stop()
        await first.start()

    run(scenario)


def test_agent_does_not_register_at_a_server_of_another_cluster() -> None:
    async def scenario(stranger: StubServer, ours: StubServer, third: StubServer) -> None:
        stranger.cluster, ours.cluster = OTHERS, OURS
        stranger.servers = [third.address]
        link, side = link_to(stranger.address, ours.address)
        link.start()
        await link.connected.wait()
        await ours.until(lambda: bool(ours.nodes))
        assert side.servers == [], "what it says of its servers is not heeded"
        assert side.sets == []
        assert not stranger.reports
        assert side.contacts == [True]
        await link.stop()

    run(scenario)


def test_agent_does_not_follow_the_leader_of_another_cluster() -> None:
    async def scenario(ours: StubServer, stranger: StubServer, heir: StubServer) -> None:
        stranger.cluster, heir.cluster = OTHERS, OURS
        ours.cluster = OURS
        link, side = link_to(ours.address, stranger.address, heir.address)
        link.start()
        await link.connected.wait()
        stranger.elect(stranger.address)
        heir.term = 3
        await heir.until(lambda: bool(heir.nodes))
        assert not stranger.nodes
        assert side.contacts[:2] == [True, False]
        await link.stop()

    run(scenario)


def test_new_node_belongs_to_the_first_cluster_that_answers() -> None:
    async def scenario(first: StubServer, second: StubServer, third: StubServer) -> None:
        first.cluster, second.cluster = OTHERS, OURS
        link, side = link_to(first.address, second.address, known=ClusterName())
        link.start()
        await link.connected.wait()
        await first.stop()
        await second.until(lambda: second.sessions > 1)
        assert not second.reports
        assert side.contacts == [True, False]
        await link.stop()
        await first.start()

    run(scenario)


class Hasty(SystemClock):
    """Waits a hundredth of a second, however long it was to be."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.01))


def test_agent_logs_once_that_no_server_answers() -> None:
    async def scenario(first: StubServer, second: StubServer, third: StubServer) -> None:
        first.leader = first.address
        link = ServerLink([first.address], Side(), Hasty(), open_node_stream, "seed")
        with capture_logs() as logged:
            link.start()
            await first.until(lambda: first.sessions > 12)
        assert str(logged).count("cannot reach any server") == 1
        await link.stop()

    run(scenario)
