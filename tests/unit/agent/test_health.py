"""Deployment health: pure rules, driven through time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.allocations.health_rules import (
    HealthDecision,
    HealthRules,
    HealthView,
    judge,
    rules_of,
    unhealthy_messages,
)
from agent.tasks.task_state import TaskEventType, apply, event
from orchgit.model.allocation import TaskState
from orchgit.model.group import UpdateStrategy
from orchgit.model.task import Task, TaskLifecycle

S = 10**9
MIN_S, DEADLINE_S = 10, 60
TASKS = [Task(name="web"), Task(name="init", lifecycle=TaskLifecycle(hook="prestart"))]


def rules(health_check: str = "checks") -> HealthRules:
    strategy = UpdateStrategy(
        health_check=health_check,
        min_healthy_time_ns=MIN_S * S,
        healthy_deadline_ns=DEADLINE_S * S,
    )
    return rules_of(strategy, started_ns=0)


def task(*happened: tuple[TaskEventType, int], fails: bool = False) -> TaskState:
    state = TaskState()
    for each, at_s in happened:
        state = apply(state, event(each, at_s * S, fails_task=fails))
    return state


DONE = task((TaskEventType.STARTED, 1), (TaskEventType.NOT_RESTARTING, 2))
RUNS = task((TaskEventType.STARTED, 3))


def at(now_s: int, web: TaskState = RUNS, init: TaskState = DONE, **view: object) -> HealthDecision:
    states = {"web": web, "init": init}
    return judge(rules(), TASKS, HealthView(states, **view), now_s * S)  # type: ignore[arg-type]


def test_healthy_after_the_whole_time_without_a_break() -> None:
    assert at(12) == HealthDecision(None, look_again_ns=13 * S)
    assert at(13) == HealthDecision(True)


def test_failed_task_is_unhealthy_at_once() -> None:
    dead = task((TaskEventType.STARTED, 1), (TaskEventType.NOT_RESTARTING, 2), fails=True)
    assert at(3, web=dead).healthy is False


def test_allocation_not_healthy_by_its_deadline_is_unhealthy() -> None:
    assert at(59, web=TaskState()) == HealthDecision(None, look_again_ns=60 * S)
    late = at(60, web=TaskState())
    assert (late.healthy, late.reason) == (False, "Task not running by healthy_deadline: web")


def test_checks_must_pass_as_long() -> None:
    assert at(30, checks_passing_since_ns=None).healthy is None
    assert at(30, checks_passing_since_ns=25 * S) == HealthDecision(None, look_again_ns=35 * S)
    assert at(35, checks_passing_since_ns=25 * S).healthy is True
    assert at(60, checks_passing_since_ns=None).reason.startswith("Checks not passing")


def test_task_states_ignores_checks_and_manual_decides_nothing() -> None:
    view = HealthView({"web": RUNS, "init": DONE}, None)
    assert judge(rules("task_states"), TASKS, view, 13 * S).healthy is True
    assert judge(rules("manual"), TASKS, view, 1000 * S) == HealthDecision(None)


class Life(RuleBasedStateMachine):
    """A task that starts, ends and restarts, and a check that comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0
        self.web = TaskState()
        self.check_since_s: int | None = None
        self.good_s = 0
        self.verdict = HealthDecision(None)

    def _do(self, happened: TaskEventType, fails: bool = False) -> None:
        self.web = apply(self.web, event(happened, self.now_s * S, fails_task=fails))

    @property
    def _good(self) -> bool:
        return self.web.state == "running" and self.check_since_s is not None

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.good_s = self.good_s + 1 if self._good else 0
            self.look()

    @precondition(lambda self: self.web.state == "pending")
    @rule()
    def start(self) -> None:
        self._do(TaskEventType.STARTED)

    @precondition(lambda self: self.web.state == "running")
    @rule()
    def restart(self) -> None:
        self._do(TaskEventType.RESTARTING)
        self.good_s = 0

    @rule()
    def check_passes(self) -> None:
        if self.check_since_s is None:
            self.check_since_s = self.now_s

    @rule()
    def check_fails(self) -> None:
        self.check_since_s = None
        self.good_s = 0

    def look(self) -> None:
        if self.verdict.healthy is not None:
            return
        since_ns = None if self.check_since_s is None else self.check_since_s * S
        view = HealthView({"web": self.web}, since_ns)
        self.verdict = judge(rules(), TASKS[:1], view, self.now_s * S)
        if self.verdict.healthy is True:
            assert self.good_s >= MIN_S
        if self.verdict.healthy is False:
            assert self.now_s >= DEADLINE_S
            assert self.good_s < MIN_S

    @invariant()
    def decided_by_the_deadline(self) -> None:
        if self.now_s >= DEADLINE_S:
            assert self.verdict.healthy is not None


Life.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestLife = Life.TestCase


def test_tasks_of_an_unhealthy_allocation_are_told_why() -> None:
    failed = task((TaskEventType.STARTED, 1), (TaskEventType.NOT_RESTARTING, 2), fails=True)
    dead = task((TaskEventType.STARTED, 1), (TaskEventType.KILLED, 2))
    found = {
        name: unhealthy_messages(rules(), TASKS, {"web": state, "init": DONE})
        for name, state in {"f": failed, "d": dead, "p": TaskState(), "r": RUNS}.items()
    }
    assert found == {
        "f": {"web": "Unhealthy because of failed task"},
        "d": {"web": "Unhealthy because of dead task"},
        "p": {"web": "Task not running by healthy_deadline of 1m0s"},
        "r": {"web": "Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s"},
    }
