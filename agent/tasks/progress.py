"""The stored record of one task: every change of it is stored, logged and announced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog

from agent.drivers.base import TaskHandle
from agent.local_state.store import LocalState, TaskRecord
from agent.tasks import task_state
from agent.tasks.task_state import DEAD, RUNNING, TRANSITIONS, TaskEventType
from orchgit.clock import Clock
from orchgit.model.allocation import TaskEvent, TaskState
from orchgit.model.task import Task

_log = structlog.get_logger(component="agent")


class TaskProgress:
    """`changed` is called after each event. Only this object writes the task's record."""

    def __init__(
        self,
        alloc_id: str,
        task: Task,
        record: TaskRecord,
        local: LocalState,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.name = task.name
        self.record = record
        self._driver = task.driver
        self._alloc_id = alloc_id
        self._local = local
        self._clock = clock
        self._changed = changed

    @property
    def key(self) -> str:
        """The latest attempt's key, as drivers know it."""
        return f"{self._alloc_id}/{self.name}/{self.record.attempt}"

    @property
    def state(self) -> TaskState:
        return self.record.state

    @property
    def handle(self) -> TaskHandle | None:
        """The handle of the running attempt; None when no attempt runs."""
        return self.record.handle if self.state.state == RUNNING else None

    def happened(
        self, kind: TaskEventType, shown: str, details: Mapping[str, str] | None = None
    ) -> None:
        """Add an event of this moment that shows the text."""
        self.add(task_state.event(kind, self._clock.now_ns(), shown, details))

    def add(self, event: TaskEvent) -> None:
        """Move the task's state by `event`. A dead task takes only a few."""
        if (self.state.state, event.type) not in TRANSITIONS and self.state.state == DEAD:
            return
        self.record = msgspec.structs.replace(
            self.record, state=task_state.apply(self.state, event)
        )
        self._log(event)
        self._put()
        self._changed()

    def end(self) -> None:
        """The task is dead, without an event of its own."""
        state = task_state.ended(self.state, self._clock.now_ns())
        self.record = msgspec.structs.replace(self.record, state=state)
        self._put()
        self._changed()

    def save(self, **changes: Any) -> None:
        """Change fields of the record other than its state."""
        self.record = msgspec.structs.replace(self.record, **changes)
        self._put()

    async def save_start(self, attempt: int) -> None:
        """Store that `attempt` is about to start; returns once that is on disk."""
        self.record = msgspec.structs.replace(
            self.record, attempt=attempt, starting=True, handle=None, next_start_ns=0
        )
        await self._local.start_task(self._alloc_id, self.name, self.record)

    def _put(self) -> None:
        self._local.put_task(self._alloc_id, self.name, self.record)

    def _log(self, event: TaskEvent) -> None:
        log = _log.bind(alloc=self._alloc_id, task=self.name)
        match event.type:
            case TaskEventType.STARTED:
                log.info("task started", driver=self._driver)
            case TaskEventType.TERMINATED:
                log.info("task ended", exit_code=event.exit_code, signal=event.signal)
            case (
                TaskEventType.SETUP_FAILURE
                | TaskEventType.DRIVER_FAILURE
                | TaskEventType.ARTIFACT_FAILED
                | TaskEventType.VALIDATION_FAILED
            ):
                log.warning("task cannot start", reason=event.display_message)
            case TaskEventType.RESTARTING:
                log.info("task is started again", reason=event.display_message)
            case TaskEventType.KILLING:
                log.info("task is being ended", reason=event.display_message)
            case TaskEventType.NOT_RESTARTING if event.fails_task:
                log.warning("task is not restarted", reason=event.display_message)
            case _:
                log.debug("task event", type=event.type, message=event.display_message)
