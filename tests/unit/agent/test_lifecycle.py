"""The order of a group's tasks, and what an allocation is by its tasks."""

from __future__ import annotations

import pytest

from agent.tasks.lifecycle import (
    client_status,
    group_end,
    kill_order,
    restarts_on_success,
    startable,
)
from agent.tasks.task_state import TaskEventType
from orchgit.model.allocation import TaskState
from orchgit.model.task import Task, TaskLifecycle

INIT = Task(name="init", lifecycle=TaskLifecycle(hook="prestart"))
SIDE = Task(name="side", lifecycle=TaskLifecycle(hook="prestart", sidecar=True))
MAIN = Task(name="main")
BOSS = Task(name="boss", leader=True)
AFTER = Task(name="after", lifecycle=TaskLifecycle(hook="poststart"))
LAST = Task(name="last", lifecycle=TaskLifecycle(hook="poststop"))

WAITS, RUNS = TaskState(), TaskState(state="running")
DONE, FAILED = TaskState(state="dead"), TaskState(state="dead", failed=True)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param({}, {"init", "side"}, id="first"),
        pytest.param({"side": RUNS}, {"init", "side"}, id="init-not-done"),
        pytest.param({"init": DONE}, {"init", "side"}, id="sidecar-not-running"),
        pytest.param({"init": DONE, "side": RUNS}, {"init", "side", "main"}, id="main"),
        pytest.param({"init": FAILED, "side": RUNS}, {"init", "side"}, id="init-failed"),
        pytest.param(
            {"init": DONE, "side": RUNS, "main": RUNS},
            {"init", "side", "main", "after"},
            id="poststart",
        ),
        pytest.param({"init": DONE, "side": RUNS, "main": DONE}, {"last"}, id="poststop"),
    ],
)
def test_tasks_that_may_start_follow_the_lifecycle(
    states: dict[str, TaskState], expected: set[str]
) -> None:
    tasks = [INIT, SIDE, MAIN, AFTER, LAST]
    assert startable(tasks, {**{task.name: WAITS for task in tasks}, **states}) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param({"main": RUNS, "boss": RUNS}, None, id="all-run"),
        pytest.param({"main": FAILED, "boss": RUNS}, TaskEventType.SIBLING_FAILED, id="failure"),
        pytest.param({"main": RUNS, "boss": DONE}, TaskEventType.LEADER_DEAD, id="leader"),
        pytest.param({"main": DONE, "boss": RUNS}, None, id="one-done"),
    ],
)
def test_failed_task_leader_or_last_main_task_ends_the_group(
    states: dict[str, TaskState], expected: TaskEventType | None
) -> None:
    end = group_end([MAIN, BOSS, SIDE], {"side": RUNS, **states})
    assert (end.because if end else None) == expected


def test_sidecars_end_after_the_last_main_task() -> None:
    end = group_end([MAIN, SIDE], {"main": DONE, "side": RUNS})
    assert end is not None
    assert end.because is TaskEventType.MAIN_DEAD


def test_kill_order_is_leader_others_sidecars() -> None:
    assert kill_order([SIDE, MAIN, BOSS, LAST, AFTER]) == [["boss"], ["main", "after"], ["side"]]


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([WAITS, WAITS], "pending"),
        ([WAITS, DONE], "pending"),
        ([RUNS, WAITS, DONE], "running"),
        ([RUNS, FAILED], "failed"),
        ([DONE, DONE], "complete"),
    ],
)
def test_client_status_follows_the_task_states(states: list[TaskState], status: str) -> None:
    assert client_status(states)[0] == status


@pytest.mark.parametrize(
    ("task", "job_type", "again"),
    [
        (MAIN, "service", True),
        (MAIN, "system", True),
        (MAIN, "batch", False),
        (MAIN, "sysbatch", False),
        (INIT, "service", False),
        (SIDE, "batch", True),
    ],
)
def test_services_and_sidecars_restart_after_success(
    task: Task, job_type: str, again: bool
) -> None:
    assert restarts_on_success(task, job_type) is again
