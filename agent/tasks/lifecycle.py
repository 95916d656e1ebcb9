"""The order of a group's tasks: which may start, which must end, what the allocation is.

Pure: tasks and their states -> decisions. Prestart tasks come first (those that are not sidecars
must have ended well, sidecars must run), then the main tasks, then poststart when every main task
has started, and poststop when all main tasks have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent.tasks.task_state import DEAD, PENDING, RUNNING, TaskEventType
from orchgit.model.allocation import ClientStatus, TaskState
from orchgit.model.job import JobType
from orchgit.model.task import Task

States = Mapping[str, TaskState]


class Phase(StrEnum):
    PRESTART = "prestart"
    MAIN = "main"
    POSTSTART = "poststart"
    POSTSTOP = "poststop"


def phase(task: Task) -> Phase:
    return Phase(task.lifecycle.hook) if task.lifecycle and task.lifecycle.hook else Phase.MAIN


def is_sidecar(task: Task) -> bool:
    return bool(task.lifecycle and task.lifecycle.sidecar)


def restarts_on_success(task: Task, job_type: str) -> bool:
    """Services and sidecars that end are started again even when they ended well."""
    if phase(task) is not Phase.MAIN:
        return is_sidecar(task)
    return job_type in (JobType.SERVICE, JobType.SYSTEM)


def startable(tasks: Iterable[Task], states: States) -> set[str]:
    """Returns the names of the tasks that may run now, those that already run included."""
    tasks = list(tasks)
    allowed = {Phase.PRESTART}
    prestart = [(task, states[task.name]) for task in _of(tasks, Phase.PRESTART)]
    if all(
        state.state == RUNNING if is_sidecar(task) else state.is_successful
        for task, state in prestart
    ):
        allowed.add(Phase.MAIN)
        main = _of(tasks, Phase.MAIN)
        if all(states[task.name].state != PENDING for task in main):
            allowed.add(Phase.POSTSTART)
    if main_tasks_ended(tasks, states):
        allowed = {Phase.POSTSTOP}
    return {task.name for task in tasks if phase(task) in allowed}


def _of(tasks: Iterable[Task], wanted: Phase) -> list[Task]:
    return [task for task in tasks if phase(task) is wanted]


def main_tasks_ended(tasks: Iterable[Task], states: States) -> bool:
    """All main tasks are dead; only poststop is left."""
    return all(states[task.name].state == DEAD for task in _of(tasks, Phase.MAIN))


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """Why every task that is left (but poststop) must end now."""

    because: TaskEventType
    task_name: str


def group_end(tasks: Iterable[Task], states: States) -> GroupEnd | None:
    """Whether one task's end ends the others: a failure, the leader, or the last main task."""
    tasks = [task for task in tasks if phase(task) is not Phase.POSTSTOP]
    for task in tasks:
        state = states[task.name]
        if state.state == DEAD and state.failed:
            return GroupEnd(TaskEventType.SIBLING_FAILED, task.name)
        if state.state == DEAD and task.leader:
            return GroupEnd(TaskEventType.LEADER_DEAD, task.name)
    if main_tasks_ended(tasks, states) and any(is_sidecar(task) for task in tasks):
        return GroupEnd(TaskEventType.MAIN_DEAD, "")
    return None


def kill_order(tasks: Iterable[Task]) -> list[list[str]]:
    """Steps in which tasks are killed, each awaited: the leader, the others, the sidecars."""
    live = [task for task in tasks if phase(task) is not Phase.POSTSTOP]
    leaders = [task.name for task in live if task.leader]
    sidecars = [task.name for task in live if is_sidecar(task) and not task.leader]
    others = [task.name for task in live if task.name not in {*leaders, *sidecars}]
    return [step for step in (leaders, others, sidecars) if step]


def client_status(states: Iterable[TaskState]) -> tuple[str, str]:
    """The allocation's client status and its description, from its tasks' states."""
    states = list(states)
    if any(state.state == DEAD and state.failed for state in states):
        return ClientStatus.FAILED, "Failed tasks"
    if any(state.state == RUNNING for state in states):
        return ClientStatus.RUNNING, "Tasks are running"
    if any(state.state == PENDING for state in states):
        return ClientStatus.PENDING, "No tasks have started"
    return ClientStatus.COMPLETE, "All tasks have completed"
