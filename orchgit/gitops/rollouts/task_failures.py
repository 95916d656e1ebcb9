"""Why the allocations of a job version failed, as text for the person who pushed it. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from orchgit.model.allocation import Allocation, ClientStatus, TaskEvent, TaskState
from orchgit.model.base import Model

MAX_SHOWN = 3
_SETUP_FAILURES = frozenset(
    (
        "Setup Failure",
        "Task hook failed",
        "Failed Validation",
        "Failed Artifact Download",
        "Driver Failure",
    )
)
_TERMINATED = "Terminated"
_KILLING = "Killing"
_STARTED = "Started"


class TaskFailure(Model):
    """One way in which tasks of a job failed, seen in `alike` allocations.

    `task` is '' if the allocation failed as a whole. `has_output`: the task ran, so it may have
    written output; `output` is the end of what it wrote to `stream`, stderr or stdout.
    """

    namespace: str = "default"
    job_id: str = ""
    alloc_id: str = ""
    node_name: str = ""
    task: str = ""
    reason: str = ""
    restarts: int = 0
    alike: int = 1
    has_output: bool = False
    stream: str = "stderr"
    output: str = ""


def task_failures(allocations: Iterable[Allocation], job_version: int) -> list[TaskFailure]:
    """Returns one entry for each different failure of this version, the newest allocation's first,
    at most `MAX_SHOWN`."""
    newest_first = sorted(
        (each for each in allocations if each.job_version == job_version),
        key=lambda each: (each.create_index, each.id),
        reverse=True,
    )
    found: dict[tuple[str, str], TaskFailure] = {}
    for allocation in newest_first:
        for failure in _failures_of(allocation):
            key = (failure.task, failure.reason)
            known = found.get(key)
            found[key] = failure if known is None else replace(known, alike=known.alike + 1)
    return list(found.values())[:MAX_SHOWN]


def _failures_of(allocation: Allocation) -> Iterable[TaskFailure]:
    whole = TaskFailure(
        namespace=allocation.namespace,
        job_id=allocation.job_id,
        alloc_id=allocation.id,
        node_name=allocation.node_name,
    )
    failed = [
        (name, state, event)
        for name, state in sorted((allocation.task_states or {}).items())
        if (event := _failing_event(state)) is not None
    ]
    for name, state, event in failed:
        yield replace(
            whole,
            task=name,
            reason=_reason(event),
            restarts=state.restarts,
            has_output=event.type == _TERMINATED,
        )
    if not failed and (reason := _of_whole(allocation)):
        # What a task that is not healthy wrote last often says why.
        running = sorted(
            name
            for name, state in (allocation.task_states or {}).items()
            if state.state == "running"
        )
        yield replace(whole, task="".join(running[:1]), reason=reason, has_output=bool(running))


def _failing_event(state: TaskState) -> TaskEvent | None:
    """Returns the last event by which the task failed, or None. A task that orchgit killed has not
    failed."""
    found, killing = None, False
    for event in state.events:
        if event.type in (_STARTED, _KILLING):
            killing = event.type == _KILLING
        crashed = event.type == _TERMINATED and bool(event.exit_code or event.signal)
        fatal = event.type == _KILLING and event.fails_task
        if event.type in _SETUP_FAILURES or fatal or (crashed and not killing):
            found = event
    return found


def _reason(event: TaskEvent) -> str:
    if event.type != _TERMINATED:
        return event.display_message or event.type
    ended = f"exit code {event.exit_code}"
    if event.signal:
        known = {each.value: each.name for each in signal.Signals}
        ended = f"killed by {known.get(event.signal, f'signal {event.signal}')}"
    if event.details.get("oom_killed") == "true":
        return f"{ended}: it used more memory than resources.memory allows"
    said = event.details.get("exit_message")
    return f"{ended}: {said}" if said else ended


def _of_whole(allocation: Allocation) -> str:
    if allocation.client_status == ClientStatus.FAILED:
        return allocation.client_description or "failed"
    if allocation.client_status == ClientStatus.LOST:
        return "its node was lost"
    health = allocation.deployment_status
    if health is not None and health.healthy is False:
        return "not healthy by its healthy_deadline"
    return ""


def failure_lines(failure: TaskFailure) -> Sequence[str]:
    """Returns the lines that show a failure: where, why, the end of its output, and a command."""
    allocation = failure.alloc_id[:8]
    where = f"allocation {allocation} on {failure.node_name}"
    what = f"task {failure.task}: {failure.reason}" if failure.task else failure.reason
    notes = []
    if failure.restarts:
        notes.append(f"{failure.restarts} restart{'s' * (failure.restarts != 1)}")
    if failure.alike > 1:
        more = failure.alike - 1
        notes.append(f"{more} more allocation{'s' * (more != 1)} failed the same way")
    suffix = f" ({', '.join(notes)})" if notes else ""
    lines = [f"     {where}: {what}{suffix}"]
    lines += [f"     | {line}" for line in failure.output.splitlines()]
    stream = "" if failure.stream == "stdout" else "-stderr "
    look = f"orchgit alloc status{_namespace(failure)} {allocation}"
    if failure.has_output:
        look = f"orchgit alloc logs{_namespace(failure)} {stream}{allocation} {failure.task}"
    return [*lines, f"     look further: {look}"]


def _namespace(failure: TaskFailure) -> str:
    return "" if failure.namespace == "default" else f" -namespace {failure.namespace}"


def last_lines(data: bytes, max_lines: int = 10, max_columns: int = 200) -> str:
    """Returns the end of a log as text of whole lines, long ones cut."""
    text = data.decode("utf-8", "replace").rstrip("\n")
    lines = text.split("\n")[-max_lines:] if text else []
    return "\n".join(
        line if len(line) <= max_columns else f"{line[: max_columns - 3]}..." for line in lines
    )
