"""The steps before a task (or an allocation) starts, one per file.

A task hook is `async def prepare(setup: TaskSetup) -> None`: it reads the setup, touches the task's
directory, and adds what the driver must know. `TASK_HOOKS` is their order. Every hook may run
again for the next attempt, and must accept the files of its earlier run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent.hooks import (
    artifacts,
    csi_plugin,
    devices,
    dispatch_payload,
    identities,
    network,
    task_api,
    task_dir,
    templates,
    vault,
    volumes,
)
from agent.hooks.base import TaskSetup

TaskHook = Callable[[TaskSetup], Awaitable[None]]

TASK_HOOKS: tuple[TaskHook, ...] = (
    task_dir.prepare,
    task_api.prepare,
    network.prepare,
    volumes.prepare,
    devices.prepare,
    identities.prepare,
    csi_plugin.prepare,
    vault.prepare,
    dispatch_payload.prepare,
    artifacts.prepare,
    templates.prepare,
)
