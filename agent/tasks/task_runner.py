"""One task of one allocation: from the permission to start, through every attempt, to its end.

    wait for the turn -> prepare (hooks) -> start -> wait for the end -> decide -> ...

The order in which facts are stored and effects happen keeps a task from being started twice or
forgotten: the attempt's number is on disk before the driver hears of it, a driver answers a
repeated start of the same attempt with the task already started, a result is on disk before the
driver may forget it, and the driver has forgotten an attempt before the next one begins. While a
driver cannot be reached (an engine that is down) the state of its tasks is unknown: they are
neither reported lost nor started again, and the call is repeated until the driver answers.
`run` alone moves the task's state; `kill`, `restart` and `signal` ask it to, and stop the attempt
that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from agent.context import AllocContext, NodeContext
from agent.drivers.base import Driver, ExecResult, ExitResult, TaskConfig, TaskHandle
from agent.hooks import TASK_HOOKS, TaskHook, validate
from agent.hooks.base import TaskSetup
from agent.hooks.resume import resume
from agent.identities.renewal import keep_current
from agent.local_state.store import TaskRecord
from agent.loops import spawn
from agent.metrics.hook_times import measured
from agent.services.registrations import AllocServices
from agent.tasks import task_state
from agent.tasks.after_attempt import follow_failed_start, follow_policy, restart_at_once
from agent.tasks.commands import script_runner
from agent.tasks.driver_calls import until_answered
from agent.tasks.driver_config import task_config
from agent.tasks.end_events import terminated_event
from agent.tasks.progress import TaskProgress
from agent.tasks.requests import TaskRequests
from agent.tasks.restarts import AttemptEnd
from agent.tasks.setups import task_parts, task_setup
from agent.tasks.task_state import DEAD, RUNNING, TaskEventType
from agent.templates.changes import keep_rendered
from orchgit.durations import to_text
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.allocation import DriverAddress, TaskEvent, TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.task import Task
from orchgit.model.workload_identity import identities_of
from orchgit.wait_first import wait_first

T = TypeVar("T")


class TaskRunner:
    """Create it, run `run()` as one asyncio task; `changed` is called after each new state."""

    def __init__(
        self,
        node: NodeContext,
        context: AllocContext,
        services: AllocServices,
        task: Task,
        record: TaskRecord,
        changed: Callable[[], None],
    ) -> None:
        self.name = task.name
        self._node = node
        self._context = context
        self._services = services
        self._progress = TaskProgress(
            context.alloc.id, task, record, node.local, node.clock, changed
        )
        self._requests = TaskRequests()
        self._parts = task_parts(node, context, task, self._progress)
        self._stopping: asyncio.Task[None] | None = None

    @property
    def task(self) -> Task:
        """The task of the job as it is now: the job may be changed in place."""
        task = self._context.group.task(self.name)
        assert task is not None, f"group {self._context.group.name} has no task {self.name}"
        return task

    @property
    def record(self) -> TaskRecord:
        return self._progress.record

    @property
    def state(self) -> TaskState:
        return self._progress.state

    @property
    def handle(self) -> TaskHandle | None:
        """The handle of the running attempt; None when no attempt runs."""
        return self._progress.handle

    @property
    def driver_address(self) -> DriverAddress | None:
        """The address that the driver gave to the running attempt; None where it gave none."""
        given = self.handle.network if self.handle is not None else None
        if given is None:
            return None
        return DriverAddress(ip=given.ip, ports=given.ports, auto_advertise=given.auto_advertise)

    # -- what others ask for -----------------------------------------------------------------------

    def happened(
        self, kind: TaskEventType, message: str, details: Mapping[str, str] | None = None
    ) -> None:
        """Add an event that others saw: the allocation's arrival, the driver's pull of an image."""
        self._progress.happened(kind, message, details)

    def allow_start(self) -> None:
        """The lifecycle allows the task to start."""
        self._requests.may_start.set()

    def kill(self, because: TaskEvent, with_delay: bool = True) -> None:
        """End the task for good; `run` returns when it has ended. More calls change nothing.

        `because`: a kill request, or an event that tells why. An event that fails the task stands
        alone.
        """
        if self.state.state == DEAD or not self._requests.ask_kill(because, with_delay):
            return
        is_kill = because.type == TaskEventType.KILLING
        if not is_kill:
            self._progress.add(because)
        if is_kill or not because.fails_task:
            now_ns = self._node.clock.now_ns()
            self._progress.add(task_state.killing_event(because, self._kill_timeout_ns, now_ns))
        self._end_attempt()

    def restart(self, because: TaskEvent, counts: bool = False) -> None:
        """End the attempt and start the next; `counts`: as a failure, by the restart policy."""
        if self.state.state != DEAD and self._requests.ask_restart(because, counts):
            self._progress.add(because)
            self._end_attempt()

    def revive(self, because: TaskEvent) -> None:
        """A dead task may be run again: its whole allocation is being restarted."""
        if self.state.state == DEAD:
            self._requests.clear()
            self._progress.add(because)
            restart_at_once(self._progress, self._node.clock.now_ns())

    def wait_for_turn(self) -> None:
        """The lifecycle must allow the next start anew: earlier tasks run again too."""
        self._requests.may_start.clear()

    async def signal(self, signal: str, reason: str = "") -> None:
        """Send the signal to the running task. `reason`: why the agent itself sends it.

        Raises DriverError for a task that does not run or a signal that is not known.
        """
        handle = self.handle
        if handle is None:
            raise DriverError("Task not running")
        details = {"task_signal": signal} if reason else {"signal": signal}
        said = reason or "Task being sent a signal"
        self._progress.happened(TaskEventType.SIGNALING, said, details)
        await self._driver().signal_task(handle, signal)

    async def run_command(self, command: list[str], timeout_s: float) -> ExecResult:
        """Run a command in the task's context."""
        handle = self.handle
        if handle is None:
            raise DriverError(f'cannot run a command in task "{self.name}": it does not run')
        return await self._driver().exec_task(handle, command, timeout_s)

    def register_again(self) -> None:
        """Register the running task's services again: the job was changed in place."""
        if self.handle is not None and self._stopping is None:
            self._start_services()

    # -- the task's life ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when the task is dead. When cancelled (the agent stops) the task runs on."""
        try:
            await self._resume()
            while self.state.state != DEAD:
                if self._requests.kill is not None:
                    await self._abandon_start()
                    self._progress.end()
                    continue
                if self._requests.restart is not None:  # asked for before the attempt ran
                    self._requests.clear_restart()
                    self._progress.save(next_start_ns=0)
                if await self._wait_for_turn():
                    await self._run_attempt()
        finally:
            self._parts.templates.close()
            if self._stopping is not None:
                self._stopping.cancel()

    async def _resume(self) -> None:
        """Finish what a stopped agent had begun: an attempt whose result is stored is forgotten,
        even where the task itself is dead."""
        record = self.record
        if self.state.state == RUNNING:
            await self._wait_and_decide(resumed=True)
        elif record.handle is not None and not record.starting:
            await self._forget(record.handle)

    async def _wait_for_turn(self) -> bool:
        """Wait for the lifecycle and for the restart's delay. Returns False when interrupted."""
        requests = self._requests
        may_start = requests.may_start
        if not may_start.is_set() and not await requests.unless_interrupted(may_start.wait()):
            return False
        wait_ns = self.record.next_start_ns - self._node.clock.now_ns()
        if wait_ns > 0:
            return await requests.unless_interrupted(self._node.clock.sleep(wait_ns / NS_PER_S))
        return True

    async def _run_attempt(self) -> None:
        """Prepare, start and follow one attempt; its end decides what comes next."""
        try:
            config = await self._prepare()
            handle = await self._start(config) if config is not None else None
        except (OrchgitError, OSError) as error:
            await self._abandon_start()
            now_ns = self._node.clock.now_ns()
            follow_failed_start(self._progress, self._context, self.task, error, now_ns)
            return
        if handle is not None:
            self._progress.save(handle=handle, starting=False)
            self._progress.happened(TaskEventType.STARTED, "Task started by client")
            await self._wait_and_decide()

    async def _prepare(self) -> TaskConfig | None:
        """Run the hooks, once the disk has room. Returns None when interrupted."""
        unless_interrupted = self._requests.unless_interrupted
        if not await unless_interrupted(self._node.local.writable()):
            return None
        setup = self.setup()
        validate.check(setup, self._driver())
        is_set_up = any(each.type == TaskEventType.SETUP for each in self.state.events)
        if not self.record.attempt and not is_set_up:
            said = "Building Task Directory"
            self._progress.happened(TaskEventType.SETUP, said, {"message": said})
        for hook in TASK_HOOKS:
            if not await unless_interrupted(_run_hook(self._node, hook, setup)):
                return None
        return task_config(setup, self.record.attempt + (0 if self.record.starting else 1))

    async def _start(self, config: TaskConfig) -> TaskHandle | None:
        """Store the start, then start. Returns None when the task was killed meanwhile: a start
        may take as long as the pull of an image."""
        requests = self._requests
        if not await requests.unless_interrupted(self._progress.save_start(config.attempt)):
            return None
        start = self._driver().start_task(config)
        async with wait_first(start, requests.interrupted()) as (starting, _):
            if requests.kill is not None and not starting.done():
                return None
            handle: TaskHandle = await starting
            return handle

    async def _abandon_start(self) -> None:
        """A start that was decided may have happened: nothing of it may be left behind."""
        if self.record.starting:
            key = self._progress.key
            await self._forget(TaskHandle(driver=self.task.driver, key=key, started_ns=0))
            self._progress.save(starting=False)

    async def _wait_and_decide(self, resumed: bool = False) -> None:
        """Wait for the running attempt's end, decide what follows, and forget the attempt."""
        handle = self.record.handle
        assert handle is not None, "a running task has a handle"
        if resumed:
            await resume(self.setup())
        beside: list[asyncio.Task[None]] = []
        if any(each.ttl_ns for each in identities_of(self.task)):
            beside.append(spawn(keep_current(self), f"identities {handle.key}"))
        if self.task.vault is not None:
            from agent.vault.renewal import keep_token  # only where a task uses Vault

            beside.append(spawn(keep_token(self), f"token of Vault {handle.key}"))
        if self.task.templates:
            beside.append(spawn(keep_rendered(self, resumed), f"templates {handle.key}"))
        try:
            result = await self._until_answered("follow", lambda: self._result(handle, resumed))
        finally:
            for each in beside:
                each.cancel()
        if isinstance(result, DriverError):
            result = ExitResult(exit_code=-1, error=str(result))
        if self._stopping is not None:
            await self._stopping
            self._stopping = None
        self._services.stop(self.name)
        self._decide_after(result)
        await self._node.local.flush()
        await self._forget(handle)

    async def _result(self, handle: TaskHandle, resumed: bool) -> ExitResult:
        driver = self._driver()
        if resumed and not await driver.recover_task(handle):
            return ExitResult(exit_code=-1, error="the task was lost while the agent was away")
        self._start_services()
        self._services.task_started(self.name)
        if self._requests.ends_attempt:  # asked for while the task was starting
            self._begin_stop(handle)
        return await driver.wait_task(handle)

    async def _forget(self, handle: TaskHandle) -> None:
        await self._until_answered("forget", lambda: self._driver().destroy_task(handle))
        self._progress.save(handle=None)

    # -- ending an attempt -------------------------------------------------------------------------

    def _end_attempt(self) -> None:
        if self.handle is not None:
            self._begin_stop(self.handle)

    def _begin_stop(self, handle: TaskHandle) -> None:
        if self._stopping is None:
            stop = self._stop(handle, self._requests.with_delay)
            self._stopping = spawn(stop, f"stop {handle.key}")

    async def _stop(self, handle: TaskHandle, with_delay: bool) -> None:
        """Deregister, give clients the shutdown delay, then end it within its kill timeout."""
        task = self.task
        self._services.stop(self.name)
        if task.shutdown_delay_ns and self._requests.kill is not None:
            said = f"shutdown_delay of {to_text(task.shutdown_delay_ns)} before killing the task."
            if with_delay:
                self._progress.happened(TaskEventType.SHUTDOWN_DELAY, f"Waiting for {said}")
                await self._node.clock.sleep(task.shutdown_delay_ns / NS_PER_S)
            else:
                self._progress.happened(TaskEventType.SHUTDOWN_DELAY_SKIPPED, f"Skipping {said}")
        timeout_s = self._kill_timeout_ns / NS_PER_S
        await self._until_answered("stop", lambda: self._driver().stop_task(handle, timeout_s))

    # -- deciding ----------------------------------------------------------------------------------

    def _decide_after(self, result: ExitResult) -> None:
        """A kill ends the task, a restart by request starts it again, and the restart policy
        decides about everything else."""
        requests, progress = self._requests, self._progress
        now_ns = self._node.clock.now_ns()
        progress.add(terminated_event(result, now_ns))
        if requests.kill is not None:
            progress.happened(TaskEventType.KILLED, "Task successfully killed")
            return
        by_request = requests.restart is not None
        requests.clear_restart()
        if by_request and not requests.restart_counts:
            restart_at_once(progress, now_ns)
        else:
            end = AttemptEnd(successful=result.successful and not by_request)
            follow_policy(progress, self._context, self.task, end, now_ns)

    # -- parts -------------------------------------------------------------------------------------

    def _start_services(self) -> None:
        interpolate = self.setup().environment().interpolate
        self._services.driver_addresses[self.name] = self.driver_address
        self._services.start(
            self.name, self.task.services or [], interpolate, lambda _name: script_runner(self)
        )

    async def _until_answered(self, what: str, call: Callable[[], Awaitable[T]]) -> T | DriverError:
        return await until_answered(what, call, self._progress, self._node.clock)

    @property
    def _kill_timeout_ns(self) -> int:
        return min(self.task.kill_timeout_ns, round(self._node.max_kill_timeout_s * NS_PER_S))

    def _driver(self) -> Driver:
        return self._node.driver(self.task.driver)

    def setup(self) -> TaskSetup:
        """What hooks and services of this task are given, as things are now."""
        is_again = self.record.attempt > 0
        return task_setup(self._node, self._context, self.task, self._parts, is_again)


async def _run_hook(node: NodeContext, hook: TaskHook, setup: TaskSetup) -> None:
    name = hook.__module__.rpartition(".")[2]
    with measured(node.hook_times.of_tasks, name, node.clock):
        await hook(setup)
