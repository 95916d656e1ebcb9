"""Thousands of nodes in one process: real streams to the servers, no files, no processes.

A simulated task does what the mock driver's config says (`run_for`, `exit_code`, `start_error`);
any other task runs until it is stopped. Allocations of services become healthy when the
`min_healthy_time` of their deployment, or else of their migration, is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field

from agent.connection.node_stream import ServerLink
from agent.drivers.config import duration_s
from agent.simulated.timeline import Timeline
from agent.tasks.lifecycle import client_status
from agent.tasks.task_state import DEAD, PENDING, RUNNING, TaskEventType, apply, event
from orchgit.clock import Clock, SystemClock
from orchgit.ids import IdSource, RandomIds
from orchgit.model.allocation import Allocation, TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.group import MigrateStrategy, UpdateStrategy
from orchgit.model.job import Job, JobType
from orchgit.model.node import DriverInfo, Node, NodeCpu, NodeDisk, NodeMemory, NodeResources
from orchgit.model.resources import NetworkResource
from orchgit.model.task import Task
from orchgit.model.volume import HostVolume
from orchgit.wire.channel import Channel
from orchgit.wire.messages import (
    AgentFrame,
    AllocReport,
    AllocSet,
    CsiAnswer,
    CsiCall,
    LeaderReply,
    LeaderRequest,
    ServerFrame,
    VolumeResult,
)
from orchgit.wire.methods import CONNECT_NODE, LEADER
from orchgit.wire.tls import TlsFiles

_NODES_PER_CHANNEL = 100
_CONNECTED_AT_ONCE = 50
_ANSWER_S = 10.0
_DRIVERS = ("mock_driver", "raw_exec", "exec", "docker")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedConfig:
    """`datacenters` are given to the nodes in turn; so are the node classes. The nodes are
    numbered from `first`."""

    servers: tuple[str, ...]
    nodes: int = 100
    first: int = 0
    cpu_mhz: int = 4000
    memory_mb: int = 8192
    disk_mb: int = 100_000
    datacenters: tuple[str, ...] = ("dc1",)
    node_classes: tuple[str, ...] = ("",)
    node_pool: str = "default"
    start_delay_s: float = 0.0
    tls: TlsFiles | None = None


@dataclass(slots=True)
class _SimulatedAlloc:
    alloc: Allocation
    job: Job
    states: dict[str, TaskState]
    healthy: bool | None = None
    healthy_at_ns: int = 0


@dataclass
class SimulatedNode:
    """One node: the `NodeSide` of its connection, with allocations that are only states."""

    described: Node
    timeline: Timeline
    start_delay_s: float
    allocs: dict[str, _SimulatedAlloc] = field(default_factory=dict)
    losses: int = 0
    """How many of its connections ended."""
    link: ServerLink = field(init=False)

    # -- what the connection asks for --------------------------------------------------------------

    introduction = ""

    def node(self) -> Node:
        return self.described

    def full_report(self) -> list[AllocReport]:
        return [self._report_of(entry) for entry in self.allocs.values()]

    def take_allocations(self, wanted: AllocSet) -> None:
        for delivery in wanted.changed:
            known = self.allocs.get(delivery.alloc.id)
            if known is not None:
                known.alloc, known.job = delivery.alloc, delivery.job
                if delivery.alloc.is_terminal:
                    self._end(known, lambda _task: 0, killed=True)
            elif not delivery.alloc.is_client_terminal:
                self._begin(delivery.alloc, delivery.job)
        keep = set(wanted.wanted)
        self.allocs = {id_: entry for id_, entry in self.allocs.items() if id_ in keep}

    def volume_results(self) -> list[VolumeResult]:
        return []

    async def answer_csi(self, call: CsiCall) -> CsiAnswer:
        raise NotImplementedError

    def take_volumes(self, volumes: list[HostVolume]) -> None:
        """Simulated nodes have none."""

    def take_acl(self, acl: bool) -> None:
        pass

    def take_servers(self, servers: list[str]) -> None:
        self.link.use_servers(servers)

    def contact_changed(self, connected: bool) -> None:
        """Nothing ends by itself here."""
        self.losses += not connected

    # -- an allocation's life ----------------------------------------------------------------------

    def _begin(self, alloc: Allocation, job: Job) -> None:
        if alloc.is_client_terminal:
            return
        group = job.group(alloc.task_group)
        states = {task.name: TaskState() for task in group.tasks} if group else {}
        entry = self.allocs[alloc.id] = _SimulatedAlloc(alloc, job, states)
        if alloc.is_server_terminal:
            self._end(entry, lambda _task: 0, killed=True)
        else:
            self.timeline.after(self.start_delay_s, lambda: self._start(entry))

    def _start(self, entry: _SimulatedAlloc) -> None:
        tasks = self._tasks(entry)
        if any(entry.states[task.name].state != PENDING for task in tasks):
            return
        if any((task.config or {}).get("start_error") for task in tasks):
            self._end(entry, lambda _task: 1, killed=False)
            return
        for task in tasks:
            self._add_event(entry, task, TaskEventType.STARTED)
        self._report(entry)
        lasts_s = [_run_for_s(task) for task in tasks]
        if all(last_s is not None for last_s in lasts_s):
            longest_s = max((last_s or 0.0 for last_s in lasts_s), default=0.0)
            self.timeline.after(longest_s, lambda: self._end(entry, _exit_code, killed=False))
        self._plan_health(entry)

    def _plan_health(self, entry: _SimulatedAlloc) -> None:
        group = entry.job.group(entry.alloc.task_group)
        strategy: UpdateStrategy | MigrateStrategy | None = None
        if group is not None and entry.alloc.deployment_id:
            strategy = group.update
        if group is not None and strategy is None and entry.job.type == JobType.SERVICE:
            strategy = group.migrate or MigrateStrategy()
        if strategy is not None:
            delay_s = strategy.min_healthy_time_ns / NS_PER_S
            self.timeline.after(delay_s, lambda: self._judge(entry))

    def _judge(self, entry: _SimulatedAlloc) -> None:
        if all(state.state == RUNNING for state in entry.states.values()):
            entry.healthy, entry.healthy_at_ns = True, self.timeline.clock.now_ns()
            self._report(entry)

    def _end(self, entry: _SimulatedAlloc, exit_code: Callable[[Task], int], killed: bool) -> None:
        for task in self._tasks(entry):
            if entry.states[task.name].state != DEAD:
                kind = TaskEventType.KILLED if killed else TaskEventType.NOT_RESTARTING
                self._add_event(entry, task, kind, fails=exit_code(task) != 0)
        self._report(entry)

    def _tasks(self, entry: _SimulatedAlloc) -> list[Task]:
        group = entry.job.group(entry.alloc.task_group)
        return [task for task in group.tasks if task.name in entry.states] if group else []

    def _add_event(
        self, entry: _SimulatedAlloc, task: Task, kind: TaskEventType, fails: bool = False
    ) -> None:
        new = event(kind, self.timeline.clock.now_ns(), fails_task=fails)
        entry.states[task.name] = apply(entry.states[task.name], new)

    def _report(self, entry: _SimulatedAlloc) -> None:
        if entry.alloc.id in self.allocs:
            self.link.report(self._report_of(entry))

    def _report_of(self, entry: _SimulatedAlloc) -> AllocReport:
        status, description = client_status(entry.states.values())
        return AllocReport(
            alloc_id=entry.alloc.id,
            client_status=status,
            client_description=description,
            task_states=dict(entry.states),
            deployment_healthy=entry.healthy,
            deployment_healthy_at_ns=entry.healthy_at_ns,
        )


def _run_for_s(task: Task) -> float | None:
    """How long the task runs; None: until it is stopped."""
    text = (task.config or {}).get("run_for", "")
    return duration_s(text) if isinstance(text, str) and text else None


def _exit_code(task: Task) -> int:
    code = (task.config or {}).get("exit_code", 0)
    return code if isinstance(code, int) else 0


class SimulatedNodes:
    """All nodes of one config; a connection carries the streams of many of them."""

    def __init__(
        self, config: SimulatedConfig, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self._config = config
        self._ids = ids or RandomIds()
        self.timeline = Timeline(clock or SystemClock())
        self._channels: dict[tuple[str, int], Channel] = {}
        numbers = range(config.first, config.first + config.nodes)
        self.nodes = [self._node(number) for number in numbers]

    async def start(self) -> None:
        """Begin to connect every node; `connected` waits for all of them."""
        self.timeline.start()
        for node in self.nodes:
            node.link.start()

    async def start_in_turn(self) -> None:
        """Connects some nodes at a time, so that those that are connected can send heartbeats."""
        self.timeline.start()
        for first in range(0, len(self.nodes), _CONNECTED_AT_ONCE):
            some = self.nodes[first : first + _CONNECTED_AT_ONCE]
            for node in some:
                node.link.start()
            await asyncio.gather(*(node.link.connected.wait() for node in some))

    async def connected(self) -> None:
        await asyncio.gather(*(node.link.connected.wait() for node in self.nodes))

    async def stop(self) -> None:
        await asyncio.gather(*(node.link.stop() for node in self.nodes))
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        await self.timeline.stop()

    def running(self) -> int:
        """How many allocations run now, on all nodes."""
        return sum(
            any(state.state == RUNNING for state in entry.states.values())
            for node in self.nodes
            for entry in node.allocs.values()
        )

    def _node(self, number: int) -> SimulatedNode:
        node = SimulatedNode(self._described(number), self.timeline, self._config.start_delay_s)
        group = number // _NODES_PER_CHANNEL

        def open_stream(
            address: str, frames: AsyncIterator[AgentFrame]
        ) -> AsyncGenerator[ServerFrame]:
            return self._channel(address, group).stream(CONNECT_NODE, frames)

        async def ask_leader(address: str, request: LeaderRequest) -> LeaderReply:
            return await self._channel(address, group).call(
                LEADER, request, request.timeout_s + _ANSWER_S
            )

        servers, clock = list(self._config.servers), self.timeline.clock
        node.link = ServerLink(servers, node, clock, open_stream, node.described.id, ask_leader)
        return node

    def _channel(self, address: str, group: int) -> Channel:
        if (address, group) not in self._channels:
            self._channels[address, group] = Channel(address, self._config.tls)
        return self._channels[address, group]

    def _described(self, number: int) -> Node:
        config = self._config
        drivers = {name: DriverInfo(detected=True, healthy=True) for name in _DRIVERS}
        return Node(
            id=self._ids.new(),
            secret_id=self._ids.new(),
            name=f"sim-{number}",
            datacenter=config.datacenters[number % len(config.datacenters)],
            node_class=config.node_classes[number % len(config.node_classes)],
            node_pool=config.node_pool,
            meta={"simulated": "true"},
            attributes={
                "kernel.name": "linux",
                "cpu.arch": "amd64",
                "unique.hostname": f"sim-{number}",
                "unique.network.ip-address": "127.0.0.1",
                **{f"driver.{name}": "1" for name in _DRIVERS},
            },
            drivers=drivers,
            node_resources=NodeResources(
                cpu=NodeCpu(cpu_shares=config.cpu_mhz, total_cpu_cores=2),
                memory=NodeMemory(memory_mb=config.memory_mb),
                disk=NodeDisk(disk_mb=config.disk_mb),
                networks=[NetworkResource(mode="host", device="lo", ip="127.0.0.1")],
            ),
        )
