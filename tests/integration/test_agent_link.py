"""The node's stream over real gRPC: reconnects, fail-over, heartbeats, and no report lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from agent.connection.node_stream import ServerLink, reconnect_delay_s
from orchgit.clock import Clock, FakeClock, SystemClock
from orchgit.model.node import Node
from orchgit.model.volume import HostVolume
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentHeartbeat,
    AllocReport,
    AllocSet,
    CsiAnswer,
    CsiCall,
    Refused,
    ReportsAck,
    VolumeResult,
)
from tests.support.factories import make_allocation, make_job, make_node
from tests.support.node_stream import open_node_stream
from tests.support.stub_server import StubServer


class Side:
    """A node whose reports are a dict."""

    def __init__(self) -> None:
        self.reports: dict[str, AllocReport] = {}
        self.sets: list[AllocSet] = []
        self.servers: list[str] = []
        self.contacts: list[bool] = []
        self.described = make_node()
        self.at_welcome: Callable[[], None] = lambda: None
        self._told = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until what the link told the node makes the condition true."""
        async with asyncio.timeout(60):
            while not condition():
                self._told.clear()
                await self._told.wait()

    introduction = ""

    def node(self) -> Node:
        return self.described

    def full_report(self) -> list[AllocReport]:
        return list(self.reports.values())

    def take_allocations(self, wanted: AllocSet) -> None:
        self.sets.append(wanted)
        self._told.set()

    def volume_results(self) -> list[VolumeResult]:
        return []

    async def answer_csi(self, call: CsiCall) -> CsiAnswer:
        raise NotImplementedError

    def take_volumes(self, volumes: list[HostVolume]) -> None:
        """None are sent."""

    def take_acl(self, acl: bool) -> None:
        """The welcome is being taken: the moment between the hello and the session."""
        self.at_welcome()

    def take_servers(self, servers: list[str]) -> None:
        self.servers = servers
        self._told.set()

    def contact_changed(self, connected: bool) -> None:
        self.contacts.append(connected)


class Rig:
    def __init__(self, *servers: StubServer, clock: Clock | None = None) -> None:
        self.side = Side()
        addresses = [server.address for server in servers]
        self.link = ServerLink(
            addresses, self.side, clock or SystemClock(), open_node_stream, "seed"
        )
        self._numbers = 0

    def report(self, alloc_id: str, status: str) -> None:
        report = AllocReport(alloc_id=alloc_id, client_status=status)
        self.side.reports[alloc_id] = report
        self.link.report(report)


def run(scenario: Callable[[StubServer], Coroutine[Any, Any, None]], **server: Any) -> None:
    async def whole() -> None:
        stub = StubServer(**server)
        await stub.start()
        try:
            await scenario(stub)
        finally:
            await stub.stop()

    asyncio.run(whole())


def reported(server: StubServer) -> list[AgentAllocReports]:
    return [frame for frame in server.frames if isinstance(frame, AgentAllocReports)]


def test_reports_are_batched_while_one_is_unacknowledged() -> None:
    async def scenario(server: StubServer) -> None:
        server.answer_reports = False
        rig = Rig(server)
        rig.link.start()
        await rig.link.connected.wait()
        await server.until(lambda: len(reported(server)) == 1)
        for status in ("pending", "running", "complete"):
            for alloc_id in ("a", "b"):
                rig.report(alloc_id, status)
        server.answer_reports = True
        server.say(ReportsAck(1))
        await server.until(lambda: len(server.reports) == 2)
        second = reported(server)[1]
        assert [(r.alloc_id, r.client_status) for r in second.reports] == [
            ("a", "complete"),
            ("b", "complete"),
        ]
        await rig.link.stop()

    run(scenario)


def test_unacknowledged_report_is_sent_again() -> None:
    async def scenario(server: StubServer) -> None:
        rig = Rig(server)
        rig.link.start()
        await server.until(lambda: len(reported(server)) == 1)
        server.answer_reports = False
        rig.report("a", "running")
        await server.until(lambda: "a" in server.reports)
        rig.report("b", "running")  # gathers behind the one under way
        server.reports.clear()
        server.say(None)
        await server.until(lambda: set(server.reports) == {"a", "b"})
        assert server.sessions == 2
        await rig.link.stop()

    run(scenario)


def test_agent_reconnects_to_a_server_that_comes_back() -> None:
    async def scenario(server: StubServer) -> None:
        rig = Rig(server)
        rig.link.start()
        await rig.link.connected.wait()
        await server.stop()
        rig.report("a", "failed")
        await server.start()
        await server.until(lambda: "a" in server.reports)
        assert rig.side.contacts[:3] == [True, False, True]
        await rig.link.stop()

    run(scenario)


def test_agent_tries_the_next_server_when_one_is_unreachable() -> None:
    async def scenario(server: StubServer) -> None:
        other = StubServer()
        await other.start()
        rig = Rig(server, other)
        await server.stop()
        rig.link.start()
        await other.until(lambda: bool(other.nodes))
        assert other.nodes[0].id == rig.side.described.id
        await rig.link.stop()
        await other.stop()
        await server.start()

    run(scenario)


def test_link_tells_when_a_heartbeat_was_last_answered_also_after_the_session() -> None:
    async def scenario(server: StubServer) -> None:
        clock = FakeClock()
        rig = Rig(server, clock=clock)
        assert rig.link.heartbeat_times_s() is None
        rig.link.start()
        await rig.link.connected.wait()
        assert rig.link.heartbeat_times_s() == (0.0, 10.0)
        job = make_job()
        for seconds in (0.0, 3.0):
            await clock.advance(seconds)
            rig.side.sets.clear()
            server.deliver((make_allocation(job, rig.side.described), job))
            await rig.side.until(lambda: bool(rig.side.sets))
        assert rig.link.heartbeat_times_s() == (3.0, 10.0), "a delivery is no answer to a heartbeat"
        server.servers = [server.address]
        await clock.advance(2.0)
        await rig.side.until(lambda: bool(rig.side.servers))
        assert rig.link.heartbeat_times_s() == (0.0, 10.0)
        await server.stop()
        await clock.advance(1.0)
        assert rig.link.heartbeat_times_s() == (1.0, 10.0)
        await rig.link.stop()
        await server.start()

    run(scenario)


def test_heartbeats_are_sent_at_half_the_ttl_and_return_the_servers() -> None:
    async def scenario(server: StubServer) -> None:
        server.servers = ["127.0.0.1:1", server.address]
        clock = FakeClock()
        rig = Rig(server, clock=clock)
        rig.link.start()
        await rig.link.connected.wait()
        for count in (1, 2, 3):
            await clock.advance(5.1)
            await server.until(lambda n=count: heartbeats(server) == n)  # type: ignore[misc]
        await rig.side.until(lambda: rig.side.servers == server.servers)
        assert server.sessions == 1
        await rig.link.stop()

    run(scenario)


def heartbeats(server: StubServer) -> int:
    return sum(isinstance(frame, AgentHeartbeat) for frame in server.frames)


def test_agent_ends_its_session_with_a_silent_server() -> None:
    async def scenario(server: StubServer) -> None:
        server.answer_heartbeats = False
        clock = FakeClock()
        rig = Rig(server, clock=clock)
        rig.link.start()
        await rig.link.connected.wait()
        await server.until(lambda: len(server.frames) >= 2)
        for _ in range(60):
            if len(rig.side.contacts) > 1:  # the node may connect again after that
                break
            await clock.advance(1)
        assert rig.side.contacts == [True, False]
        await rig.link.stop()

    run(scenario)


def test_agent_opens_a_new_session_after_a_refused_one() -> None:
    async def scenario(server: StubServer) -> None:
        rig = Rig(server)
        rig.link.start()
        await rig.link.connected.wait()
        server.say(Refused("the node is not registered"))
        await server.until(lambda: server.sessions == 2)
        await rig.link.stop()

    run(scenario)


def test_delivered_allocation_reaches_the_node() -> None:
    async def scenario(server: StubServer) -> None:
        rig = Rig(server)
        rig.link.start()
        await rig.link.connected.wait()
        job = make_job()
        alloc = make_allocation(job)
        server.deliver((alloc, job))
        await rig.side.until(lambda: any(entry.changed for entry in rig.side.sets))
        assert rig.side.sets[-1].wanted == [alloc.id]
        await rig.link.stop()

    run(scenario)


def test_node_that_changes_before_the_welcome_is_described_again() -> None:
    async def scenario(server: StubServer) -> None:
        rig = Rig(server)

        def change() -> None:
            rig.side.described = replace(
                rig.side.described, attributes={"consul.version": "1.17.2"}
            )
            rig.link.node_changed()

        rig.side.at_welcome = change
        rig.link.start()
        await rig.link.connected.wait()
        await server.until(lambda: server.nodes[-1].attributes == {"consul.version": "1.17.2"})
        await rig.link.stop()

    run(scenario)


@pytest.mark.parametrize("failures", [0, 1, 5, 100])
def test_backoff_is_limited_and_differs_by_node(failures: int) -> None:
    delays = {reconnect_delay_s(failures, seed) for seed in "abcdef"}
    assert len(delays) > 1
    assert all(0.02 < delay <= 5.0 for delay in delays)


def test_report_that_is_not_urgent_is_sent_with_the_next_urgent_one() -> None:
    async def scenario(server: StubServer) -> None:
        clock = FakeClock()
        rig = Rig(server, clock=clock)
        rig.link.start()
        await server.until(lambda: len(reported(server)) == 1)
        quiet = AllocReport(alloc_id="a", client_status="pending")
        rig.link.report(quiet, urgent=False)
        rig.report("b", "running")
        await server.until(lambda: len(reported(server)) == 2)
        assert {report.alloc_id for report in reported(server)[1].reports} == {"a", "b"}
        rig.link.report(quiet, urgent=False)
        await clock.advance(0.3)
        await server.until(lambda: len(reported(server)) == 3)
        await rig.link.stop()

    run(scenario)
