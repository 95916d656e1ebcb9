"""The events that tell the servers how an attempt of a task ended, and what follows. Pure."""

from __future__ import annotations

from agent.drivers.base import ExitResult
from agent.drivers.config import ConfigError
from agent.hooks.base import FatalSetupError, SetupError
from agent.tasks import task_state
from agent.tasks.lifecycle import GroupEnd
from agent.tasks.restarts import WITHIN_POLICY, RestartDecision
from agent.tasks.task_state import TaskEventType
from orchgit.durations import to_text
from orchgit.model.allocation import TaskEvent


def terminated_event(result: ExitResult, now_ns: int) -> TaskEvent:
    """The event of an attempt that ran; it carries the time at which the attempt ended."""
    message = f"Exit Code: {result.exit_code}"
    if result.signal:
        message += f", Signal: {result.signal}"
    if result.error:
        message += f', Exit Message: "{result.error}"'
    details = {"oom_killed": str(result.oom_killed).lower()}
    if result.error:
        details["exit_message"] = result.error
    return task_state.event(
        TaskEventType.TERMINATED,
        result.finished_ns or now_ns,
        message,
        details,
        exit_code=result.exit_code,
        signal=result.signal,
    )


_FIELDS = {
    TaskEventType.SETUP_FAILURE: "setup_error",
    TaskEventType.ARTIFACT_FAILED: "download_error",
    TaskEventType.VALIDATION_FAILED: "validation_error",
    TaskEventType.DRIVER_FAILURE: "driver_error",
}


def start_failure_event(error: Exception, now_ns: int) -> TaskEvent:
    """The event of an attempt that could not start."""
    kind = TaskEventType.DRIVER_FAILURE
    if isinstance(error, ConfigError):
        kind = TaskEventType.VALIDATION_FAILED
    elif isinstance(error, SetupError):
        kind = error.event_type
    text = str(error)
    if isinstance(error, FatalSetupError):
        return task_state.event(kind, now_ns, text, fails_task=True)
    return task_state.event(kind, now_ns, text, None, **{_FIELDS.get(kind, "message"): text})


def decision_event(decision: RestartDecision, now_ns: int) -> TaskEvent:
    """The event of what the restart policy decided, where it ends the task by a failure or starts
    it again."""
    if not decision.restart:
        return task_state.event(
            TaskEventType.NOT_RESTARTING,
            now_ns,
            decision.reason,
            restart_reason=decision.reason,
            fails_task=True,
        )
    said = f"Task restarting in {to_text(decision.delay_ns)}"
    if decision.reason not in ("", WITHIN_POLICY):
        said = f"{decision.reason} - {said}"
    return task_state.event(
        TaskEventType.RESTARTING,
        now_ns,
        said,
        restart_reason=decision.reason,
        start_delay_ns=decision.delay_ns,
    )


def group_end_event(end: GroupEnd, now_ns: int) -> TaskEvent:
    """The event of a task that must end because of another one."""
    if end.because is TaskEventType.SIBLING_FAILED:
        said = f'Task\'s sibling "{end.task_name}" failed'
        return task_state.event(end.because, now_ns, said, failed_sibling=end.task_name)
    said = (
        "Leader Task in Group dead"
        if end.because is TaskEventType.LEADER_DEAD
        else "Main tasks in the group died"
    )
    return task_state.event(end.because, now_ns, said)
