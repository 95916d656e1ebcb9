"""The task's artifacts, fetched once, before its first start."""

from __future__ import annotations

from agent.hooks.base import TaskSetup
from agent.tasks import task_state
from agent.tasks.task_state import TaskEventType

_STEP = "artifacts"


async def prepare(setup: TaskSetup) -> None:
    if not setup.task.artifacts or _STEP in setup.done:
        return
    from agent.hooks.fetching import fetch  # few tasks need it

    setup.emit(
        task_state.event(
            TaskEventType.ARTIFACTS_DOWNLOADING,
            setup.clock.now_ns(),
            "Client is downloading artifacts",
        )
    )
    interpolate = setup.environment().interpolate
    for artifact in setup.task.artifacts:
        user = setup.user() if artifact.chown else None
        await fetch(artifact, interpolate, setup.paths, setup.fetch_limits, user)
    setup.done.add(_STEP)
