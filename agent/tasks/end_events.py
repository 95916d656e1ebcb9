"""The events that tell the servers how an attempt of a task ended, and what follows. Pure."""

from __future__ import annotations

from agent.drivers.base import ExitResult
from agent.hooks.base import SetupError
from agent.tasks import task_state
from agent.tasks.restarts import RestartDecision
from agent.tasks.task_state import TaskEventType
from orchgit.model.allocation import TaskEvent
from orchgit.model.base import NS_PER_S


def terminated_event(result: ExitResult, now_ns: int) -> TaskEvent:
    """The event of an attempt that ran; it carries the time at which the attempt ended."""
    message = f"Exit Code: {result.exit_code}"
    if result.signal:
        message += f", Signal: {result.signal}"
    if result.oom_killed:
        message += ', Exit Message: "OOM Killed"'
    elif result.error:
        message += f', Exit Message: "{result.error}"'
    return task_state.event(
        TaskEventType.TERMINATED,
        result.finished_ns or now_ns,
        message,
        exit_code=result.exit_code,
        signal=result.signal,
        driver_message=result.error,
        details={
            "exit_code": str(result.exit_code),
            "signal": str(result.signal),
            "oom_killed": str(result.oom_killed).lower(),
        },
    )


def start_failure_event(error: Exception, now_ns: int) -> TaskEvent:
    """The event of an attempt that could not start."""
    kind, field = TaskEventType.DRIVER_FAILURE, "driver_error"
    if isinstance(error, SetupError):
        kind, field = error.event_type, "setup_error"
        if kind is TaskEventType.ARTIFACT_FAILED:
            field = "download_error"
    return task_state.event(kind, now_ns, str(error), **{field: str(error)})


def decision_event(decision: RestartDecision, now_ns: int) -> TaskEvent:
    """The event of what the restart policy decided."""
    if decision.restart:
        return task_state.event(
            TaskEventType.RESTARTING,
            now_ns,
            f"Task restarting in {decision.delay_ns / NS_PER_S:g}s",
            restart_reason=decision.reason,
            start_delay_ns=decision.delay_ns,
        )
    return task_state.event(
        TaskEventType.NOT_RESTARTING,
        now_ns,
        decision.reason,
        restart_reason=decision.reason,
        fails_task=decision.failed,
    )
