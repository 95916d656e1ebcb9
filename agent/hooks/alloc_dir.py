"""The directories that an allocation's tasks share, and their removal."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from agent.hooks.base import SetupError
from agent.hooks.secrets_mount import unmount_below
from agent.paths import AllocPaths

_SHARED = {"data": 0o777, "logs": 0o777, "tmp": 0o1777}


def create(paths: AllocPaths) -> None:
    """Make them; those that exist stay as they are."""
    try:
        paths.shared.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, mode in _SHARED.items():
            directory = paths.shared / name
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
    except OSError as error:
        raise SetupError(
            f"cannot make the allocation's directories: {error}", recoverable=True
        ) from None


async def remove(paths: AllocPaths) -> None:
    """Delete everything of the allocation; links are removed, never followed."""
    await asyncio.to_thread(_remove, paths.root)


def _remove(root: Path) -> None:
    unmount_below(root)
    shutil.rmtree(root, ignore_errors=True)
