"""The socket of the task API among the task's secrets."""

from __future__ import annotations

import structlog

from agent.hooks.base import TaskSetup

_log = structlog.get_logger(component="agent")


async def prepare(setup: TaskSetup) -> None:
    """A task that does not use the API runs without it."""
    if setup.task_api is None:
        return
    try:
        await setup.task_api.serve(setup.alloc.id, setup.task.name, setup.paths.secrets)
    except OSError as error:
        _log.warning(
            "cannot serve the API to a task",
            alloc=setup.alloc.id,
            task=setup.task.name,
            error=str(error),
        )
