"""One allocation on this node: its directories, its tasks in their order, its health, its end.

The servers' copy of the allocation (`context.alloc`) and the node's own facts (task states, health)
are separate: `update` brings in what the servers want, `report` gives what became of it.
`_run` is the only loop; each wake-up applies the pure rules of `lifecycle` to the tasks' states as
they are then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import msgspec
import structlog

from agent.allocations.health_watch import HealthWatch
from agent.allocations.network import AllocNetwork
from agent.allocations.run_limit import EXCEEDED, RunLimit
from agent.allocations.wait_for_replaced import wait_for_replaced
from agent.context import AllocContext, NodeContext
from agent.hooks import alloc_dir, previous_alloc, volumes
from agent.hooks.base import SetupError
from agent.local_state.store import LocalAllocRecord, TaskRecord
from agent.loops import spawn, until_done
from agent.metrics.hook_times import measured
from agent.services.registrations import AllocServices
from agent.tasks import lifecycle, task_state
from agent.tasks.alloc_tasks import AllocTasks
from agent.tasks.commands import script_runner
from agent.tasks.end_events import group_end_event
from agent.tasks.task_state import DEAD, TaskEventType, kill_request
from orchgit.clock import Clock
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.allocation import Allocation, TaskEvent, TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.interpolation import Interpolator
from orchgit.model.job import Job
from orchgit.model.runtime_variables import service_interpolator
from orchgit.model.service import ServiceCheck
from orchgit.wait_first import wait_first
from orchgit.wire.messages import AllocReport

_log = structlog.get_logger(component="agent")

_FINISH_S = 0.5
"""How long the report of an allocation's end waits for its tasks to be forgotten."""


class AllocRunner:
    """`reported` is called (with this runner) whenever the report has changed."""

    def __init__(
        self,
        node: NodeContext,
        context: AllocContext,
        local: LocalAllocRecord,
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
        self._loop: asyncio.Task[None] | None = None
        self._held = False
        self._is_prepared = False
        self.ended = asyncio.Event()
        self.services = AllocServices(
            node.clock,
            node.node,
            context.alloc,
            node.services.authorities,
            self._wake.set,
            self._check_restart,
            node.services.changed,
            self._note_service,
        )
        if not local.finished:
            # Also of a group whose tasks had not started: its services come before them.
            alive = {name for name, record in tasks.items() if record.state.state != DEAD}
            self.services.resuming_owners = {"", *alive}
        self.tasks = AllocTasks(node, context, self.services, tasks, self._wake.set)
        self._network = AllocNetwork(
            node,
            context,
            self._interpolator,
            self._network_changed,
            lambda: self.tasks.all_between_attempts,
        )
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
        return self.tasks.states

    # -- what the agent asks for -------------------------------------------------------------------

    def start(self) -> None:
        name = f"alloc {self.id}"
        self._loop = spawn(until_done(self._run, name, self.clock), name)

    def hold(self) -> None:
        """Start nothing until `release`: the servers may have replaced the allocation while the
        agent was away. What runs already goes on."""
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._wake.set()

    async def close(self) -> None:
        """The agent stops: every loop ends, the tasks go on."""
        loops = [loop for loop in (self._loop, self._killing) if loop]
        for loop in loops:
            loop.cancel()
        loops += self.tasks.cancel()
        self._close_parts()
        await asyncio.gather(*loops, return_exceptions=True)

    def update(self, alloc: Allocation, job: Job) -> None:
        """Take what the servers want now. A stop ends the tasks, by the job that they were started
        with; the rest is changed in place. An allocation that the servers call ended is to end:
        they do not count on it any more."""
        before, served = self.context.alloc, _served(self.context)
        limit_ns = self.context.group.max_run_duration_ns
        self.context.alloc = self.services.alloc = alloc
        if not alloc.is_terminal:
            self.context.job = job
        if alloc.deployment_id != before.deployment_id:
            self.set_local(healthy=None, healthy_at_ns=0, health_from_ns=self.clock.now_ns())
        self._node.local.put_allocation(alloc, self.context.job, self.local)
        if alloc.is_terminal:
            self.stop(kill_request(self.clock.now_ns()))
        elif not self.local.finished:
            if _served(self.context) != served:  # anything else must not disturb the checks
                for runner in self.tasks.values():
                    runner.register_again()
                self._start_group_services()
            if self.context.group.max_run_duration_ns != limit_ns:
                self._limit.close()
                self._limit.begin(self.local.received_ns, self.context.group.max_run_duration_ns)
            self._health.begin()

    def stop(self, because: TaskEvent) -> None:
        """End every task for good."""
        if self._stop is None and not self.local.finished:
            self._stop = because
            self._stop_asked.set()
            self._wake.set()

    def end_locally(self, why: str) -> None:
        """The node itself ends it (it lost the servers for too long), and stores that."""
        self.set_local(killed=why)
        self.stop(kill_request(self.clock.now_ns(), why))

    def restart(self, task_name: str = "", all_tasks: bool = False) -> None:
        """Restart one task, those that run, or all (those that have ended too)."""
        self.tasks.check_known(task_name)
        if self.local.finished or self._stop is not None:
            raise DriverError("restart of an alloc that should not run")
        self.tasks.restart(task_name, all_tasks)

    async def signal(self, signal: str, task_name: str = "") -> None:
        """Signal one task, or all that run."""
        if task_name and task_name not in self.tasks:
            raise DriverError("Task not found")
        await self.tasks.signal(signal, task_name)

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
            network_status=self._network.status,
            driver_addresses=self.tasks.driver_addresses,
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

    def tell_unhealthy(self, messages: Mapping[str, str]) -> None:
        """Add an event to each named task that says why the allocation is unhealthy."""
        for name, message in messages.items():
            self.tasks[name].happened(TaskEventType.UNHEALTHY, message, {"message": message})

    # -- the allocation's life ---------------------------------------------------------------------

    async def _run(self) -> None:
        """Prepare, supervise the tasks until all are dead, and report the end."""
        if not self.local.finished:
            self._limit.begin(self.local.received_ns, self.context.group.max_run_duration_ns)
            try:
                await self._prepare()
                self._is_prepared = True
            except (OrchgitError, OSError) as error:
                self._fail_all(error)
            await self._supervise()
            await self._node.csi.release(self.context.alloc, self.context.group)
            await self._network.remove()
            if self._node.task_api is not None:
                await self._node.task_api.end(self.id)
            self.set_local(finished=True, finished_ns=self.clock.now_ns())
            _log.info("allocation ended", alloc=self.id, status=self.report().client_status)
        self._close_parts()
        self._reported(self)
        self.ended.set()

    async def _prepare(self) -> None:
        """Before the first task: the directories, the previous allocation's end, the volumes."""
        context = self.context
        is_new = all(runner.record.attempt == 0 for runner in self.tasks.values())
        if is_new and not context.alloc.is_terminal:
            self.tasks.note(TaskEventType.RECEIVED, "Task received by client")
            self._reported(self)
            old_paths = await wait_for_replaced(
                context.alloc, self._node.wait_ended, self._stop_asked
            )
            with self._measured("alloc_dir"):
                alloc_dir.create(context.paths)
            if old_paths is not None:
                with self._measured("previous_alloc"):
                    await previous_alloc.take_over(context.group, old_paths, context.paths)
            elif context.alloc.previous_allocation and context.group.ephemeral_disk.migrate:
                with self._measured("previous_alloc"):
                    await self._take_over_remote_data()
        if context.alloc.is_terminal or self.local.killed:
            self.stop(kill_request(self.clock.now_ns(), self.local.killed))
        if self._stop is None:
            try:
                with self._measured("volumes"):
                    context.volume_sources = volumes.find_sources(
                        context.group, context.alloc, self._node.node()
                    )
                    context.volume_sources |= await self._node.csi.publish(
                        context.alloc, context.group, self.tasks.any_runs
                    )
            except SetupError:  # tasks that survived the agent have their volumes mounted already
                if not self.tasks.any_runs:
                    raise
            with self._measured("network"):
                await self._set_up_network()

    def _measured(self, hook: str) -> AbstractContextManager[None]:
        return measured(self._node.hook_times.of_allocs, hook, self.clock)

    async def _set_up_network(self) -> None:
        """Also where tasks have survived the agent: the network of one that starts again, and the
        addresses of services, follow from it. A stop ends the wait."""
        async with wait_first(self._network.set_up(), self._stop_asked.wait()) as (set_up, _):
            if not set_up.done():
                return
            try:
                await set_up
            except DriverError as error:
                if not self.tasks.any_runs:
                    raise
                _log.warning("cannot find the network again", alloc=self.id, error=str(error))

    async def _take_over_remote_data(self) -> None:
        """A stop ends the waiting: the previous allocation may run for long."""
        context = self.context
        moving = self._node.take_over(context.alloc, context.group, context.paths)
        async with wait_first(moving, self._stop_asked.wait()) as (moved, _):
            if moved.done():
                self.tasks.note(TaskEventType.SETUP, moved.result())

    def _fail_all(self, error: OrchgitError | OSError) -> None:
        """The allocation cannot be set up: none of its tasks may start."""
        self.tasks.kill(
            task_state.event(
                TaskEventType.SETUP_FAILURE,
                self.clock.now_ns(),
                f"failed to setup alloc: {error}",
                fails_task=True,
            )
        )

    async def _supervise(self) -> None:
        """Until every task is dead: start what may start, end what must end."""
        self._start_group_services()
        self._health.begin()
        self.tasks.start()
        while not self.tasks.all_dead:
            self._apply_rules()
            self._reported(self)
            await self._wake.wait()
            self._wake.clear()
            self._health.look()
        if not await self.tasks.wait(_FINISH_S):
            self._reported(self)  # a full disk or an engine that is down delays what is left
            await self.tasks.wait()
        self._health.end()

    def _apply_rules(self) -> None:
        tasks, states = self.context.group.tasks, self.states
        if not self._held:
            self.tasks.allow_start(lifecycle.startable(tasks, states))
        if self._killing is not None:
            return
        because = self._stop
        if because is None and (end := lifecycle.group_end(tasks, states)):
            because = group_end_event(end, self.clock.now_ns())
        if because is not None:
            name, kill = f"kill {self.id}", because
            work = until_done(lambda: self._kill_all(kill), name, self.clock)
            self._killing = spawn(work, name)

    async def _kill_all(self, because: TaskEvent) -> None:
        """Deregister, wait the group's shutdown delay, then end the tasks in their order."""
        self.services.stop("")
        group, transition = self.context.group, self.context.alloc.desired_transition
        with_delay = not transition.no_shutdown_delay
        if with_delay and group.shutdown_delay_ns and self.tasks.any_runs:
            await self.clock.sleep(group.shutdown_delay_ns / NS_PER_S)
        await self.tasks.kill_in_order(because, with_delay)

    def _exceed_limit(self) -> None:
        """Its time is over: every task ends, and poststop tasks are left out."""
        if self.local.finished or self._stop is not None:
            return
        because = kill_request(self.clock.now_ns(), EXCEEDED)
        for task in self.context.group.tasks:
            if lifecycle.phase(task) is lifecycle.Phase.POSTSTOP:
                self.tasks[task.name].kill(because, with_delay=False)
        self.end_locally(EXCEEDED)

    def _close_parts(self) -> None:
        self._limit.close()
        self._health.close()
        self.services.close()

    # -- services of the group ---------------------------------------------------------------------

    def _start_group_services(self) -> None:
        """Register the services of the group, in place of those before; they know nothing of its
        tasks. Their addresses are known once the network is set up."""
        if self._is_prepared and self._killing is None:
            first = self.context.group.tasks[0].name
            self.services.start(
                "",
                self.context.group.services or [],
                self._interpolator(),
                lambda task_name: script_runner(self.tasks[task_name or first]),
            )

    def _interpolator(self) -> Interpolator:
        """What texts of the group may refer to."""
        context = self.context
        return service_interpolator(
            context.job,
            context.group,
            None,
            context.alloc,
            self._node.node(),
            {"NOMAD_ALLOC_DIR": str(context.paths.root)},
        )

    def _network_changed(self) -> None:
        """The addresses of services follow those of the network."""
        self.services.network = self._network.status
        for runner in self.tasks.values():
            runner.register_again()
        if "" in self.services.started_owners:
            self._start_group_services()
        self._reported(self)

    def _note_service(self, owner: str, text: str) -> None:
        """An event of the task whose service it is, or of every task of the group."""
        _log.warning("service is not registered", alloc=self.id, reason=text)
        for name in [owner] if owner else self.tasks:
            self.tasks[name].happened(TaskEventType.HOOK_MESSAGE, text)

    def _check_restart(self, owner: str, check: ServiceCheck) -> None:
        """A check has failed too often: its task is restarted, by its restart policy."""
        name = owner or check.task_name
        why = f'healthcheck: check "{check.name}" unhealthy'
        for each in [name] if name in self.tasks else self.tasks:
            self.restart_failed(each, why)

    def restart_failed(self, task_name: str, why: str) -> None:
        """A running task does not do what it is for: it is restarted, by its restart policy."""
        runner = self.tasks.get(task_name)
        if runner is not None and runner.handle is not None:
            now_ns = self.clock.now_ns()
            runner.restart(
                task_state.event(TaskEventType.RESTART_REQUESTED, now_ns, why, restart_reason=why),
                counts=True,
            )


def _served(context: AllocContext) -> tuple[object, ...]:
    """All that service registrations and checks are made of."""
    status = context.alloc.deployment_status
    return (
        context.group.services,
        [task.services for task in context.group.tasks],
        context.alloc.allocated_resources,
        status is not None and status.canary,
    )
