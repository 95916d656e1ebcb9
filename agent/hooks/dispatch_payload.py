"""The payload of a dispatched job, as a file in the task's `local` directory."""

from __future__ import annotations

import base64
import binascii
import os

from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside


async def prepare(setup: TaskSetup) -> None:
    wanted = setup.task.dispatch_payload
    if wanted is None or not wanted.file or not setup.job.payload:
        return
    try:
        data = base64.b64decode(setup.job.payload, validate=True)
    except binascii.Error as error:
        raise SetupError(f"cannot read the dispatch payload: {error}") from None
    write_inside(setup.paths.task_dir, f"local/{os.path.normpath(wanted.file)}", data, 0o644)
