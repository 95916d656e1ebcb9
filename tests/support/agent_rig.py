"""An agent's runners on real local state, the mock driver and a fake clock, without any server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from agent.allocations.alloc_runner import AllocRunner
from agent.allocations.node_allocations import Allocations
from agent.context import NodeContext
from agent.drivers.base import Driver
from agent.drivers.mock import MockDriver
from agent.local_state.store import LocalState
from agent.services.registrations import ServiceTable
from orchgit.clock import Clock, FakeClock
from orchgit.model.allocation import Allocation, TaskState
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.task import Task
from orchgit.wire.messages import AllocDelivery, AllocReport, AllocSet
from tests.support.factories import make_allocation, make_group, make_job, make_node

WAIT_S = 60.0

_indexes = itertools.count(1)


def mock_task(name: str = "web", **fields: Any) -> Task:
    """A task of the mock driver; `config` as the driver has it."""
    return Task(name=name, driver="mock_driver", **{"config": {}, **fields})


def mock_job(*tasks: Task, type: str = "service", **group: Any) -> Job:
    return make_job(
        type=type, task_groups=[make_group(tasks=list(tasks or [mock_task()]), **group)]
    )


class AgentRig:
    """`close` and make a new one on the same path: that is a restart of the agent."""

    def __init__(
        self,
        path: Path,
        clock: Clock | None = None,
        drivers: dict[str, Driver] | None = None,
        node: Node | None = None,
    ) -> None:
        self.path = path
        self.clock: Any = clock or FakeClock()
        self.mock = MockDriver(self.clock)
        self.node = node or make_node(attributes={"unique.network.ip-address": "127.0.0.1"})
        self.local = LocalState(path / "client" / "state.db")
        self.services = ServiceTable()
        self.reports: list[AllocReport] = []
        self.forward: Callable[[AllocReport, bool], None] | None = None
        """Gets each report as well."""
        self.urgent = 0
        self._changed = asyncio.Event()
        self.allocs: Allocations
        self.allocs = Allocations(
            NodeContext(
                clock=self.clock,
                local=self.local,
                drivers=drivers or {"mock_driver": self.mock},
                node=lambda: self.node,
                region="global",
                host_env={"PATH": "/usr/bin:/bin"},
                alloc_root=path / "alloc",
                services=self.services,
                wait_ended=lambda id_: self.allocs.wait_ended(id_),
            ),
            self._report,
        )
        self.allocs.restore(self.local.allocations())

    def _report(self, report: AllocReport, urgent: bool) -> None:
        self.reports.append(report)
        if self.forward is not None:
            self.forward(report, urgent)
        self.urgent += urgent
        self._changed.set()

    def deliver(self, job: Job, **fields: Any) -> AllocRunner:
        """A new allocation of the job arrives."""
        alloc = make_allocation(job, self.node, **fields)
        alloc = msgspec.structs.replace(alloc, job_type=job.type, modify_index=self._next_index())
        return self.update(alloc, job)

    def update(self, alloc: Allocation, job: Job, **fields: Any) -> AllocRunner:
        """The servers say something new about an allocation."""
        alloc = msgspec.structs.replace(alloc, modify_index=self._next_index(), **fields)
        wanted = [runner.id for runner in self.allocs]
        self.allocs.take(AllocSet(self._index, [AllocDelivery(alloc, job)], [*wanted, alloc.id]))
        return self.allocs.get(alloc.id)

    def stop(self, runner: AllocRunner) -> None:
        self.update(runner.context.alloc, runner.context.job, desired_status="stop")

    def _next_index(self) -> int:
        self._index = next(_indexes)
        return self._index

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, in real time, until a report has made the condition true."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_status(self, runner: AllocRunner, status: str) -> None:
        await self.until(lambda: self.last(runner).client_status == status)

    async def until_event(self, runner: AllocRunner, kind: str, task: str = "web") -> None:
        await self.until(lambda: kind in self.events(runner, task))

    def last(self, runner: AllocRunner) -> AllocReport:
        return next(
            (report for report in reversed(self.reports) if report.alloc_id == runner.id),
            AllocReport(alloc_id="", client_status=""),
        )

    def events(self, runner: AllocRunner, task: str = "web") -> list[str]:
        return [event.type for event in self.state(runner, task).events]

    def state(self, runner: AllocRunner, task: str = "web") -> TaskState:
        return runner.tasks[task].state

    async def close(self) -> None:
        await self.allocs.close()
        self.local.close()
