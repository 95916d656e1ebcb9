"""The events of an attempt's end: what they tell, and in which field."""

from __future__ import annotations

import pytest

from agent.drivers.base import ExitResult
from agent.hooks.base import SetupError
from agent.tasks.end_events import decision_event, start_failure_event, terminated_event
from agent.tasks.restarts import RestartDecision
from agent.tasks.task_state import TaskEventType
from orchgit.errors import DriverError


def test_terminated_event_carries_the_time_of_the_end() -> None:
    assert terminated_event(ExitResult(finished_ns=5), now_ns=9).time_ns == 5
    assert terminated_event(ExitResult(), now_ns=9).time_ns == 9


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ExitResult(exit_code=3), "Exit Code: 3"),
        (ExitResult(exit_code=137, signal=9), "Exit Code: 137, Signal: 9"),
        (
            ExitResult(exit_code=137, oom_killed=True, error="OOM Killed"),
            'Exit Code: 137, Exit Message: "OOM Killed"',
        ),
        (ExitResult(exit_code=-1, error="lost"), 'Exit Code: -1, Exit Message: "lost"'),
    ],
)
def test_terminated_event_names_code_signal_and_error(result: ExitResult, message: str) -> None:
    assert terminated_event(result, now_ns=1).display_message == message


@pytest.mark.parametrize(
    ("error", "kind", "field"),
    [
        (DriverError("no"), TaskEventType.DRIVER_FAILURE, "driver_error"),
        (SetupError("no"), TaskEventType.HOOK_FAILED, "message"),
        (
            SetupError("no", event_type=TaskEventType.ARTIFACT_FAILED),
            TaskEventType.ARTIFACT_FAILED,
            "download_error",
        ),
    ],
)
def test_start_failure_names_its_cause(error: Exception, kind: TaskEventType, field: str) -> None:
    event = start_failure_event(error, now_ns=1)
    assert (event.type, event.details) == (kind, {field: "no"})


def test_decision_event_tells_the_delay_or_the_failure() -> None:
    again = decision_event(RestartDecision(True, 5 * 10**9, "why", failed=True), now_ns=1)
    assert (again.type, again.display_message) == ("Restarting", "why - Task restarting in 5s")
    over = decision_event(RestartDecision(False, 0, "why", failed=True), now_ns=1)
    assert (over.type, over.fails_task, over.restart_reason) == ("Not Restarting", True, "why")
