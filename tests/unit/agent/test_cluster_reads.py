"""What templates read of the cluster: one blocking query, shared where the rights are the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from agent.templates.cluster_reads import ClusterReads, Reader, ReadSettings
from agent.templates.functions import Known
from agent.templates.queries import Query, QueryKind
from orchgit.clock import FakeClock
from orchgit.errors import UnavailableError
from orchgit.wire.messages import TaskRead, TaskReadsReply, TaskReadValue
from tests.support.polling import until

APP = Query(QueryKind.VARIABLE, "app")
DB = Query(QueryKind.VARIABLE, "db")
WEB, API = Reader("alloc-1", "web", "default", "web"), Reader("alloc-2", "api", "default", "api")


class Servers:
    """Hold the values by name, and answer when one is not the value seen."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.asked: list[list[TaskRead]] = []
        self.waiting = 0
        self.are_down = False
        self._changed = asyncio.Event()

    def put(self, name: str, value: str) -> None:
        self.values[name] = value
        self._changed.set()

    async def read(self, reads: list[TaskRead], wait_s: float) -> TaskReadsReply:
        self.asked.append(reads)
        if self.are_down:
            raise UnavailableError("no server is connected")
        while True:
            values = [
                TaskReadValue(at, digest, each.name in self.values, json.dumps(value).encode())
                for at, each in enumerate(reads)
                if (digest := f"of {(value := self.values.get(each.name))}") != each.seen
            ]
            if values:
                return TaskReadsReply(values)
            self._changed.clear()
            self.waiting += 1
            try:
                await self._changed.wait()
            finally:
                self.waiting -= 1


def run(
    work: Callable[[ClusterReads, Servers, FakeClock], Awaitable[None]], is_shared: bool = True
) -> None:
    async def whole() -> None:
        servers, clock = Servers(), FakeClock()
        settings = ReadSettings(is_shared=lambda: is_shared)
        reads = ClusterReads(servers.read, clock, settings)
        try:
            await work(reads, servers, clock)
        finally:
            await reads.close()

    asyncio.run(whole())


async def settled(clock: FakeClock, servers: Servers) -> None:
    """New reads were gathered and answered, and a query waits for changes."""
    await clock.advance(1.0)
    await until(lambda: servers.waiting == 1)


def test_tasks_without_access_control_share_one_read_of_the_same_thing() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        servers.put("app", "1")
        web, api = reads.subscribe(WEB), reads.subscribe(API)
        assert web.ask(APP) == (Known.UNKNOWN, None)
        assert api.ask(APP) == (Known.UNKNOWN, None)
        await settled(clock, servers)
        assert (web.ask(APP), api.ask(APP)) == ((Known.FOUND, "1"), (Known.FOUND, "1"))
        assert len(servers.asked[-1]) == 1

    run(work)


def test_tasks_of_two_identities_read_apart_under_access_control() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        for reader in (WEB, API):
            reads.subscribe(reader).ask(APP)
        await settled(clock, servers)
        assert [each.task for each in servers.asked[-1]] == ["web", "api"]

    run(work, is_shared=False)


def test_change_is_told_to_those_who_read_it_only() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        web, api = reads.subscribe(WEB), reads.subscribe(API)
        web.ask(APP)
        api.ask(DB)
        await settled(clock, servers)
        assert (web.take_changed(), api.take_changed()) == ({APP}, {DB})
        assert api.ask(DB) == (Known.ABSENT, None)
        servers.put("db", "new")
        await asyncio.wait_for(api.wait(), 60)
        assert (web.take_changed(), api.take_changed()) == (set(), {DB})
        assert api.ask(DB) == (Known.FOUND, "new")

    run(work)


def test_what_is_read_no_more_is_left_out_of_the_next_query() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        web, api = reads.subscribe(WEB), reads.subscribe(API)
        web.ask(APP)
        web.ask(DB)
        api.ask(DB)
        await settled(clock, servers)
        web.close()
        servers.put("db", "1")
        await asyncio.wait_for(api.wait(), 60)
        await until(lambda: [each.name for each in servers.asked[-1]] == ["db"])
        assert reads.count == 1

    run(work)


def test_reads_go_on_when_servers_return() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        servers.are_down = True
        web = reads.subscribe(WEB)
        web.ask(APP)
        await clock.advance(1.0)
        await until(lambda: len(servers.asked) > 1)
        assert web.ask(APP) == (Known.UNKNOWN, None)
        servers.are_down = False
        servers.put("app", "1")
        await clock.advance(60.0)
        await until(lambda: web.ask(APP) == (Known.FOUND, "1"))

    run(work)


def test_reads_go_on_at_once_when_the_agent_is_connected_again() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        servers.are_down = True
        web = reads.subscribe(WEB)
        web.ask(APP)
        await clock.advance(1.0)
        await until(lambda: len(servers.asked) > 1)
        servers.are_down = False
        servers.put("app", "1")
        reads.reconnected()
        await until(lambda: web.ask(APP) == (Known.FOUND, "1"))
        await until(lambda: servers.waiting == 1)
        asked = len(servers.asked)
        reads.reconnected()  # a query that waits at the server that was left is asked again
        await clock.advance(1.0)
        await until(lambda: len(servers.asked) > asked)

    run(work)


def test_consul_vault_and_other_regions_are_absent_without_a_question() -> None:
    async def work(reads: ClusterReads, servers: Servers, clock: FakeClock) -> None:
        web = reads.subscribe(WEB)
        for query in (
            Query(QueryKind.CONSUL_KEY, "a"),
            Query(QueryKind.VAULT_SECRET, "a"),
            Query(QueryKind.VARIABLE, "app", region="elsewhere"),
        ):
            assert web.ask(query) == (Known.ABSENT, None)
        assert web.problems() == (
            'templates cannot read of another region: "elsewhere"',
            "this node has no Consul: add a consul block to its configuration, or constrain the "
            'job to nodes with "${attr.consul.version}"',
            "this node has no Vault: add a vault block to its configuration, or constrain the job "
            'to nodes with "${attr.vault.version}"',
        )
        await clock.advance(1.0)
        assert servers.asked == []

    run(work)
