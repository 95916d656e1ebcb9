"""What follows the end of an attempt: a restart, the task's failure, or its success."""

from __future__ import annotations

from agent.context import AllocContext
from agent.hooks.base import FatalSetupError
from agent.tasks.end_events import decision_event, start_failure_event
from agent.tasks.lifecycle import restarts_on_success
from agent.tasks.progress import TaskProgress
from agent.tasks.restarts import AttemptEnd, RestartDecision, RestartHistory, decide
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.task import Task


def follow_policy(
    progress: TaskProgress, context: AllocContext, task: Task, end: AttemptEnd, now_ns: int
) -> None:
    """Moves the task on as its restart policy says."""
    record = progress.record
    decision, history = decide(
        task.restart_policy or context.group.restart_policy,
        RestartHistory(record.restart_count, record.restart_window_ns),
        end,
        restart_on_success=restarts_on_success(task, context.job.type),
        now_ns=now_ns,
        seed=f"{context.alloc.id}/{task.name}",
    )
    progress.save(
        restart_count=history.count,
        restart_window_ns=history.window_start_ns,
        next_start_ns=now_ns + decision.delay_ns if decision.restart else 0,
    )
    if decision.restart or decision.failed:
        progress.add(decision_event(decision, now_ns))
    else:
        progress.end()


def follow_failed_start(
    progress: TaskProgress,
    context: AllocContext,
    task: Task,
    error: OrchgitError | OSError,
    now_ns: int,
) -> None:
    """The attempt could not start: the task ends for good, or goes on as its policy says."""
    progress.add(start_failure_event(error, now_ns))
    if isinstance(error, FatalSetupError):
        progress.end()
        return
    recoverable = isinstance(error, OSError) or (
        isinstance(error, DriverError) and error.recoverable
    )
    end = AttemptEnd(successful=False, start_error=str(error), recoverable=recoverable)
    follow_policy(progress, context, task, end, now_ns)


def restart_at_once(progress: TaskProgress, now_ns: int) -> None:
    """The task is started again because somebody asked for it."""
    at_once = RestartDecision(restart=True, delay_ns=0, reason="", failed=False)
    progress.add(decision_event(at_once, now_ns))
