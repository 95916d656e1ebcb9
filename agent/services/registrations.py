"""Services of the node's allocations: their addresses, and whether their checks pass.

Registrations are local facts, read by the agent's HTTP routes; nothing here talks to a server.
Each allocation has one `AllocServices`; a group's services have the owner "", a task's its name.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import structlog

from agent.loops import spawn, until_done
from agent.services import check_state
from agent.services.check_state import CheckState, CheckStatus
from agent.services.probes import RunInTask, Target, probe
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.model.allocation import Allocation, DriverAddress, NetworkStatus
from orchgit.model.base import NS_PER_S
from orchgit.model.interpolation import Interpolator
from orchgit.model.node import Node
from orchgit.model.service import Service, ServiceCheck
from orchgit.model.service_addresses import AUTO, NO_ADDRESS, Whereabouts
from orchgit.model.service_names import interpolated_service, registered_tags
from orchgit.wire.machine_authorities import MachineAuthorities

_log = structlog.get_logger(component="agent")

_FIRST_RETRY_S = 0.05
_MIN_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Registration:
    """One instance of a service."""

    id: str
    service_name: str
    namespace: str
    node_id: str
    datacenter: str
    job_id: str
    alloc_id: str
    tags: list[str]
    address: str
    port: int


@dataclass
class RunningCheck:
    id: str
    service: Service
    check: ServiceCheck
    owner: str
    state: CheckState
    target: Target
    started_ns: int = 0
    """When what is checked started last: the grace of `check_restart` counts from then."""
    loop: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class ProvidedService:
    """A registered service with what its job says of it."""

    registration: Registration
    service: Service
    owner: str
    group: str
    is_canary: bool
    checks: list[RunningCheck]


@dataclass
class ServiceTable:
    """Every allocation's services on this node. `listeners` are called after each change."""

    by_alloc: dict[str, AllocServices] = field(default_factory=dict)
    listeners: list[Callable[[], None]] = field(default_factory=list)
    authorities: MachineAuthorities = field(default_factory=MachineAuthorities)

    def changed(self) -> None:
        for listener in self.listeners:
            listener()

    def registrations(self) -> Iterator[Registration]:
        for services in self.by_alloc.values():
            yield from (provided.registration for provided in services.provided.values())


class AllocServices:
    """One allocation's services. `on_change` is called when a check's status changes;
    `on_unhealthy(owner, check)` when check_restart wants a restart; `announce` after each change of
    what is registered, and when a check's status changes; `warn(owner, text)` once for each service
    that has no address."""

    def __init__(
        self,
        clock: Clock,
        node: Callable[[], Node],
        alloc: Allocation,
        authorities: MachineAuthorities,
        on_change: Callable[[], None],
        on_unhealthy: Callable[[str, ServiceCheck], None],
        announce: Callable[[], None] = lambda: None,
        warn: Callable[[str, str], None] = lambda _owner, _text: None,
    ) -> None:
        self._clock = clock
        self._node = node
        self.alloc = alloc
        self._authorities = authorities
        self.network: NetworkStatus | None = None
        """The network of the group, once it is there."""
        self.driver_addresses: dict[str, DriverAddress | None] = {}
        """The addresses that drivers gave to running tasks, by task."""
        self._on_change = on_change
        self._on_unhealthy = on_unhealthy
        self._announce = announce
        self._warn = warn
        self._warned: set[tuple[str, str]] = set()
        self.started_owners: set[str] = set()
        """Whose services were started and not stopped, also where none of them has an address."""
        self.resuming_owners: set[str] = set()
        """Whose services an agent before this one registered, and this one has neither started nor
        stopped yet: they stay registered elsewhere."""
        self.provided: dict[str, ProvidedService] = {}
        self.checks: dict[str, RunningCheck] = {}

    def start(
        self,
        owner: str,
        services: list[Service],
        interpolate: Interpolator,
        run_in_task: Callable[[str], RunInTask],
    ) -> None:
        """Register the owner's services and begin their checks.

        A service whose address mode gives no address is not registered; its checks fail.
        """
        self.stop(owner)
        self.started_owners.add(owner)
        for service in services:
            service = interpolated_service(service, interpolate)
            driver = self.driver_addresses.get(owner)
            places = Whereabouts(self.alloc, self._node(), self.network, driver)
            checks = []
            for check in service.checks or ():
                run = run_in_task(check.task_name or service.task_name or owner)
                target = Target(*places.of_check(service, check), run)
                checks.append(self._begin(owner, service, check, target))
            status = self.alloc.deployment_status
            place = places.of_service(service)
            if not place[0]:
                if (owner, service.name) not in self._warned:
                    self._warned.add((owner, service.name))
                    why = NO_ADDRESS[service.address_mode or AUTO]
                    self._warn(owner, f'cannot register service "{service.name}": {why}')
                continue
            registration = self._registration(owner, service, place)
            self.provided[registration.id] = ProvidedService(
                registration,
                service,
                owner,
                self.alloc.task_group,
                status is not None and status.canary,
                checks,
            )
        if services:
            self._announce()

    def task_started(self, task_name: str) -> None:
        """The grace of checks of the group's services begins anew with each start of their task, or
        of any task where they name none."""
        for running in self.checks.values():
            named = running.check.task_name or running.service.task_name
            if not running.owner and named in ("", task_name):
                running.started_ns = self._clock.now_ns()
                running.state = replace(running.state, restart_failures=0)

    def stop(self, owner: str) -> None:
        """Deregister the owner's services and end their checks."""
        before = len(self.provided), len(self.resuming_owners)
        self.started_owners.discard(owner)
        self.resuming_owners.discard(owner)
        self.provided = {id_: each for id_, each in self.provided.items() if each.owner != owner}
        if (len(self.provided), len(self.resuming_owners)) != before:
            self._announce()
        for id_, running in list(self.checks.items()):
            if running.owner == owner:
                if running.loop is not None:
                    running.loop.cancel()
                del self.checks[id_]

    def close(self) -> None:
        owners = {running.owner for running in self.checks.values()} | self.started_owners
        for owner in owners | self.resuming_owners:
            self.stop(owner)
        self._announce()

    @property
    def passing_since_ns(self) -> int | None:
        """Since when every check that counts passes; None while one does not; 0 without checks."""
        latest_ns = 0
        for running in self.checks.values():
            if not check_state.counts_for_health(running.check):
                continue
            if running.state.passing_since_ns is None:
                return None
            latest_ns = max(latest_ns, running.state.passing_since_ns)
        return latest_ns

    # -- registering -------------------------------------------------------------------------------

    def _registration(self, owner: str, service: Service, place: tuple[str, int]) -> Registration:
        node = self._node()
        mark = f"task-{owner}" if owner else "group"
        return Registration(
            id=f"_nomad-{mark}-{self.alloc.id}-{service.name}-{service.port_label}",
            service_name=service.name,
            namespace=self.alloc.namespace,
            node_id=node.id,
            datacenter=node.datacenter,
            job_id=self.alloc.job_id,
            alloc_id=self.alloc.id,
            tags=registered_tags(service, self.alloc),
            address=place[0],
            port=place[1],
        )

    # -- checking ----------------------------------------------------------------------------------

    def _begin(
        self, owner: str, service: Service, check: ServiceCheck, target: Target
    ) -> RunningCheck:
        name = (
            f"{self.alloc.id}/{owner}/{service.name}/{check.name}/{check.type}/{check.port_label}"
        )
        id_ = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        state = check_state.initial(check, self._clock.now_ns())
        running = RunningCheck(id_, service, check, owner, state, target, self._clock.now_ns())
        self.checks[id_] = running
        work = until_done(lambda: self._loop(running, target), f"check {name}", self._clock)
        running.loop = spawn(work, f"check {name}")
        return running

    async def _loop(self, running: RunningCheck, target: Target) -> None:
        """Run the check each interval. Until it first passes (a program that starts) it is run
        more often, and only failures at the job's own interval count."""
        interval_s = max(_MIN_INTERVAL_S, running.check.interval_ns / NS_PER_S)
        failures, due_ns = 0, self._clock.now_ns()
        while True:
            result = await probe(running.check, target, self._authorities)
            now_ns = self._clock.now_ns()
            if result.ok or now_ns >= due_ns + round(interval_s * NS_PER_S):
                due_ns = now_ns
                self._take(running, result)
            if running.state.status is CheckStatus.PENDING and not result.ok:
                await self._clock.sleep(backoff_s(failures, _FIRST_RETRY_S, interval_s))
                failures += 1
            else:
                await self._clock.sleep(interval_s)

    def _take(self, running: RunningCheck, result: check_state.ProbeResult) -> None:
        now_ns = self._clock.now_ns()
        before = running.state.status
        state = check_state.after(running.check, running.state, result, now_ns)
        running.state, restart = check_state.count_for_restart(
            running.check, state, result, running.started_ns, now_ns
        )
        if running.state.status is not before:
            log = _log.warning if running.state.status is CheckStatus.FAILURE else _log.info
            log(
                "check changed its status",
                alloc=self.alloc.id,
                check=running.check.name,
                was=before.value,
                now=running.state.status.value,
            )
            self._on_change()
            self._announce()
        if restart:
            self._on_unhealthy(running.owner, running.check)
