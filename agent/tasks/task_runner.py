"""One task of one allocation: from its gate, through every attempt, to its end.

    gate (lifecycle) -> delay (restart policy) -> prepare (hooks) -> start -> wait -> decide -> ...

The order in which facts are stored and effects happen is what keeps a task from being started
twice or forgotten: the attempt's number is on disk before the driver hears of it, a driver answers
a repeated start of the same attempt with the task already started, a result is on disk before the
driver may forget it, and the driver has forgotten an attempt before the next one begins. While a
driver cannot be reached (an engine that is down) nothing is known of its tasks: they are neither
called lost nor started again, and what was asked of it is asked again until it answers.
`run` is the only one that moves the task's state; `kill`, `restart` and `signal` ask it to, and
stop the attempt that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog

from agent.allocations.context import AllocContext, NodeServices
from agent.drivers.base import (
    Driver,
    ExecResult,
    ExitResult,
    TaskConfig,
    TaskHandle,
)
from agent.hooks import TASK_HOOKS
from agent.hooks.base import SetupError, TaskSetup
from agent.local_state.store import TaskRecord
from agent.loops import retry_delay_s, spawn
from agent.services.registrations import AllocServices
from agent.tasks import task_state
from agent.tasks.driver_config import task_config, terminated_event
from agent.tasks.lifecycle import restarts_on_success
from agent.tasks.restarts import Ended, Restarts, decide
from agent.tasks.task_state import DEAD, RUNNING, Happened
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.allocation import TaskEvent, TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.task import Task

T = TypeVar("T")

_log = structlog.get_logger(component="agent")

_DRIVER_RETRY_STEPS = 3
"""A driver is asked again after 4 s at most: what waits for it is a stop, or a restart."""


class TaskRunner:
    """Create it, run `run()` as one asyncio task; `changed` is called after each new state."""

    def __init__(
        self,
        node: NodeServices,
        context: AllocContext,
        services: AllocServices,
        name: str,
        record: TaskRecord,
        changed: Callable[[], None],
    ) -> None:
        self._node = node
        self._context = context
        self._services = services
        self._changed = changed
        self.name = name
        self.record = record
        self._setup: TaskSetup | None = None
        self._gate = asyncio.Event()
        self._interrupt = asyncio.Event()
        self._kill: TaskEvent | None = None
        self._restart: TaskEvent | None = None
        self._restart_counts = False
        self._with_delay = True
        self._stopping: asyncio.Task[None] | None = None

    @property
    def task(self) -> Task:
        task = self._context.group.task(self.name)
        assert task is not None, f"group {self._context.group.name} has no task {self.name}"
        return task

    @property
    def state(self) -> TaskState:
        return self.record.state

    @property
    def handle(self) -> TaskHandle | None:
        """Of the attempt that runs; None when none does."""
        return self.record.handle if self.state.state == RUNNING else None

    def received(self) -> None:
        self._emit(task_state.event(Happened.RECEIVED, self._now(), "Task received by client"))

    # -- what others ask for -----------------------------------------------------------------------

    def open_gate(self) -> None:
        """The lifecycle allows the task to start."""
        self._gate.set()

    def kill(self, because: TaskEvent, with_delay: bool = True) -> None:
        """End it for good; `run` returns when it has ended. More calls change nothing."""
        if self._kill is None and self.state.state != DEAD:
            self._kill = because
            self._end_attempt(because, with_delay)

    def restart(self, because: TaskEvent, counts: bool = False) -> None:
        """End the attempt and start the next; `counts`: as a failure, by the restart policy."""
        if self._kill is None and self._restart is None and self.state.state != DEAD:
            self._restart = because
            self._restart_counts = counts
            self._end_attempt(because, with_delay=True)

    async def signal(self, signal: str, reason: str = "User requested Task to be signaled") -> None:
        handle = self.handle
        if handle is None:
            raise DriverError(f'cannot signal task "{self.name}": it does not run')
        event = task_state.event(
            Happened.SIGNALING, self._now(), reason, task_signal=signal, task_signal_reason=reason
        )
        self._emit(event)
        await self._driver().signal_task(handle, signal)

    async def run_command(self, command: list[str], timeout_s: float) -> ExecResult:
        """For script checks: a command in the task's context."""
        handle = self.handle
        if handle is None:
            raise DriverError(f'cannot run a command in task "{self.name}": it does not run')
        return await self._driver().exec_task(handle, command, timeout_s)

    def _end_attempt(self, because: TaskEvent, with_delay: bool) -> None:
        self._with_delay = with_delay
        self._emit(because)
        self._interrupt.set()
        handle = self.handle
        if handle is not None and self._stopping is None:
            stop = self._stop(handle, with_delay)
            self._stopping = spawn(stop, f"stop {handle.key}")

    async def _stop(self, handle: TaskHandle, with_delay: bool) -> None:
        """Deregister, give clients the shutdown delay, then end it within its kill timeout."""
        task = self.task
        self._services.stop(self.name)
        if with_delay and task.shutdown_delay_ns:
            delay_s = task.shutdown_delay_ns / NS_PER_S
            note = f"Waiting for shutdown_delay of {delay_s:g}s before killing the task."
            self._emit(task_state.event(Happened.SHUTDOWN_DELAY, self._now(), note))
            await self._node.clock.sleep(delay_s)
        timeout_s = min(task.kill_timeout_ns / NS_PER_S, self._node.max_kill_timeout_s)
        await self._insist("stop", lambda: self._driver().stop_task(handle, timeout_s))

    def update(self) -> None:
        """The job was changed in place: the running task's services are registered anew."""
        if self.handle is not None and self._stopping is None:
            self._start_services()

    # -- the task's life ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the task is dead. Cancelled: the agent stops, and the task goes on."""
        try:
            await self._resume()
            while self.state.state != DEAD:
                if self._kill is not None:
                    await self._abandon_start()
                    self._finish_killed()
                elif await self._wait_for_turn():
                    await self._attempt()
        finally:
            if self._stopping is not None and not self._stopping.done():
                self._stopping.cancel()

    def revive(self) -> None:
        """A dead task may be run again: its whole allocation is being restarted."""
        if self.state.state == DEAD:
            event = task_state.event(
                Happened.RESTART_REQUESTED, self._now(), "User requested all tasks to restart"
            )
            self._kill = self._restart = None
            self._interrupt.clear()
            self._emit(event)

    async def _resume(self) -> None:
        """Finish what a stopped agent had begun: an attempt whose result is stored is forgotten,
        though the task itself may be dead."""
        handle = self.record.handle
        if handle is not None and self.state.state != RUNNING and not self.record.starting:
            await self._forget(handle)
        if self.state.state == RUNNING:
            await self._follow(resumed=True)

    async def _wait_for_turn(self) -> bool:
        """Wait for the gate and for the restart's delay; False when something else came first."""
        if not self._gate.is_set() and not await self._unless_interrupted(self._gate.wait()):
            return False
        wait_ns = self.record.next_start_ns - self._now()
        if wait_ns > 0:
            return await self._unless_interrupted(self._node.clock.sleep(wait_ns / NS_PER_S))
        return True

    async def _unless_interrupted(self, waiting: Awaitable[object]) -> bool:
        """Whether `waiting` ended before the task was asked to end or restart."""
        work = asyncio.ensure_future(waiting)
        interrupt = asyncio.ensure_future(self._interrupt.wait())
        try:
            await asyncio.wait({work, interrupt}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not self._interrupt.is_set():
                work.result()
                return True
        finally:
            for future in (work, interrupt):
                future.cancel()
            await asyncio.gather(work, interrupt, return_exceptions=True)
        if self._restart is not None and self._kill is None:
            self._restart = None
            self._interrupt.clear()
            self._save(next_start_ns=0)
        return False

    async def _attempt(self) -> None:
        """Prepare, start and follow one attempt; its end decides what comes next."""
        try:
            config = await self._prepare()
            if config is None:
                return
            handle = await self._start(config)
            if handle is None:
                return
        except (OrchgitError, OSError) as problem:
            await self._abandon_start()
            self._fail_start(problem)
            return
        self._save(handle=handle, starting=False)
        self._emit(task_state.event(Happened.STARTED, self._now(), "Task started by client"))
        await self._follow()

    async def _prepare(self) -> TaskConfig | None:
        """Run the hooks; None when the task was asked to end meanwhile. On a full disk they would
        only fail."""
        if not await self._unless_interrupted(self._node.local.writable()):
            return None
        self._setup = setup = self.setup()
        if not self.record.attempt:
            self._emit(task_state.event(Happened.SETUP, self._now(), "Building Task Directory"))
        for hook in TASK_HOOKS:
            if not await self._unless_interrupted(hook(setup)):
                return None
        return task_config(setup, self.record.attempt + (0 if self.record.starting else 1))

    async def _start(self, config: TaskConfig) -> TaskHandle | None:
        """None when the task was ended meanwhile: a start may take as long as an image's pull."""
        self.record = msgspec.structs.replace(
            self.record, attempt=config.attempt, starting=True, handle=None, next_start_ns=0
        )
        stored = self._node.local.start_task(self._context.alloc.id, self.name, self.record)
        if not await self._unless_interrupted(stored):
            return None
        starting = asyncio.ensure_future(self._driver().start_task(config))
        interrupt = asyncio.ensure_future(self._interrupt.wait())
        try:
            await asyncio.wait({starting, interrupt}, return_when=asyncio.FIRST_COMPLETED)
            if self._kill is not None and not starting.done():
                return None
            return await starting
        finally:
            for future in (starting, interrupt):
                future.cancel()
            await asyncio.gather(starting, interrupt, return_exceptions=True)

    async def _abandon_start(self) -> None:
        """A start that was decided may have happened: nothing of it may be left behind."""
        if self.record.starting:
            await self._forget(TaskHandle(driver=self.task.driver, key=self._key(), started_ns=0))
            self._save(starting=False)

    async def _follow(self, resumed: bool = False) -> None:
        """Wait for the running attempt's end, and act on it."""
        handle = self.record.handle
        assert handle is not None, "a running task has a handle"
        result = await self._insist("follow", lambda: self._result(handle, resumed))
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
        self._serve(handle)
        return await driver.wait_task(handle)

    async def _insist(self, what: str, ask: Callable[[], Awaitable[T]]) -> T | DriverError:
        """The driver's answer, or why it will never give one; a driver that cannot answer now is
        asked again, for what it was asked about may run on."""
        failures = 0
        while True:
            try:
                return await ask()
            except (OrchgitError, OSError) as problem:
                if isinstance(problem, DriverError) and not problem.recoverable:
                    _log.warning(f"cannot {what} task", task=self._key(), error=str(problem))
                    return problem
                if not failures:
                    _log.warning(
                        f"cannot {what} task now; trying again until the driver answers",
                        task=self._key(),
                        error=str(problem),
                    )
                    note = f"Waiting for the driver: {problem}"
                    self._emit(task_state.event(Happened.DRIVER, self._now(), note))
            await self._node.clock.sleep(retry_delay_s(min(failures, _DRIVER_RETRY_STEPS)))
            failures += 1

    def _serve(self, handle: TaskHandle) -> None:
        """The task runs: register its services; end it if that was asked for meanwhile."""
        self._start_services()
        pending = self._kill or self._restart
        if pending is not None and self._stopping is None:
            stop = self._stop(handle, self._with_delay)
            self._stopping = spawn(stop, f"stop {handle.key}")

    def _start_services(self) -> None:
        interpolate = self.setup().environment().interpolate
        self._services.start(
            self.name, self.task.services or [], interpolate, lambda _name: self.run_command
        )

    async def _forget(self, handle: TaskHandle) -> None:
        await self._insist("forget", lambda: self._driver().destroy_task(handle))
        self._save(handle=None)

    # -- deciding ----------------------------------------------------------------------------------

    def _decide_after(self, result: ExitResult) -> None:
        self._emit(terminated_event(result, self._now()))
        if self._kill is not None:
            self._finish_killed()
        elif self._restart is not None and not self._restart_counts:
            self._clear_restart()
            self._emit(
                task_state.event(Happened.RESTARTING, self._now(), "Task restarting by request")
            )
        else:
            wanted = self._restart is not None
            self._clear_restart()
            self._apply_policy(Ended(successful=result.successful and not wanted))

    def _clear_restart(self) -> None:
        self._restart = None
        self._interrupt.clear()

    def _finish_killed(self) -> None:
        assert self._kill is not None
        self._emit(
            task_state.event(
                Happened.KILLED,
                self._now(),
                "Task successfully killed",
                fails_task=self._kill.fails_task,
            )
        )

    def _fail_start(self, problem: OrchgitError | OSError) -> None:
        recoverable = isinstance(problem, OSError) or (
            isinstance(problem, DriverError) and problem.recoverable
        )
        happened, name = Happened.DRIVER_FAILURE, "driver_error"
        if isinstance(problem, SetupError):
            happened, name = problem.happened, "setup_error"
            if happened is Happened.ARTIFACT_FAILED:
                name = "download_error"
        self._emit(task_state.event(happened, self._now(), str(problem), **{name: str(problem)}))
        ended = Ended(successful=False, start_error=str(problem), recoverable=recoverable)
        self._apply_policy(ended)

    def _apply_policy(self, ended: Ended) -> None:
        """The restart policy's answer to an end that nobody asked for."""
        task, record, now_ns = self.task, self.record, self._now()
        decision, past = decide(
            task.restart_policy or self._context.group.restart_policy,
            Restarts(record.restart_count, record.restart_window_ns),
            ended,
            restart_on_success=restarts_on_success(task, self._context.job.type),
            now_ns=now_ns,
            seed=f"{self._context.alloc.id}/{self.name}",
        )
        self._save(
            restart_count=past.count,
            restart_window_ns=past.window_start_ns,
            next_start_ns=now_ns + decision.delay_ns if decision.restart else 0,
        )
        if decision.restart:
            note = f"Task restarting in {decision.delay_ns / NS_PER_S:g}s"
            self._emit(
                task_state.event(
                    Happened.RESTARTING,
                    now_ns,
                    note,
                    restart_reason=decision.reason,
                    start_delay_ns=decision.delay_ns,
                )
            )
            return
        self._emit(
            task_state.event(
                Happened.NOT_RESTARTING,
                now_ns,
                decision.reason,
                restart_reason=decision.reason,
                fails_task=decision.failed,
            )
        )

    # -- parts -------------------------------------------------------------------------------------

    def _emit(self, event: TaskEvent) -> None:
        if self.state.state == DEAD and event.type not in (Happened.RESTART_REQUESTED,):
            return  # a late request: the task has ended by itself
        self.record = msgspec.structs.replace(
            self.record, state=task_state.apply(self.state, event)
        )
        self._log_event(event)
        self._put()
        self._changed()

    def _log_event(self, event: TaskEvent) -> None:
        log = _log.bind(alloc=self._context.alloc.id, task=self.name)
        match event.type:
            case Happened.STARTED:
                log.info("task started", driver=self.task.driver)
            case Happened.TERMINATED:
                log.info("task ended", exit_code=event.exit_code, signal=event.signal)
            case Happened.SETUP_FAILURE | Happened.DRIVER_FAILURE | Happened.ARTIFACT_FAILED:
                log.warning("task cannot start", reason=event.display_message)
            case Happened.NOT_RESTARTING if event.fails_task:
                log.warning("task is not restarted", reason=event.display_message)
            case _:
                log.debug("task event", type=event.type, message=event.display_message)

    def _save(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        self._put()

    def _put(self) -> None:
        self._node.local.put_task(self._context.alloc.id, self.name, self.record)

    def _key(self) -> str:
        """Of the latest attempt, as drivers know it."""
        return f"{self._context.alloc.id}/{self.name}/{self.record.attempt}"

    def _now(self) -> int:
        return self._node.clock.now_ns()

    def _driver(self) -> Driver:
        return self._node.driver(self.task.driver)

    def setup(self) -> TaskSetup:
        """What hooks and services of this task are given, as things are now."""
        context = self._context
        return TaskSetup(
            node=self._node.node(),
            region=self._node.region,
            job=context.job,
            group=context.group,
            task=self.task,
            alloc=context.alloc,
            paths=context.paths.task(self.name),
            volume_sources=context.volume_sources,
            host_env=self._node.host_env,
            isolation=self._driver().isolation,
            clock=self._node.clock,
            emit=self._emit,
            templates=self._node.templates,
            fetch_limits=self._node.fetch_limits,
            done=self._setup.done if self._setup else set(),
        )
