"""Finds again what the hooks gave a task that an agent before this one started: its variables, its
devices, and the socket of the task API."""

from __future__ import annotations

import structlog

from agent.hooks import devices, task_api, vault
from agent.hooks.base import TaskSetup
from agent.hooks.rendering import recall_templates
from agent.identities import placement
from orchgit.errors import OrchgitError

_log = structlog.get_logger(component="agent")


async def resume(setup: TaskSetup) -> None:
    """Never raises: the task runs, and what is missing is logged."""
    await task_api.prepare(setup)
    try:
        recall_templates(setup)
        placement.recall(setup)
        vault.recall(setup)
        await devices.prepare(setup)
    except (OrchgitError, OSError) as error:
        _log.warning(
            "cannot find again all that a running task was given",
            alloc=setup.alloc.id,
            task=setup.task.name,
            error=str(error),
        )
