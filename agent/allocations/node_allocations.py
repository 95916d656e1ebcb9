"""All allocations of the node: starts a runner for each, and passes on their reports."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

import structlog

from agent.allocations.alloc_runner import AllocRunner
from agent.context import AllocContext, NodeContext
from agent.hooks import alloc_dir
from agent.local_state.store import LocalAllocRecord, StoredAlloc
from agent.loops import retry_delay_s, spawn, until_done
from agent.paths import AllocPaths
from orchgit.errors import DriverError, NotFoundError
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.job import Job, JobType
from orchgit.wire.messages import AllocReport, AllocSet

_log = structlog.get_logger(component="agent")
_BOUND_TO_NODE = (JobType.SYSTEM, JobType.SYSBATCH)
NEVER_RAN = "the node does not run this allocation"


class Allocations:
    """`report(report, urgent)` is called with each new report; it must return at once.

    Urgent is what schedulers and deployments act on: a status, a task's state, health. That a
    task's directory is being built may travel with the next urgent one.
    """

    def __init__(self, node: NodeContext, report: Callable[[AllocReport, bool], None]) -> None:
        self._node = node
        self._report = report
        self._reported: dict[str, AllocReport] = {}
        self._runners: dict[str, AllocRunner] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self.received = asyncio.Event()
        """Set with each new allocation, for the garbage collection, which clears it."""

    def __iter__(self) -> Iterator[AllocRunner]:
        return iter(list(self._runners.values()))

    def get(self, alloc_id: str) -> AllocRunner:
        runner = self._runners.get(alloc_id)
        if runner is None:
            raise NotFoundError(f'Unknown allocation "{alloc_id}"')
        return runner

    def knows(self, alloc_id: str) -> bool:
        return alloc_id in self._runners

    def is_live(self, alloc_id: str) -> bool:
        """Whether the allocation is known and has not ended."""
        runner = self._runners.get(alloc_id)
        return runner is not None and not runner.local.finished

    def restore(self, stored: list[StoredAlloc]) -> None:
        """Make runners for the stored allocations, before the first contact with a server. Running
        tasks are followed at once; tasks to be started again wait for the servers, which may have
        replaced the allocation meanwhile. Nothing replaces one of a node-bound job."""
        for entry in stored:
            context = AllocContext(entry.alloc, entry.job, self._paths(entry.alloc.id))
            runner = AllocRunner(self._node, context, entry.local, entry.tasks, self._changed)
            if entry.job.type not in _BOUND_TO_NODE:
                runner.hold()
            self._add(runner)

    def take(self, wanted: AllocSet) -> None:
        """Take new and changed allocations, and end those that the server no longer knows."""
        for delivery in wanted.changed:
            runner = self._runners.get(delivery.alloc.id)
            if runner is not None:
                self._update(runner, delivery.alloc, delivery.job, wanted.index)
            elif not delivery.alloc.is_client_terminal:
                self._receive(delivery.alloc, delivery.job)
        for alloc in wanted.jobless:
            runner = self._runners.get(alloc.id)
            if runner is not None:
                self._update(runner, alloc, runner.context.job, wanted.index)
            else:
                self._report(AllocReport(alloc.id, ClientStatus.COMPLETE, NEVER_RAN), True)
        keep = set(wanted.wanted)
        for alloc_id, runner in self._runners.items():
            is_known = _is_older(runner, wanted.index)
            if alloc_id not in keep and is_known:
                self._begin_removal(alloc_id)
            runner.release()

    def _update(self, runner: AllocRunner, alloc: Allocation, job: Job, index: int) -> None:
        if _is_older(runner, index) and alloc.modify_index != runner.context.alloc.modify_index:
            runner.update(alloc, job)

    def full_report(self) -> list[AllocReport]:
        return [runner.report() for runner in self._runners.values()]

    async def wait_ended(self, alloc_id: str) -> AllocPaths | None:
        """Until that allocation has ended here; where its files are, if they are still here."""
        runner = self._runners.get(alloc_id)
        if runner is None:
            return None
        await runner.ended.wait()
        return None if runner.local.files_removed else runner.context.paths

    async def remove_files(self, runner: AllocRunner) -> None:
        """Remove an ended allocation's files; the facts about it stay. Raises DriverError where
        something cannot be deleted."""
        await alloc_dir.remove(runner.context.paths)
        runner.set_local(files_removed=True)

    async def close(self) -> None:
        """The agent stops: every loop ends, the tasks go on."""
        pending = list(self._removing.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))

    def _receive(self, alloc: Allocation, job: Job) -> None:
        """Stored now; the first start of a task waits until that (and this) is on disk."""
        _log.info("allocation received", alloc=alloc.id, job=alloc.job_id, group=alloc.task_group)
        local = LocalAllocRecord(received_ns=self._node.clock.now_ns())
        self._node.local.put_allocation(alloc, job, local)
        context = AllocContext(alloc, job, self._paths(alloc.id))
        self._add(AllocRunner(self._node, context, local, {}, self._changed))
        self.received.set()

    def _add(self, runner: AllocRunner) -> None:
        self._runners[runner.id] = runner
        self._node.services.by_alloc[runner.id] = runner.services
        runner.start()

    def _begin_removal(self, alloc_id: str) -> None:
        if alloc_id not in self._removing:
            name = f"remove {alloc_id}"
            work = until_done(lambda: self._remove(alloc_id), name, self._node.clock)
            self._removing[alloc_id] = spawn(work, name)

    async def _remove(self, alloc_id: str) -> None:
        """End what runs of an allocation that the servers no longer know, and forget it too."""
        runner = self._runners[alloc_id]
        runner.end_locally("the servers no longer know this allocation")
        await runner.ended.wait()
        await runner.close()
        await self._remove_in_the_end(runner)
        self._node.local.remove_allocation(alloc_id)
        del self._runners[alloc_id]
        self._reported.pop(alloc_id, None)
        self._node.services.by_alloc.pop(alloc_id, None)
        del self._removing[alloc_id]

    async def _remove_in_the_end(self, runner: AllocRunner) -> None:
        """Remove its files, however many tries that takes. Each reason is logged once."""
        told = ""
        for failures in itertools.count():
            try:
                return await alloc_dir.remove(runner.context.paths)
            except DriverError as error:
                if told != (told := str(error)):
                    _log.warning(told, alloc=runner.id)
            await self._node.clock.sleep(retry_delay_s(failures))

    def _changed(self, runner: AllocRunner) -> None:
        report, last = runner.report(), self._reported.get(runner.id)
        if report != last:
            self._reported[runner.id] = report
            self._report(report, last is not None and _urgent_part(report) != _urgent_part(last))

    def _paths(self, alloc_id: str) -> AllocPaths:
        return AllocPaths(self._node.alloc_root / alloc_id)


def _is_older(runner: AllocRunner, index: int) -> bool:
    """Whether a server at `index` knows the allocation as this node last got it. A server that is
    behind must neither end an allocation nor undo a change. After the restore of a backup the
    server's allocations are older than the node's, and its index is newer."""
    return runner.context.alloc.modify_index <= index


def _urgent_part(report: AllocReport) -> tuple[object, ...]:
    states = (report.task_states or {}).items()
    return (
        report.client_status,
        report.deployment_healthy,
        [(name, state.state, state.failed, state.restarts) for name, state in states],
    )
