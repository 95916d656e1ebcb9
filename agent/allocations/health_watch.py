"""Watches one allocation until the pure rules of `health` call it healthy or not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from agent.allocations.health_rules import (
    HealthRules,
    HealthView,
    judge,
    rules_of,
    unhealthy_messages,
)
from agent.context import AllocContext
from agent.local_state.store import LocalAllocRecord
from agent.loops import spawn
from agent.services.registrations import AllocServices
from agent.tasks.task_state import DEAD
from orchgit.clock import Clock
from orchgit.model.allocation import TaskState
from orchgit.model.base import NS_PER_S
from orchgit.model.group import MigrateStrategy, UpdateStrategy
from orchgit.model.job import JobType


class Watched(Protocol):
    """What the watch needs of the allocation's runner."""

    context: AllocContext
    local: LocalAllocRecord
    services: AllocServices

    @property
    def states(self) -> dict[str, TaskState]: ...

    def set_health(self, healthy: bool, reason: str) -> None: ...

    def tell_unhealthy(self, messages: Mapping[str, str]) -> None: ...


class HealthWatch:
    """`begin` it (again, when the deployment changes); `look` after every change."""

    def __init__(self, watched: Watched, clock: Clock) -> None:
        self._watched = watched
        self._clock = clock
        self._rules: HealthRules | None = None
        self._untold: HealthRules | None = None
        """Set while the tasks of an unhealthy allocation are to be told why."""
        self._timer: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Only allocations of a deployment, or services (for their migration), are judged."""
        context, local = self._watched.context, self._watched.local
        status = context.alloc.deployment_status
        if status is not None and status.healthy is not None and local.healthy is None:
            return  # a person has decided, or this node before it lost its state
        strategy: UpdateStrategy | MigrateStrategy | None = None
        if context.alloc.deployment_id:
            strategy = context.group.update
        if strategy is None and context.job.type == JobType.SERVICE:
            strategy = context.group.migrate or MigrateStrategy()
        if strategy is None or local.healthy is not None:
            return
        self._rules = rules_of(strategy, local.health_from_ns or local.received_ns)
        self.look()

    def look(self) -> None:
        """Judge now, and set the timer for the next moment at which time alone decides."""
        self._tell()
        if self._rules is None:
            return
        self._cancel_timer()
        watched, now_ns = self._watched, self._clock.now_ns()
        view = HealthView(watched.states, watched.services.passing_since_ns)
        verdict = judge(self._rules, watched.context.group.tasks, view, now_ns)
        if verdict.healthy is not None:
            self._untold = None if verdict.healthy else self._rules
            self._rules = None
            watched.set_health(verdict.healthy, verdict.reason)
            self._tell()
        elif verdict.look_again_ns:
            delay_s = max(0.0, (verdict.look_again_ns - now_ns) / NS_PER_S)
            self._timer = spawn(self._look_after(delay_s), "health timer")

    def end(self) -> None:
        """The allocation has ended: what was never found healthy is unhealthy."""
        if self._rules is not None:
            self._watched.set_health(False, "it ended before it was healthy")
        self._tell()
        self.close()

    def _tell(self) -> None:
        """Tell the tasks why the allocation is unhealthy. The failure of one ends the others: they
        are told when all have ended."""
        rules, states = self._untold, self._watched.states
        fails = any(state.state == DEAD and state.failed for state in states.values())
        if rules is None or (fails and any(state.state != DEAD for state in states.values())):
            return
        self._untold = None
        tasks = self._watched.context.group.tasks
        self._watched.tell_unhealthy(unhealthy_messages(rules, tasks, states))

    def close(self) -> None:
        self._rules = self._untold = None
        self._cancel_timer()

    async def _look_after(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        self._timer = None
        self.look()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
