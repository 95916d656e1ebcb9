"""A task's state as the servers see it: a table of the moves that are allowed, and their events.

Pure: (state, event) -> state. An unlisted move is a fault of the program and raises an error with
the task's history. There are Nomad's three states (pending, running, dead); the last event shows
what a task is waiting for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from orchgit.durations import to_text
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
    HOOK_FAILED = "Task hook failed"
    HOOK_MESSAGE = "Task hook message"
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
    SHUTDOWN_DELAY_SKIPPED = "Skipping shutdown delay"
    UNHEALTHY = "Alloc Unhealthy"


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
    TaskEventType.SHUTDOWN_DELAY_SKIPPED,
    TaskEventType.UNHEALTHY,
    TaskEventType.HOOK_FAILED,
    TaskEventType.HOOK_MESSAGE,
    TaskEventType.SETUP_FAILURE,
)
_SETTING_UP = (
    TaskEventType.RECEIVED,
    TaskEventType.SETUP,
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
    (DEAD, TaskEventType.UNHEALTHY): DEAD,
}


def event(
    happened: TaskEventType,
    now_ns: int,
    shown: str = "",
    details: Mapping[str, str] | None = None,
    **fields: object,
) -> TaskEvent:
    """One event that shows the text `shown`; `fields` are those of TaskEvent that its type fills.

    As in Nomad, the details of an event are its fields as text, whatever they hold, and what
    `details` adds.
    """
    texts = {name.removesuffix("_ns"): _text(name, value) for name, value in fields.items()}
    record = TaskEvent(
        type=happened.value,
        time_ns=now_ns,
        display_message=shown,
        details=texts | dict(details or {}),
        message=(details or {}).get("message", ""),
    )
    return msgspec.structs.replace(record, **fields)


def _text(name: str, value: object) -> str:
    if name == "kill_timeout_ns":
        return to_text(int(str(value)))
    return str(value).lower() if isinstance(value, bool) else str(value)


def kill_request(now_ns: int, message: str = "") -> TaskEvent:
    """The request to end tasks for good; `message` is shown instead of what is sent to the task."""
    return event(TaskEventType.KILLING, now_ns, message)


def killing_event(request: TaskEvent, kill_timeout_ns: int, now_ns: int) -> TaskEvent:
    """The event of a task that is about to be ended because of `request`. A request that fails the
    task is an event of its own."""
    is_kill = request.type == TaskEventType.KILLING
    if is_kill and request.fails_task:
        return request
    said = request.display_message if is_kill else ""
    default = f"Sent interrupt. Waiting {to_text(kill_timeout_ns)} before force killing"
    return event(TaskEventType.KILLING, now_ns, said or default, kill_timeout_ns=kill_timeout_ns)


def ended(state: TaskState, now_ns: int) -> TaskState:
    """The state of a task that is dead without an event of its own: its last attempt was a success,
    or it was killed before it ran."""
    return msgspec.structs.replace(state, state=DEAD, finished_at=datetime_of_ns(now_ns))


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
    if after == DEAD and state.state != DEAD:
        changes["finished_at"] = moment
    if state.state == DEAD and after == PENDING:
        changes |= {"failed": False, "finished_at": None}
    return msgspec.structs.replace(state, **changes)


def history(state: TaskState) -> str:
    """The recent events as one line, for messages about a broken invariant."""
    seen = ", ".join(f"{entry.type}@{entry.time_ns}" for entry in state.events)
    return f"events so far: {seen or 'none'}"
