"""A task's state as the servers see it: a table of the moves that are allowed, and their events.

Pure: (state, event) -> state. An unlisted move is a fault of the program and raises an error with
the task's history. There are Nomad's three states (pending, running, dead); the last event shows
what a task is waiting for.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from orchgit.errors import InvariantError
from orchgit.model.allocation import TaskEvent, TaskState
from orchgit.model.base import datetime_of_ns

MAX_EVENTS = 10
"""As many as Nomad keeps; older ones are dropped."""


class TaskEventType(StrEnum):
    """The types of task events; the values are Nomad's names."""

    RECEIVED = "Received"
    SETUP = "Task Setup"
    SETUP_FAILURE = "Setup Failure"
    VALIDATION_FAILED = "Failed Validation"
    ARTIFACTS_DOWNLOADING = "Downloading Artifacts"
    ARTIFACT_FAILED = "Failed Artifact Download"
    TEMPLATE = "Template"
    DRIVER = "Driver"
    DRIVER_FAILURE = "Driver Failure"
    STARTED = "Started"
    TERMINATED = "Terminated"
    RESTARTING = "Restarting"
    NOT_RESTARTING = "Not Restarting"
    RESTART_REQUESTED = "Restart Signaled"
    SIGNALING = "Signaling"
    KILLING = "Killing"
    KILLED = "Killed"
    SIBLING_FAILED = "Sibling Task Failed"
    LEADER_DEAD = "Leader Task Dead"
    MAIN_DEAD = "Main Tasks Dead"
    SHUTDOWN_DELAY = "Waiting for shutdown delay"


PENDING, RUNNING, DEAD = "pending", "running", "dead"

_NOTES = (
    TaskEventType.DRIVER,
    TaskEventType.TEMPLATE,
    TaskEventType.RESTART_REQUESTED,
    TaskEventType.SIGNALING,
    TaskEventType.KILLING,
    TaskEventType.SIBLING_FAILED,
    TaskEventType.LEADER_DEAD,
    TaskEventType.MAIN_DEAD,
    TaskEventType.SHUTDOWN_DELAY,
)
_SETTING_UP = (
    TaskEventType.RECEIVED,
    TaskEventType.SETUP,
    TaskEventType.SETUP_FAILURE,
    TaskEventType.VALIDATION_FAILED,
    TaskEventType.ARTIFACTS_DOWNLOADING,
    TaskEventType.ARTIFACT_FAILED,
    TaskEventType.DRIVER_FAILURE,
)

TRANSITIONS: dict[tuple[str, TaskEventType], str] = {
    **{(PENDING, note): PENDING for note in (*_NOTES, *_SETTING_UP)},
    **{(RUNNING, note): RUNNING for note in _NOTES},
    (PENDING, TaskEventType.STARTED): RUNNING,
    (PENDING, TaskEventType.RESTARTING): PENDING,
    (PENDING, TaskEventType.NOT_RESTARTING): DEAD,
    (PENDING, TaskEventType.KILLED): DEAD,
    (RUNNING, TaskEventType.TERMINATED): RUNNING,
    (RUNNING, TaskEventType.RESTARTING): PENDING,
    (RUNNING, TaskEventType.NOT_RESTARTING): DEAD,
    (RUNNING, TaskEventType.KILLED): DEAD,
    # A person may restart a task that has ended, together with its whole allocation.
    (DEAD, TaskEventType.RESTART_REQUESTED): PENDING,
}


_WITHOUT_MESSAGE = frozenset(
    (TaskEventType.RECEIVED, TaskEventType.STARTED, TaskEventType.KILLING, TaskEventType.KILLED)
)


def event(happened: TaskEventType, now_ns: int, message: str = "", **fields: object) -> TaskEvent:
    """One event; `fields` are those of TaskEvent that this kind of event fills.

    As in Nomad, `details` holds every field that is set, as text, and `message` repeats the shown
    text only where no field has it.
    """
    shown = "" if fields or happened in _WITHOUT_MESSAGE else message
    given = {name: value for name, value in fields.items() if name != "details"}
    record = TaskEvent(
        type=happened.value,
        time_ns=now_ns,
        message=shown,
        display_message=message,
        details=_details({"message": shown, **given}) | _details(fields.get("details") or {}),
    )
    return msgspec.structs.replace(record, **given)


def killing_event(now_ns: int, why: str) -> TaskEvent:
    """The event of a task that is about to be ended, and the reason."""
    return event(TaskEventType.KILLING, now_ns, why or "Sent interrupt", kill_reason=why)


def _details(fields: object) -> dict[str, str]:
    if not isinstance(fields, dict):
        return {}
    return {
        name.removesuffix("_ns"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if value
    }


def apply(state: TaskState, entry: TaskEvent) -> TaskState:
    """The state after `entry`; raises InvariantError for a move that is not in the table."""
    happened = TaskEventType(entry.type)
    after = TRANSITIONS.get((state.state, happened))
    if after is None:
        raise InvariantError(
            f"cannot take a task from {state.state!r} by {entry.type!r}: {history(state)}"
        )
    moment = datetime_of_ns(entry.time_ns)
    changes: dict[str, object] = {
        "state": after,
        "events": [*state.events, entry][-MAX_EVENTS:],
        "failed": state.failed or entry.fails_task,
    }
    if happened is TaskEventType.STARTED:
        changes |= {"started_at": moment, "finished_at": None}
    if happened is TaskEventType.RESTARTING:
        changes |= {"restarts": state.restarts + 1, "last_restart": moment}
    if after == DEAD:
        changes["finished_at"] = moment
    if state.state == DEAD and after == PENDING:
        changes |= {"failed": False, "finished_at": None}
    return msgspec.structs.replace(state, **changes)


def history(state: TaskState) -> str:
    """The recent events as one line, for messages about a broken invariant."""
    seen = ", ".join(f"{entry.type}@{entry.time_ns}" for entry in state.events)
    return f"events so far: {seen or 'none'}"
