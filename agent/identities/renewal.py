"""Renews the tokens of a running task before they expire, and does what `change_mode` says."""

from __future__ import annotations

from typing import Protocol

import structlog

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


async def keep_current(task: RunningTask) -> None:
    """Has each of the running task's tokens that expire signed anew when half of its time is over.

    A token that an agent before this one got is left alone until then. A new one is left alone for
    a quarter of its time, even where the node's clock says that it has ended.
    """
    rests_until_ns: dict[str, int] = {}
    while True:
        setup = task.setup()
        now_ns = setup.clock.now_ns()
        due_ns: dict[str, int] = {}
        for each in identities_of(setup.task):
            at_ns = setup.identities.due_ns(each.name) if each.env or each.file else None
            if each.ttl_ns and at_ns is not None:
                due_ns[each.name] = max(at_ns, rests_until_ns.get(each.name, 0))
        if not due_ns:
            return
        first_ns = min(due_ns.values())
        if first_ns > now_ns:
            await setup.clock.sleep((first_ns - now_ns) / SECOND_NS)
            continue
        is_due = {name for name, at_ns in due_ns.items() if at_ns <= now_ns}
        ending = [each for each in identities_of(setup.task) if each.name in is_due]
        try:
            await place(setup, ending)
        except SetupError as error:
            _log.warning(
                "cannot renew the identities of a task; trying again",
                alloc=setup.alloc.id,
                task=setup.task.name,
                error=str(error),
            )
            shortest_s = min(each.ttl_ns for each in ending) / 2 / SECOND_NS
            await setup.clock.sleep(min(shortest_s, _RETRY_S))
            continue
        now_ns = setup.clock.now_ns()
        rests_until_ns |= {each.name: now_ns + each.ttl_ns // 4 for each in ending}
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
