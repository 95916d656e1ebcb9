"""The tasks of one allocation: each as a loop of its own, started and ended in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from agent.context import AllocContext, NodeContext
from agent.local_state.store import TaskRecord
from agent.loops import spawn, until_done
from agent.services.registrations import AllocServices
from agent.tasks import lifecycle, task_state
from agent.tasks.task_runner import TaskRunner
from agent.tasks.task_state import DEAD, PENDING, TaskEventType
from orchgit.errors import DriverError
from orchgit.model.allocation import DriverAddress, TaskEvent, TaskState


class AllocTasks(Mapping[str, TaskRunner]):
    """The task runners by name. `changed` is called when a state changes and when a loop ends."""

    def __init__(
        self,
        node: NodeContext,
        context: AllocContext,
        services: AllocServices,
        records: Mapping[str, TaskRecord],
        changed: Callable[[], None],
    ) -> None:
        self._clock = node.clock
        self._context = context
        self._changed = changed
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._runners = {
            task.name: TaskRunner(
                node, context, services, task, records.get(task.name) or TaskRecord(), changed
            )
            for task in context.group.tasks
        }

    def __getitem__(self, name: str) -> TaskRunner:
        return self._runners[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runners)

    def __len__(self) -> int:
        return len(self._runners)

    @property
    def states(self) -> dict[str, TaskState]:
        return {name: runner.state for name, runner in self.items()}

    @property
    def driver_addresses(self) -> dict[str, DriverAddress]:
        """The addresses that drivers gave to running tasks."""
        found = ((name, runner.driver_address) for name, runner in self.items())
        return {name: address for name, address in found if address is not None}

    @property
    def any_runs(self) -> bool:
        return any(runner.handle is not None for runner in self.values())

    @property
    def all_between_attempts(self) -> bool:
        """Whether tasks have run, and none runs or may run now."""
        attempts = [runner.record.attempt for runner in self.values()]
        starting = any(runner.record.starting for runner in self.values())
        return any(attempts) and not starting and not self.any_runs

    @property
    def all_dead(self) -> bool:
        return all(runner.state.state == DEAD for runner in self.values())

    def start(self) -> None:
        """Start the loop of each task that has something to do."""
        for name, runner in self.items():
            if runner.state.state != DEAD or runner.record.handle is not None:
                self._start_loop(name)

    def allow_start(self, names: Collection[str]) -> None:
        for name in names:
            self[name].allow_start()

    def restart(self, task_name: str, all_tasks: bool) -> None:
        """Restart one task, those that run, or all (those that have ended too, in their order).

        Raises DriverError where the named task does not run.
        """
        if all_tasks:
            for runner in self.values():
                runner.wait_for_turn()
        elif task_name and self[task_name].handle is None:
            raise DriverError("Task not running")
        which = "all tasks" if all_tasks else "task" if task_name else "running tasks"
        why = f"User requested {which} to restart"
        because = task_state.event(
            TaskEventType.RESTART_REQUESTED, self._clock.now_ns(), why, restart_reason=why
        )
        for name, runner in self.items():
            if runner.handle is not None and (all_tasks or task_name in ("", name)):
                runner.restart(because)
            elif all_tasks and runner.state.state == DEAD:
                runner.revive(because)
                self._start_loop(name)
        self._changed()

    async def signal(self, signal: str, task_name: str) -> None:
        """Signal one task, or all that run. Raises DriverError where the named one does not."""
        for name, runner in self.items():
            if task_name == name or (not task_name and runner.handle is not None):
                await runner.signal(signal)

    def note(self, kind: TaskEventType, message: str) -> None:
        """Adds an event about the allocation to every task."""
        for runner in self._runners.values():
            runner.happened(kind, message)

    def kill(self, because: TaskEvent) -> None:
        """End every task at once, without shutdown delays."""
        for runner in self.values():
            runner.kill(because, with_delay=False)

    async def kill_in_order(self, because: TaskEvent, with_delay: bool) -> None:
        """End the tasks step by step: the leader, the others, the sidecars. Poststop tasks run
        after tasks that ran; where no task ever ran they have nothing to do, and end too."""
        for step in lifecycle.kill_order(self._context.group.tasks):
            for name in step:
                self[name].kill(because, with_delay)
            await asyncio.gather(*(self._loops[name] for name in step if name in self._loops))
        if all(runner.state.started_at is None for runner in self.values()):
            unneeded = task_state.kill_request(
                self._clock.now_ns(), "no task of the group was started"
            )
            for runner in self.values():
                if runner.state.state == PENDING:
                    runner.kill(unneeded, with_delay=False)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the loops of all tasks. Returns whether they have ended within `timeout_s`."""
        if not self._loops:
            return True
        _, pending = await asyncio.wait(self._loops.values(), timeout=timeout_s)
        return not pending

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel the loops, leaving the tasks running. Returns the loops, to be awaited."""
        for loop in self._loops.values():
            loop.cancel()
        return list(self._loops.values())

    def check_known(self, task_name: str) -> None:
        """Raises DriverError unless `task_name` is empty or names a task."""
        if task_name and task_name not in self:
            raise DriverError(f"Could not find task runner for task: {task_name}")

    def _start_loop(self, name: str) -> None:
        known = self._loops.get(name)
        if known is not None and not known.done():
            return
        label = f"task {self._context.alloc.id}/{name}"
        loop = spawn(until_done(self[name].run, label, self._clock), label)
        self._loops[name] = loop
        loop.add_done_callback(lambda _loop: self._changed())
