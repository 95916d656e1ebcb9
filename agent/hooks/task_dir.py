"""The task's own directories: `local`, `secrets` (its owner's only) and `tmp`."""

from __future__ import annotations

from agent.hooks.base import SetupError, TaskSetup

_MODES = {"local": 0o777, "tmp": 0o1777, "secrets": 0o700, "private": 0o700}


async def prepare(setup: TaskSetup) -> None:
    base = setup.paths.task_dir
    try:
        base.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, mode in _MODES.items():
            directory = base / name
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
    except OSError as problem:
        raise SetupError(f"cannot make the directories of the task: {problem}") from None
