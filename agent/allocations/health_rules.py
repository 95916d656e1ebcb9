"""Whether a new allocation is healthy, for its deployment (or its migration). Pure.

Healthy: every task is as its lifecycle wants it (and, with `checks`, every check passes) without a
break for `min_healthy_time`. Unhealthy: a task failed for good, or the deadline came first. Once
decided it does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.tasks.lifecycle import Phase, is_sidecar, phase
from agent.tasks.task_state import DEAD, PENDING, RUNNING
from orchgit.durations import to_text
from orchgit.model.allocation import TaskState
from orchgit.model.base import ns_of_datetime
from orchgit.model.group import MigrateStrategy, UpdateStrategy
from orchgit.model.task import Task


@dataclass(frozen=True, slots=True)
class HealthRules:
    use_checks: bool
    manual: bool
    min_healthy_time_ns: int
    healthy_deadline_ns: int
    deadline_ns: int
    """Unix nanoseconds after which the allocation is unhealthy."""


@dataclass(frozen=True, slots=True)
class HealthView:
    """The state that the rules judge. `checks_passing_since_ns`: None while a check fails."""

    states: Mapping[str, TaskState]
    checks_passing_since_ns: int | None = 0


@dataclass(frozen=True, slots=True)
class HealthDecision:
    """`healthy` None: undecided; look again at `look_again_ns` or when something changes."""

    healthy: bool | None
    reason: str = ""
    look_again_ns: int = 0


def rules_of(strategy: UpdateStrategy | MigrateStrategy, started_ns: int) -> HealthRules:
    """The rules for an allocation that arrived at `started_ns`."""
    return HealthRules(
        use_checks=strategy.health_check in ("", "checks"),
        manual=strategy.health_check == "manual",
        min_healthy_time_ns=strategy.min_healthy_time_ns,
        healthy_deadline_ns=strategy.healthy_deadline_ns,
        deadline_ns=started_ns + strategy.healthy_deadline_ns,
    )


def judge(
    rules: HealthRules, tasks: Iterable[Task], view: HealthView, now_ns: int
) -> HealthDecision:
    """Decides at `now_ns`: healthy, unhealthy or not known yet."""
    tasks = [task for task in tasks if phase(task) is not Phase.POSTSTOP]
    for task in tasks:
        state = view.states[task.name]
        if state.state == DEAD and state.failed:
            return HealthDecision(False, f'Unhealthy because of failed task "{task.name}"')
    if rules.manual:
        return HealthDecision(None)
    since_ns = _good_since(rules, tasks, view)
    if since_ns is not None and now_ns >= since_ns + rules.min_healthy_time_ns:
        return HealthDecision(True)
    if now_ns >= rules.deadline_ns:
        return HealthDecision(False, _missed_deadline(rules, tasks, view))
    if since_ns is None:
        return HealthDecision(None, look_again_ns=rules.deadline_ns)
    healthy_ns = since_ns + rules.min_healthy_time_ns
    return HealthDecision(None, look_again_ns=min(healthy_ns, rules.deadline_ns))


def unhealthy_messages(
    rules: HealthRules, tasks: Iterable[Task], states: Mapping[str, TaskState]
) -> dict[str, str]:
    """What the tasks of an unhealthy allocation are told, by name (the recorded texts)."""
    deadline = f"by healthy_deadline of {to_text(rules.healthy_deadline_ns)}"
    found = {}
    for task in tasks:
        state = states[task.name]
        is_step = phase(task) is not Phase.MAIN and not is_sidecar(task)
        if state.failed:
            found[task.name] = "Unhealthy because of failed task"
        elif state.state == PENDING and phase(task) is not Phase.POSTSTOP:
            found[task.name] = f"Task not running {deadline}"
        elif state.state == DEAD and not is_step:
            found[task.name] = "Unhealthy because of dead task"
        elif state.state == RUNNING:
            min_time = to_text(rules.min_healthy_time_ns)
            found[task.name] = f"Task not running for min_healthy_time of {min_time} {deadline}"
    return found


def _good_since(rules: HealthRules, tasks: list[Task], view: HealthView) -> int | None:
    """Since when tasks and checks have been as wanted, or None when they are not."""
    latest_ns = 0
    for task in tasks:
        since_ns = _task_good_since(task, view.states[task.name])
        if since_ns is None:
            return None
        latest_ns = max(latest_ns, since_ns)
    if not rules.use_checks:
        return latest_ns
    if view.checks_passing_since_ns is None:
        return None
    return max(latest_ns, view.checks_passing_since_ns)


def _task_good_since(task: Task, state: TaskState) -> int | None:
    moment = state.started_at
    if phase(task) is not Phase.MAIN and not is_sidecar(task):
        if not state.is_successful:
            return None
        moment = state.finished_at
    elif state.state != RUNNING:
        return None
    return ns_of_datetime(moment) if moment else None


def _missed_deadline(rules: HealthRules, tasks: list[Task], view: HealthView) -> str:
    waiting = [
        task.name for task in tasks if _task_good_since(task, view.states[task.name]) is None
    ]
    if waiting:
        return f"Task not running by healthy_deadline: {', '.join(sorted(waiting))}"
    if rules.use_checks and view.checks_passing_since_ns is None:
        return "Checks not passing by healthy_deadline"
    return "Not healthy for min_healthy_time by healthy_deadline"
