"""Renews the tokens of a running task before they expire, and does what `change_mode` says."""

from __future__ import annotations

from typing import Protocol

import structlog

from agent.hooks import task_api
from agent.hooks.base import SetupError, TaskSetup
from agent.identities.placement import place
from agent.tasks import task_state
from agent.tasks.task_state import TaskEventType
from orchgit.clock import SECOND_NS
from orchgit.errors import OrchgitError
from orchgit.model.allocation import TaskEvent
from orchgit.model.workload_identity import identities_of

_log = structlog.get_logger(component="agent")
_RETRY_S = 15.0


class RunningTask(Protocol):
    """What is done with a task whose tokens were renewed: see `TaskRunner`."""

    def setup(self) -> TaskSetup: ...

    def restart(self, because: TaskEvent) -> None: ...

    async def signal(self, signal: str, reason: str) -> None: ...


async def accompany(task: RunningTask, resumed: bool) -> None:
    """Keeps what the running task has of its identities good. `resumed`: another agent began it."""
    if resumed:
        await task_api.prepare(task.setup())
    await keep_current(task, resumed)


async def keep_current(task: RunningTask, at_once: bool) -> None:
    """Has the running task's tokens that expire signed anew when half of their time is over.

    `at_once`: the age of the tokens is not known, as after a restart of the agent.
    """
    while True:
        setup = task.setup()
        ending = [
            each for each in identities_of(setup.task) if each.ttl_ns and (each.env or each.file)
        ]
        if not ending:
            return
        wait_s = min(each.ttl_ns for each in ending) / 2 / SECOND_NS
        await setup.clock.sleep(0 if at_once else wait_s)
        at_once = False
        try:
            await place(task.setup(), ending)
        except SetupError as error:
            _log.warning(
                "cannot renew the identities of a task; trying again",
                alloc=setup.alloc.id,
                task=setup.task.name,
                error=str(error),
            )
            await setup.clock.sleep(min(wait_s, _RETRY_S))
            at_once = True
            continue
        for identity in ending:
            reason = f"Identity[{identity.name}] was renewed"
            if identity.change_mode == "restart":
                type_, now_ns = TaskEventType.RESTART_REQUESTED, setup.clock.now_ns()
                task.restart(task_state.event(type_, now_ns, reason))
            elif identity.change_mode == "signal":
                try:
                    await task.signal(identity.change_signal, reason)
                except OrchgitError as error:
                    _log.warning("cannot tell a task of its new identity", error=str(error))
