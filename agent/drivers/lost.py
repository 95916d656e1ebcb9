"""Stands in for a driver that the node has no more, while tasks that it started still run.

A package with a driver was removed, or the configuration denies a driver. What runs under the
supervisor is followed and ended all the same. Of an engine's containers nothing is known here: they
are reported as lost, and the driver removes them when the node has it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.drivers.base import (
    DriverInfo,
    ExecResult,
    ExecSession,
    TaskConfig,
    TaskHandle,
    TaskStats,
)
from agent.drivers.supervised import SupervisedDriver
from agent.local_state.store import StoredAlloc
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError


def drivers_in_use(stored: Iterable[StoredAlloc]) -> set[str]:
    """Returns the names of the drivers whose tasks an earlier agent has left running, or was
    starting."""
    found = set()
    for entry in stored:
        group = entry.job.group(entry.alloc.task_group)
        for task in group.tasks if group is not None else ():
            record = entry.tasks.get(task.name)
            if record is not None and (record.handle is not None or record.starting):
                found.add(task.driver)
    return found


class LostDriver(SupervisedDriver):
    isolation = "none"

    def __init__(self, name: str, supervisor: SupervisorClient) -> None:
        super().__init__(supervisor)
        self.name = name

    async def fingerprint(self) -> DriverInfo:
        return DriverInfo(health_description="this node has no such driver any more")

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        raise self._error("start the task")

    async def recover_task(self, handle: TaskHandle) -> bool:
        if not await super().recover_task(handle):
            raise self._error("follow the task")
        return True

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        raise self._error("run a command in the task")

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> ExecSession:
        raise self._error("run a command in the task")

    async def stats(self, handle: TaskHandle) -> TaskStats:
        return TaskStats()

    def _error(self, what: str) -> DriverError:
        return DriverError(f'cannot {what}: this node has no driver "{self.name}"')
