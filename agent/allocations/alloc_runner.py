"""One allocation on this node: its directories, its tasks in their order, its health, its end.

The servers' copy of the allocation (`context.alloc`) and the node's own facts (task states, health)
are kept apart: what the servers want comes in by `update`, what became of it goes out by `report`.
`run` is the only loop; task runners call `_changed`, and each wake-up applies the pure rules of
`lifecycle` to the states as they are then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from agent.allocations.context import AllocContext, NodeServices
from agent.allocations.health_watch import HealthWatch
from agent.allocations.paths import AllocPaths
from agent.allocations.run_limit import EXCEEDED, RunLimit
from agent.hooks import alloc_dir, previous_alloc, volumes
from agent.hooks.base import SetupError, TaskSetup
from agent.local_state.store import AllocRecord, TaskRecord
from agent.loops import spawn, until_done
from agent.services.probes import RunInTask
from agent.services.registrations import AllocServices
from agent.tasks import lifecycle, task_state
from agent.tasks.task_runner import TaskRunner
from agent.tasks.task_state import DEAD, PENDING, Happened
from orchgit.clock import Clock
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.allocation import Allocation, TaskEvent, TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.job import Job
from orchgit.model.service import ServiceCheck
from orchgit.wire.messages import AllocReport

_log = structlog.get_logger(component="agent")

_FINISH_S = 0.5
"""How long the report of an allocation's end waits for its tasks to be forgotten."""


class AllocRunner:
    """`reported` is called (with this runner) whenever the report has changed."""

    def __init__(
        self,
        node: NodeServices,
        context: AllocContext,
        local: AllocRecord,
        tasks: dict[str, TaskRecord],
        reported: Callable[[AllocRunner], None],
    ) -> None:
        self._node = node
        self.context = context
        self.local = local
        self._reported = reported
        self._wake = asyncio.Event()
        self._stop: TaskEvent | None = None
        self._stop_asked = asyncio.Event()
        self._killing: asyncio.Task[None] | None = None
        self._task_loops: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None
        self._held = False
        self.ended = asyncio.Event()
        self.services = AllocServices(
            node.clock, node.node, context.alloc, self._changed, self._check_restart
        )
        self.tasks = {
            task.name: TaskRunner(
                node,
                context,
                self.services,
                task.name,
                tasks.get(task.name) or TaskRecord(),
                self._changed,
            )
            for task in context.group.tasks
        }
        self._health = HealthWatch(self, node.clock)
        self._limit = RunLimit(node.clock, self._exceed_limit)

    @property
    def id(self) -> str:
        return self.context.alloc.id

    @property
    def clock(self) -> Clock:
        return self._node.clock

    @property
    def states(self) -> dict[str, TaskState]:
        return {name: runner.state for name, runner in self.tasks.items()}

    # -- what the agent asks for -------------------------------------------------------------------

    def start(self) -> None:
        name = f"alloc {self.id}"
        self._loop = spawn(until_done(self._run_to_end, name, self.clock), name)

    def hold(self) -> None:
        """Start nothing until `release`: the servers may have replaced the allocation while the
        agent was away. What runs already goes on."""
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._changed()

    async def close(self) -> None:
        """The agent stops: every loop ends, the tasks go on."""
        loops = [loop for loop in (self._loop, self._killing, *self._task_loops.values()) if loop]
        for loop in loops:
            loop.cancel()
        self._limit.close()
        self._health.close()
        self.services.close()
        await asyncio.gather(*loops, return_exceptions=True)

    def update(self, alloc: Allocation, job: Job) -> None:
        """What the servers want now. A stop ends the tasks, by the job that they were started
        with; the rest is taken in place. An allocation that the servers call ended is to end: they
        do not count on it any more."""
        before, served = self.context.alloc, _served(self.context)
        limit_ns = self.context.group.max_run_duration_ns
        self.context.alloc = self.services.alloc = alloc
        if not alloc.is_terminal:
            self.context.job = job
        if alloc.deployment_id != before.deployment_id:
            self.set_local(healthy=None, healthy_at_ns=0, health_from_ns=self.clock.now_ns())
        self._node.local.put_allocation(alloc, self.context.job, self.local)
        if alloc.is_terminal:
            self.stop(_killing(self.clock.now_ns(), alloc.desired_description))
        elif not self.local.finished:
            if _served(self.context) != served:
                self._register_again()
            if self.context.group.max_run_duration_ns != limit_ns:
                self._limit.close()
                self._limit.begin(self.local.received_ns, self.context.group.max_run_duration_ns)
            self._health.begin()

    def stop(self, because: TaskEvent) -> None:
        """End every task for good."""
        if self._stop is None and not self.local.finished:
            self._stop = because
            self._stop_asked.set()
            self._changed()

    def end_locally(self, why: str) -> None:
        """The node itself ends it (it lost the servers for too long), and remembers that."""
        self.set_local(killed=why)
        self.stop(_killing(self.clock.now_ns(), why))

    def restart(self, task_name: str = "", all_tasks: bool = False) -> None:
        """Restart one task, those that run, or all (those that have ended too)."""
        if task_name and task_name not in self.tasks:
            raise DriverError(f"Could not find task runner for task: {task_name}")
        if self.local.finished or self._stop is not None:
            raise DriverError("cannot restart: the allocation has ended or is ending")
        because = task_state.event(
            Happened.RESTART_REQUESTED, self.clock.now_ns(), "User requested task to restart"
        )
        for name, runner in self.tasks.items():
            if task_name in ("", name) and (runner.handle or task_name):
                runner.restart(because)
            elif all_tasks and runner.state.state == DEAD:
                runner.revive()
                self._start_task(name)

    async def signal(self, signal: str, task_name: str = "") -> None:
        if task_name and task_name not in self.tasks:
            raise DriverError(f"Could not find task runner for task: {task_name}")
        for name, runner in self.tasks.items():
            if task_name == name or (not task_name and runner.handle is not None):
                await runner.signal(signal)

    def report(self) -> AllocReport:
        """What the servers should know of it now."""
        status, description = lifecycle.client_status(self.states.values())
        return AllocReport(
            alloc_id=self.id,
            client_status=status,
            client_description=self.local.killed or description,
            task_states=self.states,
            deployment_healthy=self.local.healthy,
            deployment_healthy_at_ns=self.local.healthy_at_ns,
        )

    def set_local(self, **changes: object) -> None:
        """Change and store the node's own facts about the allocation."""
        self.local = msgspec.structs.replace(self.local, **changes)
        self._node.local.put_allocation(self.context.alloc, self.context.job, self.local)

    def set_health(self, healthy: bool, reason: str) -> None:
        """The health watch has decided."""
        self.set_local(healthy=healthy, healthy_at_ns=self.clock.now_ns())
        if not healthy:
            _log.info("allocation is unhealthy", alloc=self.id, reason=reason)
        self._reported(self)

    # -- the allocation's life ---------------------------------------------------------------------

    async def _run_to_end(self) -> None:
        if not self.local.finished:
            self._limit.begin(self.local.received_ns, self.context.group.max_run_duration_ns)
            try:
                await self._prepare()
            except (OrchgitError, OSError) as problem:
                self._fail_all(problem)
            await self._supervise()
            self.set_local(finished=True, finished_ns=self.clock.now_ns())
        self._limit.close()
        self.services.close()
        self._health.close()
        self._reported(self)
        self.ended.set()

    def _exceed_limit(self) -> None:
        """Its time is over: every task ends, and what would come after them is left out."""
        if self.local.finished or self._stop is not None:
            return
        because = _killing(self.clock.now_ns(), EXCEEDED)
        for task in self.context.group.tasks:
            if lifecycle.phase(task) is lifecycle.Phase.POSTSTOP:
                self.tasks[task.name].kill(because, with_delay=False)
        self.end_locally(EXCEEDED)

    async def _prepare(self) -> None:
        """Before the first task: the directories, the previous allocation's end, the volumes."""
        context = self.context
        fresh = all(runner.record.attempt == 0 for runner in self.tasks.values())
        if fresh and not context.alloc.is_terminal:
            for runner in self.tasks.values():
                runner.received()
            self._reported(self)
            old_paths = await self._wait_for_others()
            alloc_dir.create(context.paths)
            if old_paths is not None:
                await previous_alloc.take_over(context.group, old_paths, context.paths)
        if context.alloc.is_terminal or self.local.killed:
            why = self.local.killed or context.alloc.desired_description
            self.stop(_killing(self.clock.now_ns(), why))
        if self._stop is None:
            self._find_volumes()

    def _find_volumes(self) -> None:
        context = self.context
        try:
            context.volume_sources = volumes.find_sources(
                context.group, context.alloc, self._node.node()
            )
        except SetupError:
            if not self._any_running():
                raise
            # found again after a restart of the agent: what runs has its volumes mounted already

    async def _wait_for_others(self) -> AllocPaths | None:
        """Until the allocations that this one replaces have ended here, or it is to stop itself.

        Returns where the previous one's files are, if they are still on this node.
        """
        alloc = self.context.alloc
        others = [alloc.previous_allocation, *(alloc.preempted_allocations or ())]
        stop = asyncio.ensure_future(self._stop_asked.wait())
        waits = [asyncio.ensure_future(self._node.wait_ended(id_)) for id_ in others if id_]
        try:
            for wait in waits:
                await asyncio.wait({wait, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in (stop, *waits):
                if not future.done():
                    future.cancel()
        if self._stop is not None or not alloc.previous_allocation:
            return None
        return waits[0].result()

    def _fail_all(self, problem: OrchgitError | OSError) -> None:
        """The allocation cannot be set up: none of its tasks may start."""
        now_ns = self.clock.now_ns()
        because = task_state.event(
            Happened.KILLING, now_ns, str(problem), setup_error=str(problem), fails_task=True
        )
        for runner in self.tasks.values():
            runner.kill(because, with_delay=False)

    async def _supervise(self) -> None:
        """Until every task is dead: start what may start, end what must end."""
        self._start_group_services()
        self._health.begin()
        for name, runner in self.tasks.items():
            if runner.state.state != DEAD or runner.record.handle is not None:
                self._start_task(name)
        while not self._done():
            self._apply_rules()
            self._reported(self)
            await self._wake.wait()
            self._wake.clear()
            self._health.look()
        loops = list(self._task_loops.values())
        if loops and (await asyncio.wait(loops, timeout=_FINISH_S))[1]:
            self._reported(self)  # a full disk or an engine that is down delays what is left
        await asyncio.gather(*self._task_loops.values())

    def _done(self) -> bool:
        return all(runner.state.state == DEAD for runner in self.tasks.values())

    def _apply_rules(self) -> None:
        tasks, states = self.context.group.tasks, self.states
        if not self._held:
            for name in lifecycle.startable(tasks, states):
                self.tasks[name].open_gate()
        if self._killing is not None:
            return
        now_ns = self.clock.now_ns()
        if self._stop is not None:
            self._begin_kill(self._stop)
        elif end := lifecycle.group_end(tasks, states):
            self._begin_kill(_group_end_event(end, now_ns))

    def _begin_kill(self, because: TaskEvent) -> None:
        name = f"kill {self.id}"
        self._killing = spawn(until_done(lambda: self._kill_all(because), name, self.clock), name)

    async def _kill_all(self, because: TaskEvent) -> None:
        """Deregister, wait the group's shutdown delay, then end the tasks step by step."""
        self.services.stop("")
        group, transition = self.context.group, self.context.alloc.desired_transition
        with_delay = not transition.no_shutdown_delay
        if with_delay and group.shutdown_delay_ns and self._any_running():
            await self.clock.sleep(group.shutdown_delay_ns / NS_PER_S)
        for step in lifecycle.kill_order(group.tasks):
            for name in step:
                self.tasks[name].kill(because, with_delay)
            await asyncio.gather(
                *(self._task_loops[name] for name in step if name in self._task_loops)
            )
        self._drop_unstarted_poststop()

    def _drop_unstarted_poststop(self) -> None:
        """Poststop tasks run after tasks that ran; where none ever did they have nothing to do."""
        if any(state.started_at is not None for state in self.states.values()):
            return
        because = _killing(self.clock.now_ns(), "no task of the group was started")
        for runner in self.tasks.values():
            if runner.state.state == PENDING:
                runner.kill(because, with_delay=False)

    def _any_running(self) -> bool:
        return any(runner.handle is not None for runner in self.tasks.values())

    def _start_task(self, name: str) -> None:
        known = self._task_loops.get(name)
        if known is not None and not known.done():
            return
        label = f"task {self.id}/{name}"
        loop = spawn(until_done(self.tasks[name].run, label, self.clock), label)
        self._task_loops[name] = loop
        loop.add_done_callback(lambda _loop: self._changed())

    # -- services and changes ----------------------------------------------------------------------

    def _start_group_services(self) -> None:
        services = self.context.group.services or []
        if services and self._killing is None:
            interpolate = self._group_setup().environment().interpolate
            self.services.start("", services, interpolate, self._run_in_task)

    def _register_again(self) -> None:
        """What is registered has changed in place; anything else must not disturb the checks."""
        for runner in self.tasks.values():
            runner.update()
        self._start_group_services()

    def _group_setup(self) -> TaskSetup:
        """Group services are interpolated with the environment of the group's first task."""
        return self.tasks[self.context.group.tasks[0].name].setup()

    def _run_in_task(self, task_name: str) -> RunInTask:
        name = task_name or self.context.group.tasks[0].name
        return self.tasks[name].run_command

    def _check_restart(self, owner: str, check: ServiceCheck) -> None:
        """A check has failed too often: its task is restarted, by its restart policy."""
        name = owner or check.task_name
        because = task_state.event(
            Happened.RESTART_REQUESTED,
            self.clock.now_ns(),
            f'healthcheck: check "{check.name}" unhealthy',
        )
        for runner in [self.tasks[name]] if name in self.tasks else self.tasks.values():
            if runner.handle is not None:
                runner.restart(because, counts=True)

    def _changed(self) -> None:
        self._wake.set()


def _served(context: AllocContext) -> tuple[object, ...]:
    """All that service registrations and checks are made of."""
    status = context.alloc.deployment_status
    return (
        context.group.services,
        [task.services for task in context.group.tasks],
        context.alloc.allocated_resources,
        status is not None and status.canary,
    )


def _killing(now_ns: int, why: str) -> TaskEvent:
    return task_state.event(Happened.KILLING, now_ns, why or "Sent interrupt", kill_reason=why)


def _group_end_event(end: lifecycle.GroupEnd, now_ns: int) -> TaskEvent:
    if end.because is Happened.SIBLING_FAILED:
        return task_state.event(
            end.because, now_ns, f'Task "{end.task_name}" failed', failed_sibling=end.task_name
        )
    return task_state.event(end.because, now_ns, f"{end.because} in group")
